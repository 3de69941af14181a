// Which core belongs to an incident, as of now: systemd-coredump may have finished after
// the bundle was written, and cores are removed sooner than bundles.
#pragma once

#include "postmortem/read/incident.h"
#include "postmortem/read/session.h"

#include <chrono>

namespace incident::postmortem {

struct LocatedCore {
    capture::CoreLink link;
    // Why the journal could not be asked; the link is then the bundle's own statement.
    std::string unreachable;
    // That it was waited for in vain: how long, and how far the core is; "" if not.
    std::string waited;

    bool usable() const { return link.join != capture::Join::None && !link.file.empty() && link.file_bytes > 0; }
    // Why there is none to open; "" if usable.
    std::string why_not() const;
};

const char *join_name(capture::Join join);

// The bundle's own link if it names a core that still exists, else the journal's answer.
LocatedCore locate_core(const Incident &incident, const CoreFinder &find);
// The same, asking again while a dump is under way, at most for patience; on a terminal
// the error output shows how long it has waited and how much of the core is written.
LocatedCore await_core(const Incident &incident, const Session &session, std::chrono::nanoseconds patience,
                       const std::function<bool()> &interrupted, const capture::OsRoots &os = {});

// The journal of this machine.
Result<capture::CoreLink> find_in_journal(const capture::DeathIdentity &death);

} // namespace incident::postmortem
