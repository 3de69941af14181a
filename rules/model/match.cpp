#include "rules/model/match.h"

#include "rules/text/escape.h"
#include "rules/text/glob.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::rules {
namespace {

constexpr std::size_t most_shown = 8;              // of a list inside a message
constexpr std::string_view deleted = " (deleted)"; // d_path(), fs/d_path.c

bool is_replaced(const std::string &exe) {
    return exe.ends_with(deleted);
}

std::string shown(const std::string &text) {
    return quote(text);
}
std::string shown(std::uint32_t id) {
    return std::to_string(id);
}

template <typename T> std::string list(const std::vector<T> &values) {
    std::string out = "[";
    for (std::size_t i = 0; i < values.size() && i < most_shown; ++i)
        out += (i > 0 ? ", " : "") + shown(values[i]);
    if (values.size() > most_shown)
        out += fmt::format(", and {} more", values.size() - most_shown);
    return out + "]";
}

std::string none_of(const char *key, const std::string &value, const std::vector<std::string> &patterns) {
    return fmt::format("match.{}: {} is none of {}", key, value.empty() ? "unknown" : quote(value), list(patterns));
}

bool unit_matches(const std::vector<std::string> &patterns, const ProcessFacts &process) {
    if (any_glob_matches(patterns, process.unit))
        return true;
    const auto units = units_of_cgroup(process.cgroup);
    return std::any_of(units.begin(), units.end(),
                       [&](const std::string &unit) { return any_glob_matches(patterns, unit); });
}

bool exe_matches(const std::vector<std::string> &patterns, const std::string &exe) {
    return any_glob_matches(patterns, exe) || (is_replaced(exe) && any_glob_matches(patterns, path_of_program(exe)));
}

enum class Key { None, Unit, Exe, Comm, Cgroup, Uid };

// The first one that does not hold.
Key failing(const Match &match, const ProcessFacts &process) {
    if (!match.unit.empty() && !unit_matches(match.unit, process))
        return Key::Unit;
    if (!match.exe.empty() && !exe_matches(match.exe, process.exe))
        return Key::Exe;
    if (!match.comm.empty() && !any_glob_matches(match.comm, process.comm))
        return Key::Comm;
    if (!match.cgroup.empty() && !any_glob_matches(match.cgroup, process.cgroup))
        return Key::Cgroup;
    if (!match.uid.empty() && std::find(match.uid.begin(), match.uid.end(), process.uid) == match.uid.end())
        return Key::Uid;
    return Key::None;
}

} // namespace

std::string path_of_program(const std::string &exe) {
    return is_replaced(exe) ? exe.substr(0, exe.size() - deleted.size()) : exe;
}

std::string shown_list(const std::vector<std::string> &patterns) {
    return list(patterns);
}
std::string shown_list(const std::vector<std::uint32_t> &ids) {
    return list(ids);
}

bool is_unit_name(const std::string &name) {
    // Types with a cgroup of their own; .socket, .mount and .swap for their helper processes.
    for (const char *suffix : {".service", ".scope", ".slice", ".socket", ".mount", ".swap"})
        if (name.ends_with(suffix) && name != suffix)
            return true;
    return false;
}

std::vector<std::string> units_of_cgroup(const std::string &cgroup) {
    std::vector<std::string> units;
    for (std::size_t begin = 0; begin < cgroup.size();) {
        const std::size_t end = std::min(cgroup.find('/', begin), cgroup.size());
        std::string part = cgroup.substr(begin, end - begin);
        if (part.starts_with('_')) // systemd's escape for names the kernel reserves (cg_escape)
            part.erase(0, 1);
        if (is_unit_name(part))
            units.push_back(std::move(part));
        begin = end + 1;
    }
    return units;
}

bool matches(const Match &match, const ProcessFacts &process) {
    return failing(match, process) == Key::None;
}

std::string mismatch(const Match &match, const ProcessFacts &process) {
    switch (failing(match, process)) {
    case Key::None:
        break;
    case Key::Unit:
        return none_of("unit", process.unit, match.unit);
    case Key::Exe:
        return none_of("exe", process.exe, match.exe);
    case Key::Comm:
        return none_of("comm", process.comm, match.comm);
    case Key::Cgroup:
        return none_of("cgroup", process.cgroup, match.cgroup);
    case Key::Uid:
        return fmt::format("match.uid: {} is none of {}", process.uid, list(match.uid));
    }
    return {};
}

} // namespace incident::rules
