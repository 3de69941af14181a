// The directory of the copies of modules (capture/modules): a file each, named by what it contains.
//
// It has a budget.  Where that is used up, the user whose copies take most gives up those that were used longest ago.
// On a disk with little space none is added that would leave less to incidents than all copies take; and they give way.
#pragma once

#include "capture/modules/module_copy.h"
#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace incident::daemon {

struct ModuleBudget {
    std::uint64_t bytes = 0;     // that all copies may take on disk together; 0: none is kept
    std::uint64_t keep_free = 0; // bytes of the file system that are left to others
};

class ModuleStore {
public:
    using FreeBytes = std::function<std::uint64_t()>;      // of the file system
    static constexpr std::uint64_t module_max = 32u << 20; // bytes of one copy
    static constexpr std::uint32_t nobody = UINT32_MAX;    // whose those are that an earlier life has left

    // Opens or makes the directory, which is root's alone, and removes what an earlier life has begun.
    static Result<ModuleStore> open(const std::string &directory, ModuleBudget budget, FreeBytes free_bytes = {});

    // Writes the copy where it is not there, and notes that this user (rules::user_of()) needs it now.  It counts as
    // the lowest user's of those who do.  Errors: there is no room for it, or it cannot be written.
    Status keep(const capture::ModuleCopy &copy, std::uint32_t user, std::uint64_t now_s);
    // Notes that it is needed now.  false: it is not there.
    bool use(const std::string &name, std::uint32_t user, std::uint64_t now_s);
    struct Given {
        std::uint64_t bytes = 0; // that copies took which are gone now
        std::string problem;     // with one that could not be removed
    };
    // Removes copies until so many bytes are gone, or all are.
    Given give_way(std::uint64_t bytes);

    // The most that a copy may have, in bytes.
    std::uint64_t most() const { return std::min(module_max, budget_.bytes); }
    std::size_t copies() const { return copies_.size(); }
    std::uint64_t bytes() const { return bytes_; }
    // The names of those that were removed to make room, since the last call.
    std::vector<std::string> take_removed() { return std::exchange(removed_, {}); }

private:
    struct Copy {
        std::uint64_t bytes = 0, used_s = 0; // used_s: wall clock
        std::uint32_t user = nobody;
    };
    using Copies = std::map<std::string, Copy>;

    ModuleStore(UniqueFd directory, ModuleBudget budget, FreeBytes free_bytes)
        : directory_(std::move(directory)), budget_(budget), free_bytes_(std::move(free_bytes)) {}
    Status read();
    class Queue; // in which they go
    bool leaves_enough(std::uint64_t bytes) const;
    Status remove(const std::string &name);
    Status make_room(std::uint64_t bytes, std::uint32_t user);
    Status write(const capture::ModuleCopy &copy);
    void set_used(const std::string &name, Copy &copy, std::uint64_t now_s);

    UniqueFd directory_;
    ModuleBudget budget_;
    FreeBytes free_bytes_;
    Copies copies_;
    std::uint64_t bytes_ = 0;
    std::vector<std::string> removed_;
};

} // namespace incident::daemon
