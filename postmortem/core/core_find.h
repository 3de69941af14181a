// Finds the core that belongs to an incident now. The bundle may be out of date: systemd-coredump may have finished
// after the bundle was written, and cores are removed sooner than bundles.
#pragma once

#include "postmortem/read/incident.h"
#include "postmortem/read/session.h"

#include <chrono>

namespace incident::postmortem {

struct LocatedCore {
    capture::CoreLink link;
    // Why the journal could not be asked. The link is then what the bundle says.
    std::string unreachable;
    // Set if the wait for the core was in vain: how long it was, and how much of the core is written.
    std::string waited;
    // Why the file is there and is not opened: systemd-coredump did not store it, or it is of another death.
    std::string refused;

    bool usable() const { return link.join != capture::Join::None && !link.file.empty() && link.file_bytes > 0; }
    // Why there is no core to open; "" if usable.
    std::string why_not() const;
};

const char *join_name(capture::Join join);

// The bundle's own link if its core still exists; otherwise the journal's answer. A bundle may come from elsewhere, so
// what it says of a file is checked like what the journal says.
LocatedCore locate_core(const Incident &incident, const Session &session);
// The same, but asks again while a dump is under way, for at most `patience`. On a terminal the error output shows how
// long it has waited and how much of the core is written.
LocatedCore await_core(const Incident &incident, const Session &session, std::chrono::nanoseconds patience,
                       const std::function<bool()> &interrupted);

// The journal of this machine.
Result<capture::CoreLink> find_in_journal(const capture::DeathIdentity &death);

} // namespace incident::postmortem
