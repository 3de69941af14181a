// Rule files and incidentd.toml: whatever an administrator's editor, a package or a full disk leaves there.
#include "rules/engine/engine.h"
#include "rules/files/parse.h"
#include "tests/fuzz/target.h"

namespace incident::fuzz {
namespace {

using namespace rules;

// The answers to the parser's questions, the same on every machine.
Lookups look_ups() {
    static const std::vector<std::string> calls = {"close",  "exit_group", "fsync", "fdatasync", "open",
                                                   "openat", "read",       "sync",  "syncfs",    "write"};
    return {[](const std::string &user) { return user == "root" ? std::optional<std::uint32_t>(0) : std::nullopt; },
            []() -> const std::vector<std::string> & { return calls; },
            [](const std::string &category, const std::string &name) -> std::optional<std::string> {
                if (category != "sched" || name != "sched_switch")
                    return std::nullopt;
                return "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
                       "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
                       "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n";
            },
            [](const std::string &category) {
                return std::vector<std::string>{category.empty() ? "sched" : "sched_switch"};
            },
            true};
}

void check_diagnostics(const std::vector<Diagnostic> &diagnostics) {
    for (const Diagnostic &diagnostic : diagnostics)
        for (const char c : diagnostic.text())
            must(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t', "a diagnostic can be printed");
}

// An event of each kind for every rule that was kept.
void decide_everything(std::vector<Rule> rules) {
    Engine engine(std::move(rules));
    const std::vector<EventKind> kinds = {
        SignalEvent{.number = 11, .fatal = true},
        OomEvent{},
        ReclaimEvent{.stalled_ns = 1 << 30},
        TxgEvent{"tank", 1ull << 34, true},
        SyscallEvent{"openat", -2, 1 << 30},
        BlockedEvent{1ull << 34},
        MemoryEvent{1ull << 33},
        ExitEvent{1},
        BlockIoEvent{"sda", 1ull << 32, 5},
    };
    const ProcessFacts process{.pid = 5, .comm = "x", .exe = "/usr/bin/x", .cgroup = "/a/b", .unit = "b.service"};
    for (const EventKind &what : kinds)
        for (std::uint64_t t_ns = 1; t_ns < 4; ++t_ns)
            engine.decide({.t_ns = t_ns, .process = process, .what = what});
    for (const Rule &rule : engine.rules())
        for (std::size_t i = 0; i < rule.conditions.size(); ++i) {
            engine.decide({.t_ns = 5, .process = process, .what = LatencyEvent{rule.name, i, 1ull << 40}});
            engine.decide({.t_ns = 5, .process = process, .what = TracepointEvent{rule.name, i, {1, 2, 3}}});
        }
}

void read_rules(std::string_view text) {
    const Lookups lookups = look_ups();
    ParsedRules parsed = parse_rules({{"fuzzed.toml", std::string(text)}}, lookups);
    check_diagnostics(parsed.diagnostics);
    for (const Rule &rule : parsed.rules) {
        must(!rule.name.empty() && !rule.conditions.empty(), "a rule that is kept is complete");
        const ParsedRules again = parse_rules({{"text.toml", rule.text}}, lookups);
        must(again.ok() && again.rules.size() == 1 && again.rules[0].conditions == rule.conditions &&
                 again.rules[0].match == rule.match && again.rules[0].limit == rule.limit &&
                 again.rules[0].text == rule.text,
             "a rule's text, which bundles hold, means the same rule");
    }
    decide_everything(std::move(parsed.rules));
}

} // namespace

// The first byte says which of the two files it is.  Longer lists on one line take seconds here, because toml11 looks
// for the beginning of the line for each value, and the fuzzer counts each comparison.
FUZZ_TARGET(rules) {
    constexpr std::size_t longest = 16u << 10;
    input = input.substr(0, longest);
    if (input.starts_with('C'))
        check_diagnostics(parse_config({"fuzzed.toml", std::string(input.substr(1))}).diagnostics);
    else if (!input.empty())
        read_rules(input.substr(1));
}

} // namespace incident::fuzz
