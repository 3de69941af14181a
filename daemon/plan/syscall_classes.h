// What the recorder keeps of each syscall besides its record: the table the programs get.
#pragma once

#include "bpf/event.h"

namespace incident::daemon {

// all_paths: keep the path of every call that takes one, not of opens and execs only.
void fill_syscall_classes(__u16 (&classes)[2][SYSCALL_CLASSES], bool all_paths);

// A call in which a program has nothing to do but wait: poll, futex, accept, …
bool is_idle_call(int nr, bool compat);

} // namespace incident::daemon
