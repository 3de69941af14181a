// Decides which bundles go if there are too many, or too little space for them.
//
// What is removed serves somebody who looks for the cause of a crash least: of the user, and then of the executable,
// that holds the most, the oldest that is not the best of its signature.  The best is the newest that is not light, for
// that explains most, or else the newest.  So nobody's crashes push out another's that takes less, and of each
// signature one goes last.  The subordinate ids of a user (subuid(5), 65536 each) and all others above 65535 count as
// one user in each such range, so that nobody is many.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace incident::daemon {

struct StoredBundle {
    std::string name;                 // sorts by time
    std::uint64_t bytes = 0;          // on the disk
    std::string signature;            // "": not known, so it is the best of none
    std::string exe;                  // "": not known, or no process's
    std::optional<std::uint32_t> uid; // nullopt: as above
    bool light = false;               // without files and most stacks
    bool stays = false;               // pinned, or not finished
};

// How much must go, at least.
struct Excess {
    std::uint64_t bundles = 0, bytes = 0;
};

// How many bundles stay, whatever is in excess.
struct Floor {
    std::uint64_t bundles = 0;
    bool duplicates_go = false; // also below it: those that are not the best of their signature
};

// Of each user, the best of this many signatures go last: of those seen last.  More would let a user who crashes in
// ever new ways keep all of hers and have others' removed.
inline constexpr std::size_t signatures_spared = 64;

struct Removal {
    std::vector<std::string> names; // the first to go first
    std::uint64_t bytes = 0;        // of all of them
};

// If less than the excess may go, the removal is all that may.
Removal plan_removal(std::span<const StoredBundle> bundles, Excess excess, Floor floor);

} // namespace incident::daemon
