#include "daemon/watch/heap/heap_room.h"

#include <algorithm>
#include <map>

namespace incident::daemon {

std::optional<std::vector<std::uint32_t>> heaps_that_give_way(std::vector<HeldHeap> held, std::uint64_t free,
                                                              std::uint32_t user, std::uint64_t bytes) {
    std::map<std::uint32_t, std::uint64_t> sums{{user, 0}};
    for (const HeldHeap &one : held)
        sums[one.user] += one.bytes;
    const std::uint64_t gets = sums[user] + bytes;
    std::vector<std::uint32_t> give_way;
    while (free < bytes) {
        const auto sum = [](const auto &one) { return one.second; };
        const auto most = std::ranges::max_element(sums.rbegin(), sums.rend(), {}, sum); // root's as the last
        const auto last = std::ranges::max_element(
            held, {}, [&](const HeldHeap &one) { return one.user == most->first ? one.since + 1 : 0; });
        if (most->first == user || last == held.end() || most->second - last->bytes < gets)
            return std::nullopt;
        most->second -= last->bytes;
        free += last->bytes;
        give_way.push_back(last->pid);
        held.erase(last);
    }
    return give_way;
}

} // namespace incident::daemon
