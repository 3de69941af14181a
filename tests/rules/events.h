// Events as the daemon would make them, and an engine's decisions about them.
#pragma once

#include "rules/engine/engine.h"
#include "tests/rules/fakes.h"

#include <csignal>

namespace incident::rules {

constexpr std::uint64_t ms = 1'000'000, second = 1000 * ms, minute = 60 * second, hour = 60 * minute;
constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB;

inline ProcessFacts process(std::uint32_t pid, const std::string &cgroup = "/system.slice/app.service") {
    return {.pid = pid,
            .start_boot_ns = pid * 1000ull,
            .uid = 1000,
            .comm = "app",
            .exe = "/opt/app",
            .cgroup = cgroup,
            .unit = "app.service"};
}

inline Event event(std::uint64_t t_ns, EventKind what, const ProcessFacts &of = process(42)) {
    return {t_ns, of, std::move(what)};
}

// "F" fired, "s" suppressed, "c" counted, "." no match, "-" no rule of its kind; of the only rule.
inline char outcome(Engine &engine, const Event &event) {
    const auto decisions = engine.decide(event);
    if (decisions.empty())
        return '-';
    switch (decisions[0].outcome) {
    case Outcome::Fire:
        return 'F';
    case Outcome::Suppressed:
        return 's';
    case Outcome::Counted:
        return 'c';
    case Outcome::NoMatch:
        break;
    }
    return '.';
}

inline std::string rule_on(const std::string &kind, const std::string &lines, const std::string &name = "r") {
    return "[[rule]]\nname = \"" + name + "\"\non = \"" + kind + "\"\n" + lines + "\n";
}

inline Engine engine_of(const std::string &text) {
    return Engine(good_rules(text));
}

} // namespace incident::rules
