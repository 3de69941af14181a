// Everything the daemon does to make processes dump core.  It sends signals itself, and it tells the kernel side every
// second whether it may signal on its own, and which processes.
#pragma once

#include "daemon/dump/dumper.h"
#include "daemon/plan/rules_in_force.h"
#include "daemon/record/recorder.h"

#include <set>
#include <string>

namespace incident::daemon {

class DumpControl {
public:
    // Everything given by reference must outlive this object.  state: the state directory.
    DumpControl(Recorder &recorder, const RulesInForce &rules, capture::OsRoots os, rules::Config::Safety safety,
                const std::string &state);

    DumpHour &hour() { return dumper_.hour(); }

    // Tells the kernel side what it must know of the host to send a signal; without that it sends none.  Call it every
    // second, and after the rules have changed.
    void allow(std::uint64_t now_ns);
    // Answers whether the kernel side may make that process dump core.
    void permit(const bpf::trigger_head &asked);
    // The kernel side has made this process dump core.
    void sent_by_kernel(const rules::ProcessFacts &process, std::uint64_t now_ns);
    // Makes a process dump core for a rule that has fired, if nothing speaks against it now.  process and program: as
    // they were when the rule fired.
    capture::DumpRecord dump(const rules::Rule &fired, const rules::ProcessFacts &process,
                             const capture::Program &program, std::uint32_t dumpable, std::uint64_t now_ns);

private:
    // How long the kernel side trusts what the daemon has last seen of the host's core handling, which it checks every
    // second.
    static constexpr std::uint64_t terms_last_ns = 2'500'000'000;

    std::string objection_to(const rules::Rule &fired, const rules::ProcessFacts &now) const;

    Recorder &recorder_;
    const RulesInForce &rules_;
    Dumper dumper_;
    std::string core_settings_;      // the host's, as last seen
    std::set<std::uint32_t> barred_; // users who have no place left in the hour
    std::uint32_t round_ = 0;        // how often these have changed; permits of another round are void
};

} // namespace incident::daemon
