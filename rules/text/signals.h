// Signal names and numbers, as this system's libc knows them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace incident::rules {

constexpr int last_signal = 64;

// The number of a name: "SIGSEGV", "SEGV", "SIGRTMIN", "SIGRTMIN+3", "SIGRTMAX-1", or an alias (SIGIOT, SIGIO, SIGCLD).
// Case matters.
std::optional<int> signal_number(std::string_view name);

// The name of a number: "SIGSEGV", "SIGRTMIN+3". The signals that libc reserves for itself have only their number.
std::string signal_name(int number);

// All names, for suggestions and lists.
const std::vector<std::string> &signal_names();

// True if the default action ends the process (signal(7)), and does not ignore the signal or stop or continue the
// process.
bool kills_by_default(int number);
// True if the default action also dumps core.
bool dumps_core_by_default(int number);

} // namespace incident::rules
