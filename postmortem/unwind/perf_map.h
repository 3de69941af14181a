// Reads names of generated code, which a JIT compiler writes to /tmp/perf-PID.map: "START SIZE NAME", hexadecimal
// (tools/perf/Documentation/jit-interface.txt). The crashed process wrote it, so it may be hostile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

class PerfMap {
public:
    static constexpr std::size_t entries_max = 1u << 20; // the last ones are kept: later code replaces earlier
    static constexpr std::size_t name_max = 512;         // bytes

    // `text` must outlive this object.
    explicit PerfMap(std::string_view text);

    struct Entry {
        std::uint64_t start = 0, size = 0;
        std::string_view name;
    };
    const Entry *find(std::uint64_t address) const;
    bool cut() const { return cut_; }
    std::size_t bad_lines() const { return bad_lines_; }

private:
    std::vector<Entry> entries_; // by start; if several have the same start, only the last one
    bool cut_ = false;
    std::size_t bad_lines_ = 0;
};

} // namespace incident::postmortem
