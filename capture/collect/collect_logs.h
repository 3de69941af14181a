// The ends of the files that a process's standard output and error go to.
#pragma once

#include "capture/collect/collectors.h"

#include <functional>
#include <string>

namespace incident::capture {

inline constexpr std::size_t log_tail_max = 64u << 10; // bytes of each file

// process: descriptor of its directory in procfs (process_dir.h).  Returns process/stdout and process/stderr, each from
// the beginning of a line on, of the regular files that `wants` names, by their paths below the process's own root.
// The error says which of these could not be read and why.
//
// The process chooses the path, and may put another file there.  So the file at the path counts only if it is the very
// one that the descriptor is of.  And it must have opened it for reading or writing: anybody gets a descriptor of any
// file with O_PATH, and a path for it that a rule names with a mount namespace of her own.
//
// A line whose beginning was not read is left out, because redaction might not know the rest of it.
Outcome collect_logs(int process, const Subject &subject, const std::function<bool(const std::string &path)> &wants,
                     const Deadline &deadline);

} // namespace incident::capture
