// Paths as the kernel side takes them out of dentries.
#pragma once

#include "bpf/event.h"

#include <string>
#include <string_view>

namespace incident::capture {

// "/usr/bin/app"; "" where there is none.  Hostile: lengths and counts are taken for no more than there can be.
std::string path_of(const bpf::kernel_path &path);
// Its last component, as long as the event; "" where there is none.
std::string_view file_name_of(const bpf::kernel_path &path);

} // namespace incident::capture
