// Decides whether a rule is about a process.
#pragma once

#include "rules/model/rule.h"

namespace incident::rules {

// Returns "" if every given key holds, otherwise the first key that does not:
// "match.exe: '/usr/bin/foo' is none of ['/opt/*']".
std::string mismatch(const Match &match, const ProcessFacts &process);
// The same without a reason, for events that come often.
bool matches(const Match &match, const ProcessFacts &process);

// The path that a process's program had when the process was started. The kernel adds " (deleted)" to the path as soon
// as another file takes its place, for example in an upgrade. The process still belongs to the same service, so the
// rules match the path without it.
std::string path_of_program(const std::string &exe);

// The systemd units that a cgroup path lies in, outermost first, by systemd's names:
// "/system.slice/app.service/worker" → system.slice, app.service.
std::vector<std::string> units_of_cgroup(const std::string &cgroup);

// True if the name ends with a unit type that can contain processes: .service, .scope, .slice, ….
bool is_unit_name(const std::string &name);

// "[a, b, c]" with the first few entries
std::string shown_list(const std::vector<std::string> &patterns);
std::string shown_list(const std::vector<std::uint32_t> &ids);

} // namespace incident::rules
