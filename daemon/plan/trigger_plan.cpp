#include "daemon/plan/trigger_plan.h"

#include "capture/decode/syscalls.h"
#include "rules/model/match.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>

namespace incident::daemon {

namespace {

using rules::Condition;

std::uint64_t threshold_ns(rules::Nanoseconds duration) {
    return static_cast<std::uint64_t>(duration.count());
}

// Of two thresholds the one that lets more pass.
std::uint64_t looser(bool first, std::uint64_t have, std::uint64_t more) {
    return first ? more : std::min(have, more);
}

class Planner {
public:
    explicit Planner(bool allow_dump) : allow_dump_(allow_dump) {}

    TriggerPlan plan(std::span<const rules::Rule> all) {
        for (const rules::Rule &rule : all) {
            if (!rule.enabled)
                continue;
            if (rule.context.allocations != rules::Allocations::Pages)
                plan_.heap |= 1ull << assign_rule(rule).bit;
            if (rule.context.payload) {
                plan_.payload |= 1ull << assign_rule(rule).bit;
                plan_.payload_bytes = std::max(plan_.payload_bytes, rule.context.payload);
            }
            for (std::size_t i = 0; i < rule.conditions.size(); ++i)
                std::visit([&](const auto &what) { add(rule, i, what); }, rule.conditions[i].what);
        }
        auto &deadlines = plan_.blocked_deadlines;
        std::ranges::sort(deadlines);
        deadlines.erase(std::ranges::unique(deadlines).begin(), deadlines.end());
        return std::move(plan_);
    }

private:
    // A bit for the condition; its settings, and whether they are still untouched.
    struct Place {
        unsigned bit;
        bpf::condition_settings &settings;
        bool first;
    };
    Place assign_rule(const rules::Rule &rule, std::size_t condition = 0) {
        const unsigned bit = std::min<unsigned>(next_++, RULE_BITS - 1);
        const bool first = !(used_ & 1ull << bit);
        used_ |= 1ull << bit;
        plan_.assigned.push_back({rule.name, condition, bit});
        if (rule.match.everything())
            plan_.rules_of_all |= 1ull << bit;
        else
            plan_.ask_rules = true;
        return {bit, plan_.settings[bit], first};
    }

    Place assign(const rules::Rule &rule, std::size_t condition) {
        const Place place = assign_rule(rule, condition);
        auto &settings = place.settings;
        const bool each = rule.conditions[condition].tally.each() && rule.combine != rules::Combine::All;
        settings.each |= each;
        // Only where this one match is the whole rule may the kernel side act by itself; limits it does not know.
        const bool unlimited = rule.limit.cooldown.count() == 0 && !rule.limit.per_hour;
        if (allow_dump_ && rule.dump && !rule.dump->dry_run && each && unlimited && rule.conditions.size() == 1 &&
            place.bit != RULE_BITS - 1) {
            settings.dump_signal = static_cast<__u32>(rule.dump->signal);
        }
        return place;
    }

    // Which signals: Engine::signals().  Of those that kill, every process's are looked at.
    void add(const rules::Rule &rule, std::size_t i, const rules::SignalCondition &what) {
        if (!what.fatal)
            plan_.signal |= 1ull << assign_rule(rule, i).bit;
        plan_.oom |= what.fatal && what.signals[SIGKILL]; // whose it was decides what is said of it
    }
    void add(const rules::Rule &, std::size_t, const rules::OomCondition &) { plan_.oom = true; }
    void add(const rules::Rule &, std::size_t, const rules::TxgCondition &) { plan_.txg = true; }
    void add(const rules::Rule &, std::size_t, const rules::MemoryCondition &) { plan_.memory = true; }

    // Timed by LatencyProbes; the bit says whose processes to tell of, and which may be dumped in the call.
    // The threshold is the probe's, which several conditions may share; a dump asks the condition itself.
    void add(const rules::Rule &rule, std::size_t i, const rules::LatencyCondition &what) {
        const Place place = assign(rule, i);
        plan_.latency |= 1ull << place.bit;
        place.settings.slower_than_ns =
            looser(place.first, place.settings.slower_than_ns, threshold_ns(what.threshold));
    }

    void add(const rules::Rule &rule, std::size_t i, const rules::ReclaimCondition &) {
        plan_.reclaim |= 1ull << assign(rule, i).bit;
    }

    void add(const rules::Rule &rule, std::size_t i, const rules::SyscallCondition &what) {
        const Place place = assign(rule, i);
        plan_.syscall |= 1ull << place.bit;
        plan_.durations |= what.slower_than.has_value();
        auto &settings = place.settings;
        settings.slower_than_ns =
            looser(place.first, settings.slower_than_ns, what.slower_than ? threshold_ns(*what.slower_than) : 0);
        const bool failed = what.failed || !what.errnos.empty();
        settings.failed = place.first ? failed : settings.failed && failed;
        const bool any_error = what.errnos.empty();
        if (place.first || !any_error)
            for (const int error : what.errnos)
                if (error > 0 && error < ERRNO_WORDS * 64)
                    settings.errnos[error / 64] |= 1ull << error % 64;
        if (any_error && !place.first)
            std::ranges::fill(settings.errnos, 0ull);
        const std::set<std::string> names(what.names.begin(), what.names.end());
        for (int compat = 0; compat < 2; ++compat)
            for (int nr = 0; nr < SYSCALL_CLASSES; ++nr)
                if (names.empty() || names.contains(capture::syscall_name(nr, compat != 0)))
                    plan_.syscalls_of[compat][nr] |= 1ull << place.bit;
    }

