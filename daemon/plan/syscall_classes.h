// The table that tells the BPF programs what to keep of each system call besides its record.
#pragma once

#include "bpf/event.h"

namespace incident::daemon {

// all_paths: keep the path of every call that takes one, not only of opens and execs.
void fill_syscall_classes(__u32 (&classes)[2][SYSCALL_CLASSES], bool all_paths);

// Whether a program that is in this call only waits: poll, futex, accept, …
bool is_idle_call(int nr, bool compat);

} // namespace incident::daemon
