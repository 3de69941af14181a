#include "capture/collect/return_probes.h"

#include "capture/os/auxv.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace incident::capture {

namespace {

constexpr std::size_t word_max = sizeof(std::uint64_t);

struct Place {
    std::uint64_t address, trampoline, return_address;
    std::size_t size; // of the return address, in bytes
};

// All threads', by address; of one address the first, which is its thread's innermost call there.
std::vector<Place> places_of(const ProcessSnapshot &process) {
    std::vector<Place> places;
    for (const ThreadSnapshot &thread : process.threads) {
        if (!thread.returns)
            continue;
        const std::size_t size = thread.event ? word_bytes(isa_of(thread.event->regs)) : word_max;
        for (const PendingReturn &pending : thread.returns->pending)
            places.push_back({pending.place, thread.returns->trampoline, pending.return_address, size});
    }
    std::ranges::stable_sort(places, {}, &Place::address);
    const auto [from, to] = std::ranges::unique(places, {}, &Place::address);
    places.erase(from, to);
    return places;
}

void put_back(const std::vector<Place> &places, std::uint64_t address, std::span<std::uint8_t> bytes) {
    // Addresses near the end of the address space do not wrap: no stack is there.
    if (address < word_max || bytes.size() > ~std::uint64_t{0} - address)
        return;
    auto place = std::ranges::lower_bound(places, address - (word_max - 1), {}, &Place::address);
    for (; place != places.end() && place->address < address + bytes.size(); ++place) {
        if (place->address + place->size <= address)
            continue;
        const std::uint64_t from = std::max(place->address, address);
        const std::size_t skipped = from - place->address;
        const std::size_t count = std::min<std::uint64_t>(place->size - skipped, address + bytes.size() - from);
        std::uint8_t *const there = bytes.data() + (from - address);
        const auto part = [&](const std::uint64_t &word) {
            return reinterpret_cast<const std::uint8_t *>(&word) + skipped;
        };
        if (std::memcmp(there, part(place->trampoline), count) == 0)
            std::memcpy(there, part(place->return_address), count);
    }
}

void put_back(const std::vector<Place> &places, bpf::memory_window &window) {
    if (window.status == bpf::WINDOW_READ || window.status == bpf::WINDOW_PARTIAL)
        put_back(places, window.address, {window.bytes, std::min<std::size_t>(window.length, WINDOW_LEN)});
}

} // namespace

ReturnProbes return_probes_of(std::span<const std::uint8_t> event) {
    constexpr std::size_t entries_at = offsetof(bpf::returns_event, pending);
    ReturnProbes probes;
    if (event.size() < entries_at)
        return probes;
    bpf::returns_event head{}; // without its entries
    std::memcpy(static_cast<void *>(&head), event.data(), entries_at);
    probes.trampoline = head.trampoline;
    probes.cut = head.cut != 0 || head.count > PENDING_RETURNS;
    for (std::size_t i = 0; i < std::min<std::size_t>(head.count, PENDING_RETURNS); ++i) {
        bpf::pending_return pending;
        const std::size_t at = entries_at + i * sizeof pending;
        if (at + sizeof pending > event.size())
            break;
        std::memcpy(&pending, event.data() + at, sizeof pending);
        // Two probes of one function: two entries of one place.
        if (probes.pending.empty() || probes.pending.back().place != pending.place)
            probes.pending.push_back({pending.place, pending.return_address});
    }
    return probes;
}

void put_return_addresses_back(ProcessSnapshot &process) {
    const std::vector<Place> places = places_of(process);
    if (places.empty())
        return;
    for (ThreadSnapshot &thread : process.threads) {
        if (!thread.event)
            continue;
        for (StackPiece &piece : thread.stack)
            put_back(places, piece.address, piece.bytes);
        for (bpf::memory_window &window : thread.event->window)
            put_back(places, window);
    }
    for (bpf::memory_window &window : process.pointers)
        put_back(places, window);
}

} // namespace incident::capture
