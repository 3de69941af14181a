// Decides which bundles go if there are too many, or too little space for them.
//
// What is removed serves somebody who looks for the cause of a crash least: of the user, and then of the executable,
// that holds the most, the oldest that is not the newest of its signature.  So nobody's crashes push out another's that
// takes less, and the newest of each signature goes last.
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
    std::string signature;            // "": not known, so it is the newest of none
    std::string exe;                  // "": not known, or no process's
    std::optional<std::uint32_t> uid; // nullopt: as above
    bool stays = false;               // pinned, or not finished
};

// How much must go, at least.
struct Excess {
    std::uint64_t bundles = 0, bytes = 0;
};

// How many bundles stay, whatever is in excess.
struct Floor {
    std::uint64_t bundles = 0;
    bool duplicates_go = false; // also below it: those that are not the newest of their signature
};

// Of each user, the newest of this many signatures go last.  More would let a user who crashes in ever new ways keep
// all of hers and have others' removed.
inline constexpr std::size_t signatures_spared = 64;

struct Removal {
    std::vector<std::string> names; // the first to go first
    std::uint64_t bytes = 0;        // of all of them
};

// If less than the excess may go, the removal is all that may.
Removal plan_removal(std::span<const StoredBundle> bundles, Excess excess, Floor floor);

} // namespace incident::daemon
