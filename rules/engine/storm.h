// The storm policy: how much is kept of many similar incidents. Within a window the first incidents of a signature are
// kept whole, the next ones light, and the rest are only counted.  Each user has these quotas for herself, and of one
// user each unit, so that neither a user nor a service makes another one's incident "only counted".
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
    std::uint64_t similar = 0;        // within these quotas in the window, this one included
    std::uint64_t counted_before = 0; // how many of them were only counted since the last bundle
    std::string signature;            // the signature that it was counted under
};

struct StormLine { // for status: a signature, of all users
    std::string signature;
    std::uint64_t seen = 0, full = 0, light = 0, counted = 0;
    std::uint64_t last_ns = 0;
};

// Bounded: at most 1024 signatures of users; the user with the most loses the least recently seen one of hers.  At most
// 16 units of a user have quotas of their own for one signature; further ones share quotas, because a unit's name may
// be new with each start (a container's, an instance's).
class StormPolicy {
public:
    explicit StormPolicy(Storm settings);
    // kind: the part of the signature that is known even if the place of the crash is not. An incident whose signature
    // is only its kind is counted under the signature that was last seen of this kind and user.
    StormAnswer judge(const std::string &signature, const std::string &kind, const ProcessFacts &process,
                      std::uint64_t t_ns);
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
