// Joins an incident with the journal entry systemd-coredump wrote for the same death
// (MESSAGE_ID fc2e22bc6ee647b6b90729ab34a250b1, COREDUMP_* fields; systemd.journal-fields(7)).
#pragma once

#include "capture/collect/collect.h"
#include "capture/os/process_ref.h"
#include "capture/os/result.h"

#include <cstdint>
#include <memory>
#include <string>

namespace incident::capture {

struct DeathIdentity {
    std::string boot_id; // 32 hex digits
    ProcessRef process;
    std::string exe; // may be ""
    std::string comm;
    int signal = 0;
    WallTime time;           // of the death
    MonotonicTime at;        // the same; 0: unknown
    WallTime started;        // the process's start; 0: unknown
    std::string auxv;        // raw bytes, from /proc/PID/auxv or mm->saved_auxv; "" unknown
    std::uint32_t uid = ~0u; // real uid as the initial user namespace sees it; ~0: unknown
};

enum class Join { Exact, Window, None };

// What proves what.  A pid is no identity, and no COREDUMP_* field (v252 to v257) holds the
// process's start; so:
//
// exact:  the same boot, pid and signal; equal auxiliary vectors (COREDUMP_PROC_AUXV and ours); the
//         entry's time of death (1 s resolution) within [-1 s, +2 s] of ours and the entry itself
//         not older than it; no other entry that fits and names another core; no contradiction in
//         uid and process start.
//         A vector holds the addresses of stack, program and vdso, some 50 random bits drawn at
//         execve().  If the stack was not placed at random (setarch -R, kernel.randomize_va_space=0,
//         32-bit), it says less, and exe must be equal too.
//         It can still be wrong if within three seconds the pid was given to another process,
//         forked from the same parent without an execve(), that died of the same signal, while ours
//         left no entry.
// window: the same boot and pid, the entry's time at most 60 s after the death (the kernel stamps
//         a dump only when all threads have stopped), nothing contradicts; but something of
//         the above is missing, and reason says what.
// none:   there is no entry, or each entry for this pid belongs to another death, or several may
//         belong to it and name different cores; reason says why.
//
// If the auxiliary vector, signal, uid or exe differs, the entry belongs to another death.  But an equal vector
// outweighs a different exe (one path can look different to two processes) and a different signal (a handler may end in
// abort(); the join is then "window").
//
// Anybody can write entries.  So an entry counts only if what journald itself says of its sender shows that
// systemd-coredump sent it (writer_of() in core_match.cpp), and its file only if it is one that systemd-coredump stored
// (stored_core.h) and its name is of this death.
struct CoreLink {
    Join join = Join::None;
    std::string reason;
    std::string file; // COREDUMP_FILENAME as the entry says; "" if none was stored
    std::string journal_cursor;
    bool truncated = false;
    bool pending = false;         // there is none yet, but a dump may be under way, so ask again
    std::uint64_t file_bytes = 0; // 0: not there (any more)
    bool dumping = false;         // /proc shows that the process is being dumped
    std::string rejected;         // of None: why the nearest entry is not of this death; "" there is none
};

class CoreJournal {
public:
    // Opens the local journal (system + runtime).  directory: for tests ("" = default).
    static Result<CoreJournal> open(const std::string &directory = "", const OsRoots &os = {});
    // The reason of a link with a core says why it is exact or not.  The reason of one without says why there is no
    // core (not stored, inside the journal entry, or removed since).
    Result<CoreLink> find(const DeathIdentity &death);
    // For an event loop: the descriptor is readable (POLLIN) when the journal has changed; then call process().  It
    // stays the same.
    int fd() const;
    Status process();
    // Opens it anew if that was not done just now.  libsystemd passes over a file that it cannot open, even if that is
    // so for a moment only (descriptors are short), and never tries it again.
    Status refresh();

    CoreJournal(CoreJournal &&) noexcept;
    CoreJournal &operator=(CoreJournal &&) noexcept;
    ~CoreJournal();

private:
    struct Impl;
    explicit CoreJournal(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// What is known without a journal entry.  It can show why no core was written: the signal makes none (SIGKILL,
// SIGTERM…), RLIMIT_CORE is 0 or 1, the process is not dumpable, core_pattern is not systemd-coredump's, the kernel log
// says "over core_pipe_limit" for this pid, or nobody listens on /run/systemd/coredump.
struct CorePrecheck {
    int signal = 0;
    std::uint64_t rlimit_core = ~0ull;
    std::uint32_t dumpable = 1;
    std::uint32_t pid = 0, ns_pid = 0;
    std::string core_pattern; // contents of /proc/sys/kernel/core_pattern
    std::string kernel_log;   // host/kernel_log
    MonotonicTime died;       // earlier lines of the log are of others; 0: not known
    bool listener = true;     // /run/systemd/coredump accepts
};
std::string no_core_reason(const CorePrecheck &precheck);
// "" or what the kernel logged about the time of the death that may be the reason.  It does not say whose core that
// was, so it proves nothing: a core may still come.
std::string no_handler_hint(const CorePrecheck &precheck);
// Whether somebody listens on /run/systemd/coredump.  It reads /proc/1/net/unix, because a connection would start a
// systemd-coredump.
bool coredump_socket_listens(const OsRoots &os = {});

} // namespace incident::capture