    void add(const rules::Rule &rule, std::size_t i, const rules::BlockedCondition &what) {
        const std::uint64_t threshold = threshold_ns(what.threshold);
        const bool first = plan_.blocked == 0;
        plan_.blocked |= 1ull << assign(rule, i).bit;
        plan_.durations = true; // a wait is reported by the call it was in
        plan_.blocked_min_ns = looser(first, plan_.blocked_min_ns, threshold);
        plan_.blocked_idle |= what.idle;
        if (what.when == rules::When::Deadline)
            plan_.blocked_deadlines.push_back(threshold);
    }

    void add(const rules::Rule &rule, std::size_t i, const rules::ExitCondition &what) {
        if (what.status.none())
            return; // deaths by signal only: Engine::signals()
        const Place place = assign(rule, i);
        plan_.exit |= 1ull << place.bit;
        for (std::size_t status = 0; status < what.status.size(); ++status)
            if (what.status[status])
                place.settings.statuses[status / 64] |= 1ull << status % 64;
    }

    void add(const rules::Rule &rule, std::size_t i, const rules::BlockIoCondition &what) {
        const Place place = assign(rule, i);
        plan_.block_io |= 1ull << place.bit;
        auto &settings = place.settings;
        const std::uint64_t slow = what.slower_than ? threshold_ns(*what.slower_than) : 0;
        // 0 means "not for being slow": the loosest is the least that is set
        settings.slower_than_ns = place.first || !settings.slower_than_ns ? slow
                                  : slow ? std::min<std::uint64_t>(settings.slower_than_ns, slow)
                                         : settings.slower_than_ns;
        settings.failed |= what.error;
        settings.operations |= (what.reads ? 1u : 0u) | (what.writes ? 2u : 0u);
    }

    void add(const rules::Rule &rule, std::size_t i, const rules::TracepointCondition &what) {
        const Place place = assign(rule, i);
        plan_.tracepoint |= 1ull << place.bit;
        plan_.tracepoints.push_back({place.bit, rule.name, i, what.category, what.name, rule.match.everything()});
        auto &settings = place.settings;
        if (place.bit == RULE_BITS - 1) { // shared: no filter holds for all
            std::memset(settings.clause, 0, sizeof(settings.clause));
            return;
        }
        std::size_t at = 0;
        for (const rules::FilterClause &clause : rules::necessary_clauses(what.filter, FILTER_CLAUSES))
            settings.clause[at++] = clause_of(clause);
    }

    static bpf::filter_clause clause_of(const rules::FilterClause &clause) {
        bpf::filter_clause made{};
        made.offset = clause.offset;
        made.size = clause.size;
        made.is_signed = clause.is_signed;
        made.number = clause.number;
        if (clause.is_prefix) {
            made.op = bpf::CLAUSE_PREFIX;
            made.size = static_cast<__u32>(std::min<std::size_t>(clause.prefix.size(), FILTER_PREFIX_LEN));
            std::memcpy(made.prefix, clause.prefix.data(), made.size);
            return made;
        }
        static constexpr std::pair<rules::Filter::Op, bpf::clause_op> operations[] = {
            {rules::Filter::Op::Equal, bpf::CLAUSE_EQUAL},
            {rules::Filter::Op::NotEqual, bpf::CLAUSE_NOT_EQUAL},
            {rules::Filter::Op::Less, bpf::CLAUSE_LESS},
            {rules::Filter::Op::LessEqual, bpf::CLAUSE_LESS_EQUAL},
            {rules::Filter::Op::Greater, bpf::CLAUSE_GREATER},
            {rules::Filter::Op::GreaterEqual, bpf::CLAUSE_GREATER_EQUAL},
            {rules::Filter::Op::Bits, bpf::CLAUSE_BITS}};
        for (const auto &[op, its] : operations)
            if (op == clause.op)
                made.op = its;
        return made;
    }

    const bool allow_dump_;
    TriggerPlan plan_;
    unsigned next_ = 0;
    std::uint64_t used_ = 0;
};

} // namespace

TriggerPlan plan_triggers(std::span<const rules::Rule> rules, bool allow_dump) {
    return Planner(allow_dump).plan(rules);
}

std::uint64_t rules_of(const TriggerPlan &plan, std::span<const rules::Rule> rules,
                       const rules::ProcessFacts &process) {
    std::uint64_t bits = 0;
    for (const auto &assigned : plan.assigned) {
        const auto rule = std::ranges::find(rules, assigned.rule, &rules::Rule::name);
        if (rule != rules.end() && rules::matches(rule->match, process))
            bits |= 1ull << assigned.bit;
    }
    return bits;
}

} // namespace incident::daemon
