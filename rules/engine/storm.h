// The storm policy: what is kept of incidents that are all alike.  Within a window the
// first of a signature are kept whole, the next light, the rest only counted.
#pragma once

#include <memory>

#include "rules/model/rule.h"

namespace incident::rules {

struct Storm {
    std::uint32_t full = 10;                   // whole bundles of one signature …
    std::uint32_t light = 50;                  // … and light ones after them …
    Nanoseconds window{std::chrono::hours(1)}; // … within this time
};

enum class Keep { Full, Light, Count };

struct StormAnswer {
    Keep keep = Keep::Full;
    std::uint64_t alike = 0;          // of this signature in the window, this one included
    std::uint64_t counted_before = 0; // of this signature only counted since its last bundle
    std::string signature;            // the one it counted as
};

struct StormLine { // for status
    std::string signature;
    std::uint64_t seen = 0, full = 0, light = 0, counted = 0;
    std::uint64_t last_ns = 0;
};

// Bounded: at most 1024 signatures; the one not seen for longest is forgotten.
class StormPolicy {
public:
    explicit StormPolicy(Storm settings);
    // kind: all that would be known of it had nothing said where it struck.  One of which just that is known (its
    // signature is its kind) counts as one of the signature that was last seen of its kind.
    StormAnswer judge(const std::string &signature, const std::string &kind, std::uint64_t t_ns);
    std::vector<StormLine> lines(std::size_t most) const; // most seen first
    std::uint64_t counted() const;                        // over all signatures
    ~StormPolicy();
    StormPolicy(StormPolicy &&) noexcept;
    StormPolicy &operator=(StormPolicy &&) noexcept;

private:
    struct Memory;
    std::unique_ptr<Memory> memory_;
};

} // namespace incident::rules
