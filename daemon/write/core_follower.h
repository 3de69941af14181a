// Searches for the journal entry of each core until the entry is there, cannot come any more, or the time is over.  The
// bundle is amended once.
//
// It must not work often: the journal is searched for a core when it has changed, else once a second, and the kernel's
// log is read for all waiting bundles together, less and less often.  However many wait, there are so many searches at
// once, in which users take turns.
#pragma once

#include "capture/collect/collect.h"
#include "capture/collect/snapshot.h"
#include "capture/core/core_link.h"
#include "rules/model/rule.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace incident::daemon {

// What can be said of the core when the bundle is written: a final reason, or "pending".
capture::CoreLink first_look_at_core(const capture::OsRoots &os, const capture::IncidentInput &input);

struct WantedCore { // of a bundle whose core is pending
    std::string bundle;
    capture::IncidentInput input; // its event, dump and clocks
    std::string exe, auxv;
    std::uint64_t give_up_ns = 0; // CLOCK_MONOTONIC
};

struct FoundCore {
    std::string bundle;
    capture::CoreLink link;
    std::uint32_t user = 0;
};

class CoreFollower {
public:
    using Wanted = WantedCore;
    using Found = FoundCore;
    static constexpr const char *thread_name = "core search";
    using ReadKernelLog = std::function<std::string()>; // returns the last minute of the log

    // kernel_log and journal are for tests; without them the host's are read.
    explicit CoreFollower(capture::OsRoots os, ReadKernelLog kernel_log = {}, std::string journal = "");

    void follow(WantedCore wanted); // begins the search
    static constexpr std::size_t most_searches = 16;
    // Searches once for each waiting bundle, or for as many as have their turn.  Returns the answers that are final;
    // their bundles no longer wait.
    std::vector<FoundCore> look(std::uint64_t now_ns);
    bool more_due() const { return false; } // that cannot wait for the next look
    void hurry() {}                         // cores that are not found when the daemon ends are looked for by readers
    bool waiting() const { return !waiting_.empty(); }
    std::size_t count() const { return waiting_.size(); }

private:
    struct Waiting {
        std::string bundle;
        capture::DeathIdentity death;
        capture::CorePrecheck precheck;
        std::uint64_t since_ns = 0, give_up_ns = 0;
        std::uint32_t user = 0;
        std::uint64_t searched_ns = 0;                 // when the journal was last searched for it
        bool journal_changed = true;                   // since then
        std::uint64_t log_seen_ns = 0;                 // which reading of the kernel's log the reason is from
        std::string reason{};                          // why there is no core, by that log; "": it says nothing
        std::string hint{};                            // what that log says about the time, of whomever
        bool may_be_in_log(std::uint64_t at_ns) const; // whether the kernel had enough time to log it by then
    };
    void ask_kernel_log(Waiting &waiting) const;
    std::set<const Waiting *> whose_turn(std::uint64_t now_ns) const;
    std::optional<capture::CoreLink> look_for_core(Waiting &waiting, std::uint64_t now_ns);
    void refresh_kernel_log(std::uint64_t now_ns);

    capture::OsRoots os_;
    ReadKernelLog read_kernel_log_;
    std::string journal_directory_;
    std::optional<capture::CoreJournal> journal_; // opened at the first need
    std::vector<Waiting> waiting_;
    std::string kernel_log_; // as of log_read_ns_
    std::uint64_t log_read_ns_ = 0, log_due_ns_ = 0, log_gap_ns_ = 0;
};

template <typename Follower> class JournalSearch; // journal_search.h
using CoreSearch = JournalSearch<CoreFollower>;

} // namespace incident::daemon
