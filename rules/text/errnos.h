// Names of errors, as this system's libc knows them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace incident::rules {

constexpr int last_errno = 133; // EHWPOISON; system calls return no other ones

// "ENOENT", and the aliases EWOULDBLOCK, EDEADLOCK, ENOTSUP.  Exact case.
std::optional<int> errno_number(std::string_view name);

// "ENOENT"; the bare number where there is no name.
std::string errno_name(int number);

// Every name there is, for suggestions.
const std::vector<std::string> &errno_names();

} // namespace incident::rules
