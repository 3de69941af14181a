// Shares the memory of recorded heaps between users: whose processes give way to another's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace incident::daemon {

struct HeldHeap {
    std::uint32_t pid = 0;
    std::uint32_t user = 0;  // rules::user_of()
    std::uint64_t since = 0; // of two the later one has the greater
    std::uint64_t bytes = 0;
};

// The processes that give way so that a process of `user` has `bytes`, of which `free` are free; empty: none needs to.
// It is always the last one of the user who has most, and only as long as she keeps at least as much as `user` gets:
// so nobody's can take turns with another's.  nullopt: there is no room for it.
std::optional<std::vector<std::uint32_t>> heaps_that_give_way(std::vector<HeldHeap> held, std::uint64_t free,
                                                              std::uint32_t user, std::uint64_t bytes);

} // namespace incident::daemon
