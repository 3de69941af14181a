// Reads paths that the kernel side has copied from dentries.
#pragma once

#include "bpf/event.h"

#include <string>
#include <string_view>

namespace incident::capture {

// "/usr/bin/app"; "" if there is none.  The bytes are hostile, so lengths and counts are limited to what can be there.
std::string path_of(const bpf::kernel_path &path);
// The last component of the path, valid as long as the event; "" if there is none.
std::string_view file_name_of(const bpf::kernel_path &path);

// The cgroup of the process in its hierarchy, "/" the top; "" if the kernel side could not say.
std::string cgroup_of_event(const bpf::death_event &event);

} // namespace incident::capture
