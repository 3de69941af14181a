#include "postmortem/heap/double_free.h"

#include <unordered_set>

namespace incident::postmortem {

std::optional<Life> last_double_free(const Heap &heap, std::uint64_t t_ns) {
    // Suspects are addresses that were freed before and not live at the second free: few, among many records.
    std::unordered_set<std::uint64_t> freed, suspect;
    for (const capture::HeapHistoryRecord &record : heap.known.history) {
        if (record.kind == bpf::HEAP_ALLOCATED)
            freed.erase(record.address);
        else if (record.kind == bpf::HEAP_FREED && !freed.insert(record.address).second &&
                 (record.flags & bpf::HEAP_UNKNOWN))
            suspect.insert(record.address);
    }
    std::optional<Life> last;
    const std::vector<std::uint64_t> addresses(suspect.begin(), suspect.end());
    for (const auto &[start, lives] : lives_about(heap, addresses))
        for (const Life &life : lives) {
            Life twice = life;
            std::erase_if(twice.freed_again, [&](const HeapEvent &again) { return again.t_ns > t_ns; });
            if (!twice.freed_again.empty() && (!last || last->freed_again.back().t_ns < twice.freed_again.back().t_ns))
                last = std::move(twice);
        }
    return last;
}

} // namespace incident::postmortem
