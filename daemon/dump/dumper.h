// Makes a process dump core because a rule asks for it.  All of these must hold when the signal is sent: [safety]
// allows it, the process may be signalled and the rule is about it as it is now, it is still the same process, a core
// would really be written, and the hour has a place left.  The bundle says what was found.
//
// This is the daemon's side; bpf/dump.bpf.h is the kernel side, which sends on its own.  Both take from one hour
// (daemon/dump/dump_hour.h).
#pragma once

#include "capture/collect/collect.h"
#include "capture/collect/trigger.h"
#include "capture/os/process_ref.h"
#include "daemon/dump/dump_hour.h"
#include "rules/files/config.h"

#include <functional>
#include <string>

namespace incident::daemon {

class Dumper {
public:
    // allowance: the kernel side's, see DumpHour; must outlive this object.  state: the directory where the incident
    // will be written; nobody is killed if there is no room for it.  "": the room is not checked.
    Dumper(capture::OsRoots os, rules::Config::Safety safety, std::int32_t *allowance = nullptr,
           std::string state = {});
    Dumper(const Dumper &) = delete;
    Dumper &operator=(const Dumper &) = delete;

    // Why this process may never be signalled; "" if it may.
    std::string forbidden(const rules::ProcessFacts &process) const;

    // Why the process, as it is now, must not be signalled for the rule; "" if it may.
    using Objection = std::function<std::string(const rules::ProcessFacts &now)>;
    // Checks everything, and sends the signal through a pidfd.  process: as it was when the rule fired; it is read
    // again.  program: what it executed then, and must still execute.  dumpable: SUID_DUMP_* of its mm.
    capture::DumpRecord dump(const rules::Dump &wanted, const rules::ProcessFacts &process,
                             const capture::Program &program, std::uint32_t dumpable, std::uint64_t now_ns,
                             const Objection &objection = {});

    // What the kernel side must know of a process as it is now.
    struct Look {
        std::string objection;    // why it may not be signalled, or why no core would be written; "" if neither
        rules::ProcessFacts now;  // if there is no objection
        std::uint64_t core_limit; // its RLIMIT_CORE, bytes
    };
    Look look(const capture::ProcessRef &process, int signal) const;

    // The conditions for a core that depend on the host alone.
    struct Host {
        std::string settings; // core_pattern and its listener; permits given under other settings are void
        bool possible = false;
        std::uint64_t space = 0; // bytes free where cores are stored
    };
    Host host() const;

    DumpHour &hour() { return hour_; }

private:
    struct Findings; // of the pre-check
    std::string no_room() const;
    Findings examine(std::uint32_t pid, int signal, std::uint32_t dumpable) const;
    Result<rules::ProcessFacts> read(const capture::ProcessRef &process, const capture::Program &program) const;

    capture::OsRoots os_;
    rules::Config::Safety safety_;
    std::string state_;
    DumpHour hour_;
};

} // namespace incident::daemon
