#include "postmortem/doctor/checks.h"

namespace incident::postmortem::doctor {

const std::vector<Check> &all_checks() {
    static const std::vector<Check> checks{
        {"incidentd", "running", check_daemon},
        {"incidentd", "at boot", check_enabled},
        {"incidentd", "units", check_failed_units},
        {"incidentd", "OOM score", check_oom_score},
        {"incidentd", "incidents", check_failed_incidents},
        {"incidentd", "hook", check_hook},
        {"incidentd", "state", check_state_directory},
        {"incidentd", "space", check_state_space},
        {"rules", "files", check_rule_files},
        {"rules", "loaded", check_rules_loaded},
        {"rules", "states", check_rule_states},
        {"rules", "probes", check_probe_states},
        {"rules", "room", check_room},
        {"rules", "losses", check_losses},
        {"kernel", "release", check_release},
        {"kernel", "BTF", check_btf},
        {"kernel", "lockdown", check_lockdown},
        {"kernel", "BPF JIT", check_jit},
        {"kernel", "OOM", check_panic_on_oom},
        {"kernel", "uprobes", check_uprobes},
        {"kernel", "kprobes", check_kprobes},
        {"kernel", "tracefs", check_tracefs},
        {"cores", "core_pattern", check_core_pattern},
        {"cores", "core_pipe_limit", check_core_pipe_limit},
        {"cores", "socket", check_core_socket},
        {"cores", "Storage", check_core_storage},
        {"cores", "sizes", check_core_sizes},
        {"cores", "space", check_core_space},
        {"cores", "age", check_core_age},
        {"cores", "RLIMIT_CORE", check_rlimit_core},
        {"cores", "dumpable", check_dumpable},
        {"cores", "coredump_filter", check_core_filter},
        {"journal", "journald", check_journald},
        {"journal", "storage", check_journal_storage},
        {"journal", "rate limit", check_journal_rate},
        {"programs", "matched", check_matches},
        {"programs", "replaced", check_replaced},
        {"programs", "debug info", check_debug_info},
        {"programs", "debuginfod", check_debuginfod},
        {"programs", "unwind tables", check_unwind_tables},
        {"programs", "frame pointers", check_frame_pointers},
        {"tools", "gdb", check_gdb},
        {"clock", "synchronized", check_clock},
        {"clock", "clocksource", check_clocksource},
    };
    return checks;
}

} // namespace incident::postmortem::doctor
