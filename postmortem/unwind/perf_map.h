// Names of generated code, as a JIT compiler left them in /tmp/perf-PID.map: "START SIZE NAME", hexadecimal
// (tools/perf/Documentation/jit-interface.txt).  Written by the crashed process: hostile.
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

    // text must outlive this.
    explicit PerfMap(std::string_view text);

    struct Entry {
        std::uint64_t start = 0, size = 0;
        std::string_view name;
    };
    const Entry *find(std::uint64_t address) const;
    bool cut() const { return cut_; }
    std::size_t bad_lines() const { return bad_lines_; }

private:
    std::vector<Entry> entries_; // by start; of the same start only the last written
    bool cut_ = false;
    std::size_t bad_lines_ = 0;
};

} // namespace incident::postmortem
