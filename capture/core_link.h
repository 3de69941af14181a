// Joins an incident with the journal entry systemd-coredump wrote for the same death
// (MESSAGE_ID fc2e22bc6ee647b6b90729ab34a250b1, COREDUMP_* fields; systemd.journal-fields(7)).
#pragma once

#include "capture/result.h"

#include <cstdint>
#include <memory>
#include <string>

namespace incident::capture {

struct DeathIdentity {
    std::string boot_id; // 32 hex digits
    std::uint32_t pid = 0;
    std::uint64_t start_boot_ns = 0;
    std::string exe;     // may be ""
    std::string comm;
    int signal = 0;
    std::uint64_t death_realtime_ns = 0;
    std::uint64_t boottime_offset_ns = 0; // realtime - boottime, when captured
};

enum class Join { Exact, Window, None };

// exact:  same boot, pid, exe, signal, and the entry's process start (from COREDUMP_PROC_* or
//         timestamp consistent with start..death) – see core_link.cpp for what proves what;
// window: same boot and pid and within the time window, but something is missing to prove it;
// none:   with the reason.
struct CoreLink {
    Join join = Join::None;
    std::string reason;
    std::string file;           // COREDUMP_FILENAME as the entry says; "" if none was stored
    std::string journal_cursor;
    bool truncated = false;
    bool pending = false;       // none, but a dump may still be under way: ask again
    std::uint64_t file_bytes = 0; // 0: not there (any more)
};

class CoreJournal {
public:
    // Opens the local journal (system + runtime).  directory: for tests ("" = default).
    static Result<CoreJournal> open(const std::string &directory = "");
    Result<CoreLink> find(const DeathIdentity &death);
    // For an event loop: descriptor, poll events, and what to call when it is readable.
    int fd() const;
    Status process();

    CoreJournal(CoreJournal &&) noexcept;
    CoreJournal &operator=(CoreJournal &&) noexcept;
    ~CoreJournal();

private:
    CoreJournal();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Why no core can have come, from what is known without a journal entry: the signal makes none
// (SIGKILL, SIGTERM…), RLIMIT_CORE 0 or 1, not dumpable, core_pattern is not
// systemd-coredump's, the kernel log says "over core_pipe_limit" for this pid, nobody listens on
// /run/systemd/coredump.  "" if nothing speaks against one.
struct CorePrecheck {
    int signal = 0;
    std::uint64_t rlimit_core = ~0ull;
    std::uint32_t dumpable = 1;
    std::uint32_t pid = 0, ns_pid = 0;
    std::string core_pattern;     // contents of /proc/sys/kernel/core_pattern
    std::string kernel_log;       // host/kernel_log
    bool listener = true;         // /run/systemd/coredump accepts
};
std::string no_core_reason(const CorePrecheck &facts);

} // namespace incident::capture
