#include "capture/core/core_match.h"

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

enum class Match { Other, Window, Fits };

struct Judgement {
    Match match = Match::Other;
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

// A user's process may send an entry with any COREDUMP_ fields it likes.  systemd-coredump
// itself writes as root, as its own system user, or, having opened the core to a user, as
// that user; journald can name its program unless that had ended too soon.
bool is_forged(const CoreEntry &entry) {
    if (!entry.writer_uid || *entry.writer_uid == 0)
        return false;
    if (!entry.writer_exe.empty())
        return !entry.writer_exe.ends_with("/systemd-coredump");
    return *entry.writer_uid >= 1000 && entry.writer_uid != entry.uid;
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
std::string contradiction(const CoreEntry &entry, const DeathIdentity &death, std::int64_t late, bool same_image) {
    const std::string_view our_exe = without_deleted(death.exe), their_exe = without_deleted(entry.exe);
    if (is_forged(entry))
        return "it was not written by systemd-coredump but by uid " + std::to_string(entry.writer_uid.value_or(0));
    if (death.uid != ~0u && entry.uid && *entry.uid != death.uid)
        return "it is of a process of another user";
    if (!death.auxv.empty() && !entry.auxv.empty() && stripped(death.auxv) != stripped(entry.auxv))
        return "it is of another process (the auxiliary vectors differ)";
    if (!same_image && !our_exe.empty() && !their_exe.empty() && our_exe != their_exe)
        return "it is of another program";
    if (!same_image && death.signal != 0 && entry.signal != 0 && entry.signal != death.signal)
        return "it is of another signal (" + std::to_string(entry.signal) + ")";
    if (late < EARLIEST || entry.written + SECOND < death.time)
        return "it is older than the death";
    if (late > WINDOW)
        return "it is of a dump " + seconds(late) + " after the death";
    if (death.started.ns != 0 && entry.death.ns != 0 && entry.death + SECOND + COARSE < death.started)
        return "it is older than the process";
    return "";
}

Judgement judge(const CoreEntry &entry, const DeathIdentity &death) {
    const bool same_image = stripped(death.auxv) == stripped(entry.auxv) && auxv_identifies(death.auxv);
    const std::int64_t late = delay(entry, death);
    if (std::string why = contradiction(entry, death, late, same_image); !why.empty())
        return {Match::Other, std::move(why)};

    std::string missing;
    const auto lacks = [&](bool lacking, const std::string &what) {
        if (lacking)
            missing += (missing.empty() ? "" : ", ") + what;
    };
    lacks(!same_image && death.exe.empty(), "our executable is not known");
    lacks(!same_image && entry.exe.empty(), "the entry names no executable");
    lacks(death.signal == 0, "our signal is not known");
    lacks(entry.signal == 0, "the entry names no signal");
    lacks(death.signal != 0 && entry.signal != 0 && entry.signal != death.signal,
          "it died of signal " + std::to_string(entry.signal) + ", not " + std::to_string(death.signal));
    lacks(entry.death.ns == 0, "the entry names no time of death");
    lacks(late > LATEST, "the dump began " + seconds(late) + " after the death");
    const std::string same = std::string("same boot, pid") + (same_image ? ", auxiliary vector" : "");
    if (!missing.empty())
        return {Match::Window, same + "; not proven: " + missing};
    return {Match::Fits, same + ", signal" + (same_image ? "" : ", executable") + " and second; no other entry fits"};
}

} // namespace

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

CoreMatch match_core(const DeathIdentity &death, std::span<const CoreEntry> entries) {
    CoreMatch best;
    Match match = Match::Other;
    std::size_t fitting = 0;
    std::int64_t nearest = INT64_MAX;
    for (const CoreEntry &entry : entries) {
        Judgement judgement = judge(entry, death);
        fitting += judgement.match == Match::Fits;
        const std::int64_t distance = std::abs(delay(entry, death));
        if (best.reason.empty() || judgement.match > match || (judgement.match == match && distance < nearest)) {
            match = judgement.match;
            nearest = distance;
            best.reason = std::move(judgement.text);
            best.entry = &entry;
        }
    }
    switch (match) {
    case Match::Fits:
        best.join = fitting == 1 ? Join::Exact : Join::Window;
        if (fitting > 1)
            best.reason = "same boot and pid; not proven: " + std::to_string(fitting) + " entries fit";
        break;
    case Match::Window:
        best.join = Join::Window;
        break;
    case Match::Other:
        best.entry = nullptr;
        best.reason = "no entry of systemd-coredump for pid " + std::to_string(death.process.pid) + " in this boot" +
                      (best.reason.empty() ? "" : " is of this death; the nearest: " + best.reason);
        break;
    }
    return best;
}

} // namespace incident::capture
