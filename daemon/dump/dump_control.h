// Everything the daemon does so that a process dumps core: it sends signals itself, and tells the kernel side, every
// second, whether and whom it may signal on its own.
#pragma once

#include "daemon/dump/dumper.h"
#include "daemon/plan/rules_in_force.h"
#include "daemon/record/recorder.h"

#include <string>

namespace incident::daemon {

class DumpControl {
public:
    // All that is given by reference outlives it.  state: the state directory.
    DumpControl(Recorder &recorder, const RulesInForce &rules, capture::OsRoots os, rules::Config::Safety safety,
                const std::string &state);

    DumpHour &hour() { return dumper_.hour(); }

    // Tells the kernel side what it must know of the host to send a signal; without that it sends none.  Every second,
    // and after the rules have changed.
    void allow(std::uint64_t now_ns);
    // Answers whether the kernel side may make that process dump core.
    void permit(const bpf::trigger_head &asked);
    // Makes a process dump core for a rule that has fired, if all speaks for it now.  process: as it was then.
    capture::DumpRecord dump(const rules::Rule &fired, const rules::ProcessFacts &process, std::uint32_t dumpable,
                             std::uint64_t now_ns);

private:
    // How long the kernel side goes by what was last seen of the host's core handling: that is looked at every second.
    static constexpr std::uint64_t terms_last_ns = 2'500'000'000;

    std::string objection_to(const rules::Rule &fired, const rules::ProcessFacts &now) const;

    Recorder &recorder_;
    const RulesInForce &rules_;
    Dumper dumper_;
    std::string core_settings_; // of the host, as last seen
    std::uint32_t round_ = 0;   // how often they have changed: permits of another round are void
};

} // namespace incident::daemon
