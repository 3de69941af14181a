#include "daemon/dump/dump_control.h"

#include "daemon/facts/facts.h"
#include "rules/model/match.h"
#include "rules/model/user.h"

#include <spdlog/spdlog.h>

#include <map>

namespace incident::daemon {

DumpControl::DumpControl(Recorder &recorder, const RulesInForce &rules, capture::OsRoots os,
                         rules::Config::Safety safety, const std::string &state)
    : recorder_(recorder), rules_(rules), dumper_(std::move(os), std::move(safety), recorder.dump_allowance(), state) {}

void DumpControl::allow(std::uint64_t now_ns) {
    hour().left(now_ns);
    if (!rules_.plan.dumping()) {
        hour().take_back_lent(now_ns);
        recorder_.set_dump_terms({.until_ns = 0, .space_bytes = 0, .round = round_});
        return;
    }
    Dumper::Host host = dumper_.host();
    if (!host.possible)
        hour().take_back_lent(now_ns);
    else if (auto lent = hour().lend(now_ns); !lent)
        spdlog::debug("the kernel side may send no signal by itself: {}", lent.error().what);
    auto barred = hour().barred(now_ns);
    const bool changed = host.settings != core_settings_ || barred != barred_;
    if (changed) {
        core_settings_ = std::move(host.settings);
        barred_ = std::move(barred);
        ++round_;
    }
    recorder_.set_dump_terms(
        {.until_ns = host.possible ? now_ns + terms_last_ns : 0, .space_bytes = host.space, .round = round_});
    if (changed)
        recorder_.decide_again(); // and ask for permits
}

// Answers a process that a rule with a dump is about: whether the kernel side may do it by itself.  What makes it this
// very process is read before anything is found out about it: where it changes meanwhile, the permit is void.
void DumpControl::permit(const bpf::trigger_head &asked) {
    const TriggerPlan &plan = rules_.plan;
    const auto entry = recorder_.process(asked.h.tgid);
    if (asked.generation != plan.generation || !entry || process_of(*entry) != process_of(asked.h))
        return;
    bpf::permit permit{};
    permit.start_boot_ns = entry->start_boot_ns;
    permit.identity_ns = entry->identity_ns;
    permit.key = asked.key;
    permit.generation = plan.generation;
    permit.round = round_;
    permit.tgid = asked.h.tgid;
    std::map<int, Dumper::Look> looks; // by signal
    for (const auto &assigned : plan.assigned) {
        const auto signal = static_cast<int>(plan.settings[assigned.bit].dump_signal);
        const rules::Rule *rule = rules_.engine.rule(assigned.rule);
        if (!signal || !rule || !(asked.rules >> assigned.bit & 1))
            continue;
        auto look = looks.find(signal);
        if (look == looks.end())
            look = looks.emplace(signal, dumper_.look(process_of(*entry), signal)).first;
        const auto &[objection, now, core_limit] = look->second;
        if (!objection.empty() || barred_.contains(rules::user_of(now)) ||
            (permit.rules && core_limit != permit.core_limit) || !objection_to(*rule, now).empty() ||
            now.uid != asked.key.uid || now.comm != text_of(asked.key.comm)) {
            spdlog::debug("rule {}: no permit for pid {}: {}", assigned.rule, permit.tgid, objection);
            continue;
        }
        permit.rules |= 1ull << assigned.bit;
        permit.core_limit = core_limit;
    }
    recorder_.give_permit(permit); // also a refusal: then it is not asked about again
}

// Why that rule, as it was when it fired, does not ask for a dump of the process as it is now; "" it does.
std::string DumpControl::objection_to(const rules::Rule &fired, const rules::ProcessFacts &now) const {
    const rules::Rule *rule = rules_.engine.rule(fired.name);
    if (!rule || !rule->enabled || !rule->dump || rule->text != fired.text)
        return "the rule has been changed or removed since it fired";
    if (const std::string why = rules::mismatch(rule->match, now); !why.empty())
        return "the rule is not about the process as it is now: " + why;
    return {};
}

void DumpControl::sent_by_kernel(const rules::ProcessFacts &process, std::uint64_t now_ns) {
    hour().used_lent(rules::user_of(process), now_ns);
    allow(now_ns); // the next
}

capture::DumpRecord DumpControl::dump(const rules::Rule &fired, const rules::ProcessFacts &process,
                                      const capture::Program &program, std::uint32_t dumpable, std::uint64_t now_ns) {
    return dumper_.dump(*fired.dump, process, program, dumpable, now_ns,
                        [&](const rules::ProcessFacts &now) { return objection_to(fired, now); });
}

} // namespace incident::daemon
