// Whether a process is one a rule is about.
#pragma once

#include "rules/model/rule.h"

namespace incident::rules {

// "" if every given key holds, else the first one that does not:
// "match.exe: '/usr/bin/foo' is none of ['/opt/*']".
std::string mismatch(const Match &match, const ProcessFacts &process);
// The same without saying why: for events that come often.
bool matches(const Match &match, const ProcessFacts &process);

// Where the program of a process stood when it was started: the kernel adds " (deleted)" as soon as another has been
// put in its place, as an upgrade does, and it is the same service still.
std::string path_of_program(const std::string &exe);

// The systemd units a cgroup path lies in, outermost first, as systemd names
// them: "/system.slice/app.service/worker" → system.slice, app.service.
std::vector<std::string> units_of_cgroup(const std::string &cgroup);

// Ends with a unit type systemd puts processes in: .service, .scope, .slice, ….
bool is_unit_name(const std::string &name);

// "[a, b, c]", at most the first few
std::string shown_list(const std::vector<std::string> &patterns);
std::string shown_list(const std::vector<std::uint32_t> &ids);

} // namespace incident::rules
