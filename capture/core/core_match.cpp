#include "capture/core/core_match.h"

#include "capture/core/stored_core.h"
#include "capture/os/number.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace incident::capture {

namespace {

constexpr std::int64_t SECOND = 1'000'000'000;
// COREDUMP_TIMESTAMP is cut to the second; the clock is read when all threads have stopped, shortly after the
// death, but it is the kernel's coarse one (ktime_get_real_seconds()), which lags by up to a tick: at the turn of a
// second it may still say the one before.
constexpr std::int64_t COARSE = SECOND / 20; // a tick is 10 ms at most (CONFIG_HZ_100); and the clock may be adjusted
constexpr std::int64_t EARLIEST = -SECOND - COARSE, LATEST = 2 * SECOND;
constexpr std::int64_t WINDOW = 60 * SECOND;
// No stack starts further below its unrandomized top (arguments and environment).
constexpr std::uint64_t STACK_SLACK = 8u << 20;

enum class Fit { Other, Window, Fits };

struct Judgement {
    Fit match = Fit::Other;
    std::string text; // why Other, what is missing, or what proves it
};

// mm->saved_auxv is an array with zeros at its end, /proc/PID/auxv stops at AT_NULL.
std::string_view stripped(std::string_view auxv) {
    const std::size_t last = auxv.find_last_not_of('\0');
    return auxv.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

// The kernel appends this to the name of a file that was replaced (an upgrade) or removed.
std::string_view without_deleted(std::string_view exe) {
    constexpr std::string_view MARK = " (deleted)";
    return exe.ends_with(MARK) ? exe.substr(0, exe.size() - MARK.size()) : exe;
}

// Who wrote an entry, as far as journald attests it.
enum class Writer {
    Other,   // not systemd-coredump
    OfUser,  // a process of the user whose process died: systemd-coredump, or whatever else that user runs
    Handler, // systemd-coredump
};

bool is_handler_unit(std::string_view unit) {
    return unit.starts_with("systemd-coredump") && unit.ends_with(".service"); // "systemd-coredump@0-4242-0.service"
}

bool is_handler_exe(std::string_view exe, const CoreHandler &handler) {
    const std::string_view path = without_deleted(exe); // it may be upgraded while it runs
    return path == "/usr/lib/systemd/systemd-coredump" || path == "/lib/systemd/systemd-coredump" ||
           (!handler.exe.empty() && path == handler.exe);
}

// systemd-coredump stores the core as root.  Then it becomes the user whose process died, or its own user if that is
// one of the system's (change_uid_gid(), coredump.c, v229 to v257), and only then sends the entry.
//
// A program's path proves nothing about a user's process.  She can mount what she likes at that path in a mount
// namespace of her own, and the genuine program sends any fields for anybody: systemd-coredump --backtrace.  Her uid
// and her unit are what she cannot choose.
Writer writer_of(const CoreEntry &entry, const DeathIdentity &death, const CoreHandler &handler) {
    if (entry.transport != "journal" || !entry.writer_uid)
        return Writer::Other;
    if (!entry.writer_exe.empty() && !is_handler_exe(entry.writer_exe, handler))
        return Writer::Other;
    if (handler.in_unit && !entry.writer_unit.empty() && !is_handler_unit(entry.writer_unit))
        return Writer::Other;
    if (*entry.writer_uid == 0 || entry.writer_uid == handler.uid)
        return Writer::Handler;
    if (*entry.writer_uid != death.uid || entry.writer_uid != entry.uid)
        return Writer::Other;
    return handler.in_unit && is_handler_unit(entry.writer_unit) ? Writer::Handler : Writer::OfUser;
}

// "it was not written by systemd-coredump but by uid 1001, /tmp/systemd-coredump, session-1.scope"
std::string not_by_handler(const CoreEntry &entry) {
    std::string text = "it was not written by systemd-coredump but by " +
                       (entry.writer_uid ? "uid " + std::to_string(*entry.writer_uid) : std::string("nobody known"));
    for (const std::string &part : {entry.writer_exe, entry.writer_unit})
        if (!part.empty())
            text += ", " + part;
    return text;
}

// "" or why the file that the entry names is not the core of this death.
std::string wrong_file(const CoreEntry &entry, const DeathIdentity &death, Writer writer) {
    const auto name = StoredCoreName::parse(entry.file);
    if (!name)
        return writer == Writer::OfUser ? "a process of the user's own may have written it, and no core file proves it"
                                        : "";
    if (std::string why = name->contradiction(death); !why.empty())
        return why;
    if (entry.death.ns != 0 && name->death != entry.death)
        return "its core file is of another time";
    return "";
}

std::string seconds(std::int64_t ns) {
    return std::to_string(ns / SECOND) + " s";
}

// Of the dump's time after our death; negative: before it.
std::int64_t delay(const CoreEntry &entry, const DeathIdentity &death) {
    const WallTime dumped = entry.death.ns != 0 ? entry.death : entry.written;
    return static_cast<std::int64_t>(dumped.ns - death.time.ns);
}

// "" or why the entry cannot be that of this death.
std::string contradiction(const CoreEntry &entry, const DeathIdentity &death, const CoreHandler &handler,
                          std::int64_t late, bool same_image) {
    const Writer writer = writer_of(entry, death, handler);
    if (writer == Writer::Other)
        return not_by_handler(entry);
    const std::string_view our_exe = without_deleted(death.exe), their_exe = without_deleted(entry.exe);
    if (death.uid != ~0u && entry.uid && *entry.uid != death.uid)
        return "it is of a process of another user";
    if (!death.auxv.empty() && !entry.auxv.empty() && stripped(death.auxv) != stripped(entry.auxv))
        return "it is of another process (the auxiliary vectors differ)";
    if (!same_image && !our_exe.empty() && !their_exe.empty() && our_exe != their_exe)
        return "it is of another program";
    if (!same_image && death.signal != 0 && entry.signal != 0 && entry.signal != death.signal)
        return "it is of another signal (" + std::to_string(entry.signal) + ")";
    if (late < EARLIEST || is_older(entry, death))
        return "it is older than the death";
    if (late > WINDOW)
        return "it is of a dump " + seconds(late) + " after the death";
    if (death.started.ns != 0 && entry.death.ns != 0 && entry.death + SECOND + COARSE < death.started)
        return "it is older than the process";
    return wrong_file(entry, death, writer);
}

Judgement judge(const CoreEntry &entry, const DeathIdentity &death, const CoreHandler &handler) {
    const bool same_image = stripped(death.auxv) == stripped(entry.auxv) && auxv_identifies(death.auxv);
    const std::int64_t late = delay(entry, death);
    if (std::string why = contradiction(entry, death, handler, late, same_image); !why.empty())
        return {Fit::Other, std::move(why)};

    std::string missing;
    const auto lacks = [&](bool lacking, const std::string &what) {
        if (lacking)
            missing += (missing.empty() ? "" : ", ") + what;
    };
    lacks(death.auxv.empty(), "our auxiliary vector is not known");
    lacks(entry.auxv.empty(), "the entry has no auxiliary vector");
    lacks(!same_image && death.exe.empty(), "our executable is not known");
    lacks(!same_image && entry.exe.empty(), "the entry names no executable");
    lacks(death.signal == 0, "our signal is not known");
    lacks(entry.signal == 0, "the entry names no signal");
    lacks(death.signal != 0 && entry.signal != 0 && entry.signal != death.signal,
          "it died of signal " + std::to_string(entry.signal) + ", not " + std::to_string(death.signal));
    lacks(entry.death.ns == 0, "the entry names no time of death");
    lacks(late > LATEST, "the dump began " + seconds(late) + " after the death");
    const bool same_vector = !death.auxv.empty() && !entry.auxv.empty(); // else it would contradict
    const std::string same = std::string("same boot, pid") + (same_vector ? ", auxiliary vector" : "");
    if (!missing.empty())
        return {Fit::Window, same + "; not proven: " + missing};
    return {Fit::Fits, same + ", signal" + (same_image ? "" : ", executable") + " and second"};
}

} // namespace

// The clock may have been set meanwhile: that which never is decides where both are known.
bool is_older(const CoreEntry &entry, const DeathIdentity &death) {
    if (death.at.ns != 0 && entry.written_at.ns != 0)
        return entry.written_at + SECOND < death.at;
    return entry.written + SECOND < death.time;
}

bool written_by_handler(const CoreEntry &entry, const CoreHandler &handler) {
    DeathIdentity death;
    death.uid = entry.writer_uid.value_or(~0u);
    return writer_of(entry, death, handler) == Writer::Handler;
}

CoreEntry core_entry_of(const std::function<std::string(const char *name)> &field) {
    CoreEntry entry;
    entry.signal = whole_number<int>(field("COREDUMP_SIGNAL")).value_or(0);
    entry.uid = whole_number<std::uint32_t>(field("COREDUMP_UID"));
    entry.exe = field("COREDUMP_EXE");
    entry.auxv = field("COREDUMP_PROC_AUXV");
    entry.death = {whole_number<std::uint64_t>(field("COREDUMP_TIMESTAMP")).value_or(0) * 1000};
    entry.file = field("COREDUMP_FILENAME");
    entry.truncated = field("COREDUMP_TRUNCATED") == "1";
    entry.embedded = entry.file.empty() && !field("COREDUMP").empty();
    entry.writer_uid = whole_number<std::uint32_t>(field("_UID"));
    entry.writer_exe = field("_EXE");
    entry.writer_unit = field("_SYSTEMD_UNIT");
    entry.transport = field("_TRANSPORT");
    return entry;
}

bool auxv_identifies(std::string_view auxv) {
    std::uint64_t random = 0;
    bool pages = false;
    for (std::size_t at = 0; at + 16 <= auxv.size(); at += 16) {
        std::uint64_t pair[2];
        std::memcpy(pair, auxv.data() + at, sizeof pair);
        if (pair[0] == AT_RANDOM)
            random = pair[1];
        if (pair[0] == AT_PAGESZ)
            pages =
                pair[1] >= 4096 && pair[1] <= 65536; // else it is a 32-bit process's: half as wide, fewer random bits
    }
    if (!pages || random == 0)
        return false;
    // Address spaces end at a power of two: 2^47 (x86-64), 2^48, 2^52 (arm64) …
    for (int bits = 32; bits < 64; ++bits)
        if (const std::uint64_t top = std::uint64_t{1} << bits; random < top && top - random < STACK_SLACK)
            return false;
    return true;
}

CoreMatch match_core(const DeathIdentity &death, std::span<const CoreEntry> entries, const CoreHandler &handler) {
    CoreMatch best;
    Fit match = Fit::Other;
    std::uint64_t nearest = UINT64_MAX;
    std::size_t equals = 0; // entries that match as well as the best one
    bool contradict = false;
    // Beside an entry of systemd-coredump's, what a process of the user's own has sent counts for nothing.
    const bool by_handler = std::ranges::any_of(entries, [&](const CoreEntry &entry) {
        return writer_of(entry, death, handler) == Writer::Handler && judge(entry, death, handler).match != Fit::Other;
    });
    for (const CoreEntry &entry : entries) {
        if (by_handler && writer_of(entry, death, handler) == Writer::OfUser)
            continue;
        Judgement judgement = judge(entry, death, handler);
        const std::int64_t late = delay(entry, death);
        const std::uint64_t distance =
            late < 0 ? 0 - static_cast<std::uint64_t>(late) : static_cast<std::uint64_t>(late);
        const bool better = best.reason.empty() || judgement.match > match;
        if (better) {
            equals = 0;
            contradict = false;
        } else if (judgement.match == match) {
            contradict |= entry.file.empty() || entry.file != best.entry->file;
        }
        equals += judgement.match == match || better;
        if (better || (judgement.match == match && distance < nearest)) {
            match = judgement.match;
            nearest = distance;
            best.reason = std::move(judgement.text);
            best.entry = &entry;
        }
    }
    const std::string whose = "pid " + std::to_string(death.process.pid) + " in this boot";
    if (match == Fit::Other) {
        best.entry = nullptr;
        if (!best.reason.empty())
            best.rejected = "the nearest entry: " + best.reason;
        best.reason = "no entry of systemd-coredump for " + whose +
                      (best.reason.empty() ? "" : " is of this death; the nearest: " + best.reason);
        return best;
    }
    if (contradict) {
        best.entry = nullptr;
        best.reason = std::to_string(equals) + " entries of systemd-coredump for " + whose +
                      " may be of this death, and they name different cores";
        best.rejected = best.reason;
        return best;
    }
    best.join = match == Fit::Fits ? Join::Exact : Join::Window;
    if (match == Fit::Fits)
        best.reason += equals == 1 ? "; no other entry fits" : "; each entry that fits names this core";
    return best;
}

} // namespace incident::capture
