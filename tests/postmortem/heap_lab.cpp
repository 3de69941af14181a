#include "heap_lab.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::postmortem::test {

HeapLab::HeapLab() {
    snapshot.level = snapshot.asked = "history";
    snapshot.since_ns = 1;
    snapshot.history_from_ns = 1;
    snapshot.read_ns = 20'000;
}

HeapLab &HeapLab::malloc(std::uint64_t t_ns, std::uint64_t address, std::uint64_t size, std::uint64_t stack,
                         std::uint32_t tid, std::uint8_t flags) {
    snapshot.history.push_back({t_ns, address, size, stack, tid, bpf::HEAP_ALLOCATED, bpf::HEAP_MALLOC, flags, 0});
    if (!(flags & bpf::HEAP_UNLISTED)) {
        std::erase_if(snapshot.allocations, [&](const auto &live) { return live.address == address; });
        snapshot.allocations.push_back({address, size, stack, t_ns, tid, bpf::HEAP_MALLOC});
        snapshot.live = snapshot.allocations.size();
    }
    return *this;
}

HeapLab &HeapLab::free(std::uint64_t t_ns, std::uint64_t address, std::uint64_t stack, std::uint32_t tid) {
    std::uint64_t size = 0;
    std::uint8_t flags = bpf::HEAP_UNKNOWN;
    std::erase_if(snapshot.allocations, [&](const auto &live) {
        if (live.address != address)
            return false;
        size = live.size;
        flags = 0;
        return true;
    });
    snapshot.history.push_back({t_ns, address, size, stack, tid, bpf::HEAP_FREED, bpf::HEAP_FREE, flags, 0});
    return *this;
}

HeapLab &HeapLab::realloc(std::uint64_t t_ns, std::uint64_t back_ns, std::uint64_t from, std::uint64_t to,
                          std::uint64_t size, std::uint64_t stack, std::uint32_t tid) {
    free(t_ns, from, stack, tid);
    malloc(back_ns, to, size, stack, tid);
    auto record = snapshot.history.end();
    for (int i = 0; i < 2; ++i) {
        --record;
        record->function = bpf::HEAP_REALLOC;
        record->flags |= from == to ? bpf::HEAP_IN_PLACE : 0;
    }
    return *this;
}

HeapLab &HeapLab::forget(std::uint64_t t_ns) {
    std::erase_if(snapshot.history, [&](const auto &record) { return record.t_ns < t_ns; });
    snapshot.history_from_ns = t_ns;
    return *this;
}

Heap HeapLab::heap() const {
    Heap heap;
    heap.known = snapshot;
    heap.live_read = true;
    order(heap);
    return heap;
}

Biography HeapLab::at(std::uint64_t address, std::uint64_t t_ns) const {
    const std::uint64_t asked[] = {address};
    return biography(lives_about(heap(), asked), address, t_ns);
}

HeapWords HeapLab::words(std::uint64_t t_ns) {
    return {t_ns, [](std::uint64_t stack) { return stack ? fmt::format("stack {}", stack) : std::string(); },
            [](std::uint32_t tid) { return fmt::format("thread {}", tid); }};
}

std::string HeapLab::told(std::uint64_t address, std::uint64_t t_ns) const {
    const Biography biography = at(address, t_ns);
    std::string text = where_text(biography, words(t_ns));
    for (const std::string &line : life_lines(biography, words(t_ns)))
        text += "\n" + line;
    return text;
}

} // namespace incident::postmortem::test
