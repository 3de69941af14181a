// Makes a process dump core because a rule asks for it, and only if everything speaks for
// it at the moment of sending: [safety] allows it, the process as it is now is one that may
// be signalled and that the rule is about, it is still the same one, a core would really
// come of it, and the hour has one left.  What was found stands in the bundle.
//
// The daemon's side of it; where the kernel side sends by itself stands in bpf/dump.bpf.h.
// Both take from one hour (daemon/dump/dump_hour.h).
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
    // allowance: the kernel side's, see DumpHour; must outlive its use.  state: where the incident is to be written,
    // for nothing is to be learnt of a death that leaves none; "": not looked at.
    Dumper(capture::OsRoots os, rules::Config::Safety safety, std::int32_t *allowance = nullptr,
           std::string state = {});
    Dumper(const Dumper &) = delete;
    Dumper &operator=(const Dumper &) = delete;

    // Whether that process may ever be signalled; "" or why not.
    std::string forbidden(const rules::ProcessFacts &process) const;

    // Why the process, as it is now, is none to be signalled for the rule; "" it is.
    using Objection = std::function<std::string(const rules::ProcessFacts &now)>;
    // Checks, and sends the signal through a pidfd.  process: as it was when the rule fired; it is read again.
    // dumpable: SUID_DUMP_* of its mm.
    capture::DumpRecord dump(const rules::Dump &wanted, const rules::ProcessFacts &process, std::uint32_t dumpable,
                             std::uint64_t now_ns, const Objection &objection = {});

    // A process as it is now, looked at for the kernel side's sake.
    struct Look {
        std::string objection;    // why it may not be signalled, or no core would come of it; "" nothing
        rules::ProcessFacts now;  // where there is no objection
        std::uint64_t core_limit; // its RLIMIT_CORE, bytes
    };
    Look look(const capture::ProcessRef &process, int signal) const;

    // What of a core depends on the host alone.
    struct Host {
        std::string settings; // core_pattern and its listener: permits given under others are void
        bool possible = false;
        std::uint64_t space = 0; // bytes free where cores go
    };
    Host host() const;

    DumpHour &hour() { return hour_; }

private:
    struct Findings; // of the pre-check
    std::string no_room() const;
    Findings examine(std::uint32_t pid, int signal, std::uint32_t dumpable) const;
    Result<rules::ProcessFacts> read(const capture::ProcessRef &process) const;

    capture::OsRoots os_;
    rules::Config::Safety safety_;
    std::string state_;
    DumpHour hour_;
};

} // namespace incident::daemon
