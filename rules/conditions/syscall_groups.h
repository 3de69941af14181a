// "@file", "@network", …: system calls that belong together, as strace(1)'s classes and
// systemd.exec(5)'s filter sets have them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace incident::rules {

// The members of a group such as "@file"; empty if there is no such group.
std::span<const std::string_view> syscall_group(std::string_view name);

// The names of all groups, each with its '@'.
const std::vector<std::string> &syscall_groups();

} // namespace incident::rules
