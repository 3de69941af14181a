// Keeps all bundles together within a budget: their count, their bytes, and what must stay free on the disk.  Which of
// them go is decided in removal_plan.h.
#pragma once

#include "capture/bundle/bundle.h"
#include "daemon/write/removal_plan.h"
#include "daemon/write/space_reserve.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace incident::daemon {

struct Budget {
    std::uint64_t bundles, bytes, keep_free;
    std::uint64_t at_least = 0; // so many bundles stay even if less is free than must stay free
    std::uint64_t reserve = 0;  // bytes of the reserve
};

// What is about to be written.
struct Coming {
    const std::string &name;        // of the bundle; if it is there, it grows
    std::string_view incident_json; // of a new one
    std::uint64_t bytes = 0;        // on the disk
};

// What else of ours lies on the same file system and is worth less than any bundle; without functions: nothing does.
struct GiveWay {
    std::function<std::uint64_t()> bytes;                     // that it takes
    std::function<std::uint64_t(std::uint64_t bytes)> remove; // so many, or all there are; returns how many
};

class Retention {
public:
    using FreeBytes = std::function<std::uint64_t()>; // of the directory's file system, for whom it is not reserved

    // directory: outlives this.  free: a test's; by default the file system is asked.
    Retention(capture::IncidentsDir &directory, Budget budget, GiveWay gives_way = {}, FreeBytes free = {});

    // Removes what the budget does not allow beside the coming one.  If others have left less free than must stay free,
    // what gives way goes first and then bundles, but only where it helps; else the coming one takes the place of what
    // gives way, or of older ones, so that all together take no more than before.
    Status make_room(const Coming &coming);
    // The same when the disk has proved full: duplicates go even below the floor, also unfinished ones if there is no
    // other, for they are worth no more than the coming one.  If that is not enough, none goes, and the reserve is
    // given up.  false: there is no more room than before.
    Result<bool> make_room_on_a_full_disk(const Coming &coming);
    // Makes the reserve, also again, if there is room for it.
    void hold_reserve();

    // From begun() to finished() a bundle is not removed: its core, its analysis or its report is awaited.
    void begun(const std::string &name) { unfinished_.insert(name); }
    void finished(const std::string &name) { unfinished_.erase(name); }

    void changed(const std::string &name) { known_.erase(name), contents_known_.erase(name); } // it was amended

    std::uint64_t removed() const { return removed_; } // bundles, so far

private:
    Status learn(const Coming &coming);
    void learn_contents(const Coming &coming);
    std::uint64_t used() const; // bytes
    Result<Removal> plan(const Coming &coming, Excess excess, Floor floor, bool unfinished_too = false);
    Result<std::uint64_t> remove(const Removal &removal, std::string_view why);
    std::uint64_t free_soon();
    std::uint64_t have_others_give_way(std::uint64_t bytes);
    void note_freed(std::uint64_t bytes, std::uint64_t free_before);

    capture::IncidentsDir &directory_;
    Budget budget_;
    GiveWay gives_way_;
    FreeBytes free_;
    SpaceReserve reserve_;
    std::map<std::string, StoredBundle> known_; // those in the directory, and the coming one
    std::set<std::string> contents_known_;      // those of known_ whose incident.json was read
    std::set<std::string> unfinished_;
    std::uint64_t removed_ = 0;
    // What was removed and is not free yet: a file system such as ZFS frees it seconds later.
    struct Delayed {
        std::chrono::steady_clock::time_point since;
        std::uint64_t bytes;
    };
    std::vector<Delayed> delayed_;
    // Others leave so little free that removing bundles does not help: how many bytes ours took when that began.
    std::optional<std::uint64_t> in_vain_with_;
};

// What a file of this many bytes takes on the disk, near enough.
constexpr std::uint64_t on_disk(std::uint64_t bytes) {
    constexpr std::uint64_t block = 4096;
    return (bytes + block - 1) / block * block;
}

// Whether less is free already than must stay free.
bool short_of_space(const capture::IncidentsDir &directory, const Budget &budget);

} // namespace incident::daemon
