#include "postmortem/heap/biography.h"

#include <algorithm>

namespace incident::postmortem {

namespace {

// Later lives rank higher; one whose beginning is not known is older than all others of its address.
std::uint64_t begun(const Life &life) {
    return life.allocated ? life.allocated->t_ns : 0;
}

// Alive, else known to have ended last, else begun last.
bool outranks(const Life &a, const Life &b, std::uint64_t t_ns) {
    if (a.alive_at(t_ns) != b.alive_at(t_ns))
        return a.alive_at(t_ns);
    const std::uint64_t a_time = std::max(begun(a), a.over_ns == UINT64_MAX ? 0 : a.over_ns);
    const std::uint64_t b_time = std::max(begun(b), b.over_ns == UINT64_MAX ? 0 : b.over_ns);
    return a_time > b_time;
}

// A free after t_ns has not happened yet.
Life as_of(const Life &life, std::uint64_t t_ns) {
    Life then = life;
    if (then.over_ns > t_ns && then.end != Life::End::unseen)
        then.end = Life::End::none;
    return then;
}

// True if the freed address was not the start of an allocation, but inside one that was alive.
bool is_stray_free(const Life &life, const std::vector<const Life *> &covering) {
    return !life.allocated && !life.size_known && life.freed && std::ranges::any_of(covering, [&](const Life *other) {
        return other->start != life.start && other->alive_at(life.freed->t_ns);
    });
}

struct Near {
    const Life *life = nullptr;
    std::uint64_t distance = 0;

    void offer(const Life &other, std::uint64_t far, std::uint64_t t_ns) {
        if (life && life->alive_at(t_ns) == other.alive_at(t_ns) ? far > distance : life && life->alive_at(t_ns))
            return;
        if (life && life->alive_at(t_ns) == other.alive_at(t_ns) && far == distance && !outranks(other, *life, t_ns))
            return;
        life = &other;
        distance = far;
    }
};

} // namespace

std::string_view function_name_of(std::uint8_t function) {
    // In the order of bpf::heap_function, which begins with 1.
    static constexpr std::string_view names[] = {
        "",        "malloc",  "calloc",  "realloc", "reallocarray",   "aligned_alloc", "posix_memalign", "operator new",
        "mallocx", "rallocx", "xallocx", "free",    "operator delete"};
    static_assert(std::size(names) == bpf::HEAP_FUNCTIONS);
    return function < std::size(names) ? names[function] : "";
}

Biography biography(const Lives &lives, std::uint64_t address, std::uint64_t t_ns) {
    Biography found;
    found.address = address;
    std::vector<const Life *> covering;
    Near past, before;
    for (const auto &[start, list] : lives)
        for (const Life &life : list) {
            if (begun(life) > t_ns)
                continue;
            if (life.covers(address) || (!life.size_known && life.start == address))
                covering.push_back(&life);
            else if (life.size_known && address >= life.past_end() && address - life.past_end() < heap_near)
                past.offer(life, address - life.past_end(), t_ns);
            else if (address < life.start && life.start - address < heap_near)
                before.offer(life, life.start - address, t_ns);
        }
    std::erase_if(covering, [&, all = covering](const Life *life) { return is_stray_free(*life, all); });
    const auto higher = [&](const Life *a, const Life *b) { return outranks(*a, *b, t_ns); };
    std::ranges::reverse(covering); // of one time the later one first
    std::ranges::stable_sort(covering, higher);
    if (!covering.empty()) {
        found.where = Biography::Where::inside;
        found.life = as_of(*covering.front(), t_ns);
        found.offset = address - found.life->start;
        if (covering.size() > 1) {
            found.previous = as_of(*covering[1], t_ns);
            found.earlier = covering.size() - 2;
        }
    } else if (past.life) {
        found.where = Biography::Where::past;
        found.life = as_of(*past.life, t_ns);
        found.offset = past.distance;
        if (before.life && before.life->alive_at(t_ns))
            found.next_above = HeapBlock{before.life->start, before.life->size};
    } else if (before.life) {
        found.where = Biography::Where::before;
        found.life = as_of(*before.life, t_ns);
        found.offset = before.distance;
    }
    if (found.where == Biography::Where::inside && past.life && past.life->alive_at(t_ns))
        found.below = as_of(*past.life, t_ns);
    return found;
}

} // namespace incident::postmortem
