// /tmp/perf-PID.map, which the crashed process wrote.
#include "postmortem/unwind/perf_map.h"
#include "tests/fuzz/target.h"

namespace incident::fuzz {

// The map, and addresses that are looked for in it.
FUZZ_TARGET(perf_map) {
    Input bytes(input);
    std::uint64_t addresses[4];
    for (std::uint64_t &address : addresses)
        address = bytes.number<std::uint64_t>();
    const std::string_view text = bytes.rest();
    const postmortem::PerfMap map(text);
    for (const std::uint64_t address : addresses)
        if (const auto *entry = map.find(address)) {
            must(address >= entry->start && address - entry->start < entry->size, "an entry found has the address");
            must(entry->name.size() <= postmortem::PerfMap::name_max, "a name is not longer than its limit");
            must(entry->name.empty() || (entry->name.data() >= text.data() &&
                                         entry->name.data() + entry->name.size() <= text.data() + text.size()),
                 "a name is a part of the text");
        }
}

} // namespace incident::fuzz
