// The checks. Each is in the file named after its subject; checks.cpp lists them.
#pragma once

#include "postmortem/doctor/check.h"

namespace incident::postmortem::doctor {

// check_kernel.cpp
Findings check_release(const Host &);
Findings check_btf(const Host &);
Findings check_lockdown(const Host &);
Findings check_jit(const Host &);
// check_oom.cpp
Findings check_panic_on_oom(const Host &);
Findings check_oom_score(const Host &);
// check_probes.cpp
Findings check_uprobes(const Host &);
Findings check_kprobes(const Host &);
Findings check_tracefs(const Host &);
// check_core_handler.cpp
Findings check_core_pattern(const Host &);
Findings check_core_pipe_limit(const Host &);
Findings check_core_socket(const Host &);
// check_core_storage.cpp
Findings check_core_storage(const Host &);
Findings check_core_sizes(const Host &);
Findings check_core_space(const Host &);
Findings check_core_age(const Host &);
// check_core_limits.cpp
Findings check_rlimit_core(const Host &);
Findings check_dumpable(const Host &);
Findings check_core_filter(const Host &);
// check_journal.cpp
Findings check_journald(const Host &);
Findings check_journal_storage(const Host &);
Findings check_journal_rate(const Host &);
// check_programs.cpp
Findings check_matches(const Host &);
Findings check_replaced(const Host &);
// check_symbols.cpp
Findings check_debug_info(const Host &);
Findings check_debuginfod(const Host &);
Findings check_unwind_tables(const Host &);
Findings check_frame_pointers(const Host &);
// check_gdb.cpp
Findings check_gdb(const Host &);
// check_clock.cpp
Findings check_clock(const Host &);
Findings check_clocksource(const Host &);
// check_daemon.cpp
Findings check_daemon(const Host &);
Findings check_enabled(const Host &);
Findings check_failed_units(const Host &);
Findings check_failed_incidents(const Host &);
// check_hook.cpp
Findings check_hook(const Host &);
// check_rules.cpp
Findings check_rule_files(const Host &);
Findings check_rule_states(const Host &);
Findings check_rules_loaded(const Host &);
// check_recorder.cpp
Findings check_room(const Host &);
Findings check_losses(const Host &);
Findings check_probe_states(const Host &);
// check_state.cpp
Findings check_state_directory(const Host &);
Findings check_state_space(const Host &);

} // namespace incident::postmortem::doctor
