// Makes a process dump core because a rule asks for it, and only if everything speaks for
// it: [safety] allows it, the process is one that may be signalled, it is still the same
// one, and a core would really come of it.  What was found stands in the bundle.
#pragma once

#include "capture/collect.h"
#include "capture/trigger.h"
#include "rules/config.h"

#include <deque>
#include <string>

namespace incident::daemon {

class Dumper {
public:
    Dumper(capture::OsRoots os, rules::Config::Safety safety) : os_(std::move(os)), safety_(std::move(safety)) {}

    // Whether that process may ever be signalled; "" or why not.
    std::string forbidden(const rules::ProcessFacts &process) const;

    // Checks, and sends the signal through a pidfd.  dumpable: SUID_DUMP_* of its mm.
    capture::DumpRecord dump(const rules::Dump &wanted, const rules::ProcessFacts &process, std::uint32_t dumpable,
                             std::uint64_t now_ns);

    // The kernel side has sent one by itself: counts against the hour.
    void sent_by_kernel(std::uint64_t now_ns);

    // What speaks against it beforehand: forbidden(), or that no core would come of it; "" nothing.
    std::string objection(const rules::ProcessFacts &process, int signal) const;

    // How many more this hour allows.
    std::uint32_t left(std::uint64_t now_ns);

private:
    struct Findings; // of the pre-check
    Findings examine(const rules::ProcessFacts &process, int signal, std::uint32_t dumpable) const;

    capture::OsRoots os_;
    rules::Config::Safety safety_;
    std::deque<std::uint64_t> sent_; // times of the last hour
};

} // namespace incident::daemon
