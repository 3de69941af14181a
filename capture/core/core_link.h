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
    WallTime time;                        // of the death
    std::uint64_t boottime_offset_ns = 0; // realtime - boottime, when captured
    std::string auxv;                     // raw bytes, from /proc/PID/auxv or mm->saved_auxv; "" unknown
    std::uint32_t uid = ~0u;              // real uid as the initial user namespace sees it; ~0: unknown
};

enum class Join { Exact, Window, None };

// What proves what.  A pid is no identity, and no COREDUMP_* field (v252 to v257) holds the
// process's start; so:
//
// exact:  the same boot, pid and signal; the entry's time of death (1 s resolution) within
//         [-1 s, +2 s] of ours and the entry itself not older than it; no other entry that fits;
//         no contradiction in uid and process start; and one of
//         - equal auxiliary vectors (COREDUMP_PROC_AUXV and ours): they hold the addresses of
//           stack, program and vdso, some 50 random bits drawn at execve(); or
//         - equal exe, both known, where a vector is missing or says nothing because the stack
//           was not placed at random (setarch -R, kernel.randomize_va_space=0, 32-bit).
//         What remains: within three seconds the pid was given away again, to a process that
//         died of the same signal in the same program (with the vector: forked from the same
//         parent without an execve()), while ours left no entry.
// window: the same boot and pid, the entry's time at most 60 s after the death (the kernel stamps
//         a dump only when all threads have stopped), nothing contradicts; but something of
//         the above is missing, and reason says what.
// none:   no entry, or each for this pid is of another death; reason says why.
//
// An unequal auxiliary vector, signal, uid or exe is a contradiction: that entry is another
// death's.  An equal vector overrules two of them: exe (two views of one path), and signal
// (a handler that ends in abort(): window).
// Entries are written by whoever likes: one that a user's process sent itself is passed
// over (journald's own _UID and _EXE tell), and a file is taken from the entry only
// when it lies in systemd-coredump's directory.
struct CoreLink {
    Join join = Join::None;
    std::string reason;
    std::string file; // COREDUMP_FILENAME as the entry says; "" if none was stored
    std::string journal_cursor;
    bool truncated = false;
    bool pending = false;         // none, but a dump may still be under way: ask again
    std::uint64_t file_bytes = 0; // 0: not there (any more)
};

class CoreJournal {
public:
    // Opens the local journal (system + runtime).  directory: for tests ("" = default).
    static Result<CoreJournal> open(const std::string &directory = "", const OsRoots &os = {});
    // The reason of a link with a core says what makes it exact or keeps it from it; of one
    // without, why there is none (not stored, inside the journal entry, vacuumed since).
    Result<CoreLink> find(const DeathIdentity &death);
    // For an event loop: a descriptor that stays the same, readable (POLLIN) when the journal
    // has changed, and what to call then.
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
    std::string core_pattern; // contents of /proc/sys/kernel/core_pattern
    std::string kernel_log;   // host/kernel_log
    bool listener = true;     // /run/systemd/coredump accepts
};
std::string no_core_reason(const CorePrecheck &facts);
// Does somebody listen on /run/systemd/coredump?  From /proc/1/net/unix: connecting would
// start a systemd-coredump.
bool coredump_socket_listens(const OsRoots &os = {});

} // namespace incident::capture
