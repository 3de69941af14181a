// Looks for the journal entry of each core until it is there, cannot come, or has been
// waited for long enough; the bundle is amended once.
#pragma once

#include "capture/collect.h"
#include "capture/core_link.h"
#include "capture/snapshot.h"
#include "rules/rule.h"

#include <map>
#include <optional>
#include <vector>

namespace incident::daemon {

struct FoundCore {
    std::string bundle;
    capture::CoreLink link;
};

class CoreFollower {
public:
    explicit CoreFollower(capture::OsRoots os) : os_(std::move(os)) {}

    // What can be said when the bundle is written: a definite reason, or "pending".
    capture::CoreLink first_look(const capture::IncidentInput &input) const;
    // Takes up a bundle whose first look was pending.
    void follow(std::string bundle, const capture::IncidentInput &input, const std::string &exe, std::string auxv,
                std::uint64_t give_up_ns);
    // One look for each; those settled leave.
    std::vector<FoundCore> look(std::uint64_t now_ns);
    bool waiting() const { return !waiting_.empty(); }
    std::size_t count() const { return waiting_.size(); }

private:
    struct Waiting {
        std::string bundle;
        capture::DeathIdentity death;
        capture::CorePrecheck precheck;
        std::uint64_t since_ns = 0, give_up_ns = 0;
    };
    capture::CorePrecheck precheck_of(const capture::IncidentInput &input) const;
    std::optional<capture::CoreLink> settle(Waiting &waiting, std::uint64_t now_ns);

    capture::OsRoots os_;
    std::optional<capture::CoreJournal> journal_; // opened at the first need
    std::vector<Waiting> waiting_;
};

} // namespace incident::daemon
