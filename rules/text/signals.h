// Signal names and numbers, as this system's libc knows them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace incident::rules {

constexpr int last_signal = 64;

// "SIGSEGV", "SEGV", "SIGRTMIN", "SIGRTMIN+3", "SIGRTMAX-1" and the aliases
// SIGIOT, SIGIO, SIGCLD.  Exact case.
std::optional<int> signal_number(std::string_view name);

// "SIGSEGV", "SIGRTMIN+3"; the bare number for the ones libc keeps to itself.
std::string signal_name(int number);

// Every name there is, for suggestions and lists.
const std::vector<std::string> &signal_names();

// Whether the default action ends the process (signal(7)), rather than being
// ignored, stopping it or continuing it.
bool kills_by_default(int number);
// Whether it does so dumping core.
bool dumps_core_by_default(int number);

} // namespace incident::rules
