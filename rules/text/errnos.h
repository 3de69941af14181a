// Names of errors, as this system's libc knows them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace incident::rules {

constexpr int last_errno = 133; // EHWPOISON; system calls return no higher numbers

// The number of a name such as "ENOENT", also of the aliases EWOULDBLOCK, EDEADLOCK, ENOTSUP. Case matters.
std::optional<int> errno_number(std::string_view name);

// The name of a number, such as "ENOENT"; the number itself if it has no name.
std::string errno_name(int number);

// All names, for suggestions.
const std::vector<std::string> &errno_names();

} // namespace incident::rules
