// Keeps copies of the files whose code processes map, so that a bundle can be explained when they are gone: replaced by
// an upgrade, deleted, or in a mount namespace that has ended.
//
// A thread of its own makes them, at a low priority.  It takes each user's processes in turn and spends no more
// than a share of a CPU on each user's.
#pragma once

#include "bpf/event.h"
#include "daemon/modules/kept_modules.h"
#include "daemon/modules/user_turns.h"

#include <condition_variable>
#include <memory>
#include <thread>
#include <vector>

namespace incident::daemon {

class ModuleKeeper {
public:
    ModuleKeeper(capture::OsRoots os, std::shared_ptr<KeptModules> kept);
    ~ModuleKeeper();

    // A process has mapped code of a file that the kernel side knows by this key and tells of only once.
    void mapped(const capture::Subject &subject, capture::UserAddress start, const bpf::module_key &key);
    // Looks at all that a process has mapped.  can_wait: it takes no time of the other jobs of its user.
    void look_at(const capture::Subject &subject, bool can_wait);

    // Files that could not be looked at, because their process ended before: the kernel side is to tell of them again.
    std::vector<bpf::module_key> take_missed();
    struct Counts {
        std::size_t waiting = 0;
        std::uint64_t missed = 0;
    };
    Counts counts() const;

private:
    struct Job {
        capture::Subject subject;
        capture::UserAddress start; // 0: all
        std::optional<bpf::module_key> key;
        bool can_wait = false;
    };
    void push(const Job &job);
    void miss(const Job &job); // with the mutex held
    void run();
    // Returns the CPU seconds it took.
    double look(const Job &job, bool &looked) const;

    capture::OsRoots os_;
    std::shared_ptr<KeptModules> kept_; // readers that hang hold it as well
    mutable std::mutex mutex_;
    std::condition_variable work_;
    UserTurns<Job> turns_;
    std::vector<bpf::module_key> missed_;
    std::uint64_t missed_count_ = 0;
    bool stop_ = false;
    std::thread thread_;
};

} // namespace incident::daemon
