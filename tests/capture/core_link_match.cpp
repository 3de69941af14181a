#include "capture/core/core_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <elf.h>

#include <cstring>
#include <fstream>
#include <tuple>

namespace incident::capture {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t S = 1'000'000'000, MS = S / 1000, DEATH = 1'795'273'445 * S + 700'000'000;

std::string auxv(std::uint64_t random, std::uint64_t entry = 0x55d5c0001000, std::uint64_t page = 4096) {
    const std::uint64_t words[] = {AT_PAGESZ, page, AT_ENTRY, entry, AT_RANDOM, random, AT_NULL, 0};
    return {reinterpret_cast<const char *>(words), sizeof words};
}
const std::string OURS = auxv(0x7ffc3b01a5b9), OTHERS = auxv(0x7ffe11223344), UNRANDOMIZED = auxv(0x7fffffffe5b9);

DeathIdentity death() {
    DeathIdentity d;
    d.boot_id = std::string(32, 'a');
    d.process.pid = 1234;
    d.process.start.ns = 1000 * S;
    d.started.ns = DEATH - 1000 * S;
    d.exe = "/usr/bin/app";
    d.comm = "app";
    d.signal = 11;
    d.time.ns = DEATH;
    d.uid = 1000;
    d.auxv = OURS;
    return d;
}

CoreEntry entry(const std::string &cursor = "c1") {
    CoreEntry e;
    e.cursor = cursor;
    e.signal = 11;
    e.uid = 1000;
    e.exe = "/usr/bin/app";
    e.auxv = OURS;
    e.death.ns = DEATH / S * S; // cut to the second: 0.7 s before the death
    e.written.ns = DEATH + 80 * MS;
    e.file = "/var/lib/systemd/coredump/core.app.zst";
    e.transport = "journal";
    e.writer_uid = 995;
    e.writer_exe = "/usr/lib/systemd/systemd-coredump";
    e.writer_unit = "systemd-coredump@3-4711-0.service";
    return e;
}

CoreHandler handler(bool in_unit = true) {
    return {.uid = 995, .exe = "", .in_unit = in_unit};
}

std::string stored_name(const std::string &uid, const std::string &pid, char boot, std::uint64_t us) {
    return "/var/lib/systemd/coredump/core.app." + uid + "." + std::string(32, boot) + "." + pid + "." +
           std::to_string(us) + ".zst";
}

// The core that systemd-coredump stores of this death.
std::string true_file() {
    return stored_name("1000", "1234", 'a', entry().death.ns / 1000);
}

CoreMatch match(const DeathIdentity &d, std::initializer_list<CoreEntry> entries) {
    static std::vector<CoreEntry> kept; // the match points into it
    kept = entries;
    return match_core(d, kept, handler());
}

template <typename Change> CoreMatch changed(Change change) {
    DeathIdentity d = death();
    CoreEntry e = entry();
    change(d, e);
    return match(d, {e});
}

TEST(CoreMatch, TheVectorProvesIt) {
    const auto found = match(death(), {entry()});
    EXPECT_EQ(found.join, Join::Exact);
    EXPECT_EQ(found.reason, "same boot, pid, auxiliary vector, signal and second; no other entry fits");
    EXPECT_EQ(found.entry->cursor, "c1");
    // As it stands in mm->saved_auxv, with zeros to its end.
    EXPECT_EQ(changed([](auto &d, auto &) { d.auxv.append(200, '\0'); }).join, Join::Exact);
    // A path seen from another mount namespace, or cut, or not known at all.
    EXPECT_EQ(changed([](auto &d, auto &) { d.exe = "/overlay/usr/bin/app"; }).join, Join::Exact);
    EXPECT_EQ(changed([](auto &d, auto &e) { d.exe = e.exe = ""; }).join, Join::Exact);
}

TEST(CoreMatch, AtTheTurnOfASecondTheCoarseClockLags) {
    DeathIdentity turn = death();
    turn.time.ns = DEATH / S * S + 300'000; // the tick that turns the second is still to come
    CoreEntry before = entry();
    before.death.ns = (DEATH / S - 1) * S;
    before.written = turn.time + 80 * MS;
    EXPECT_EQ(match(turn, {before}).join, Join::Exact);
    turn.time.ns += S / 2; // by then it has come
    before.written.ns += S / 2;
    EXPECT_EQ(match(turn, {before}).join, Join::None);
}

TEST(CoreMatch, WithoutTheVectorNothingIsExact) {
    for (const auto &[ours, theirs, why] :
         {std::tuple(std::string(), OURS, "our auxiliary vector is not known"),
          {OURS, std::string(), "the entry has no auxiliary vector"},
          {std::string(), std::string(), "our auxiliary vector is not known, the entry has no auxiliary vector"}}) {
        const auto weak = [&](auto change) {
            return changed([&](auto &d, auto &e) {
                d.auxv = ours;
                e.auxv = theirs;
                change(d, e);
            });
        };
        const auto found = weak([](auto &, auto &) {});
        EXPECT_EQ(found.join, Join::Window);
        EXPECT_EQ(found.reason, std::string("same boot, pid; not proven: ") + why);
        EXPECT_EQ(weak([](auto &d, auto &) { d.exe = "/usr/bin/other"; }).join, Join::None);
        EXPECT_EQ(weak([](auto &, auto &e) { e.signal = 6; }).join, Join::None);
    }
}

TEST(CoreMatch, AVectorThatSaysLittleNeedsTheProgramToo) {
    const auto weak = [](auto change) {
        return changed([&](auto &d, auto &e) {
            d.auxv = e.auxv = UNRANDOMIZED;
            change(d, e);
        });
    };
    const auto found = weak([](auto &, auto &) {});
    EXPECT_EQ(found.join, Join::Exact);
    EXPECT_EQ(found.reason, "same boot, pid, auxiliary vector, signal, executable and second; no other entry fits");
    EXPECT_EQ(weak([](auto &d, auto &) { d.exe = "/usr/bin/other"; }).join, Join::None);
    EXPECT_EQ(weak([](auto &d, auto &) { d.exe += " (deleted)"; }).join, Join::Exact);
    EXPECT_EQ(weak([](auto &, auto &e) { e.exe += " (deleted)"; }).join, Join::Exact);
    const auto no_exe = weak([](auto &d, auto &) { d.exe = ""; });
    EXPECT_EQ(no_exe.join, Join::Window);
    EXPECT_EQ(no_exe.reason, "same boot, pid, auxiliary vector; not proven: our executable is not known");
    EXPECT_EQ(weak([](auto &, auto &e) { e.exe = ""; }).reason,
              "same boot, pid, auxiliary vector; not proven: the entry names no executable");
    EXPECT_EQ(weak([](auto &, auto &e) { e.signal = 6; }).join, Join::None);
}

TEST(CoreMatch, ContradictionsAreOthersDeaths) {
    const auto none = [](auto change, const std::string &why) {
        const auto found = changed(change);
        EXPECT_EQ(found.join, Join::None) << why;
        EXPECT_EQ(found.entry, nullptr);
        EXPECT_THAT(found.reason, HasSubstr(why));
        EXPECT_THAT(found.reason, HasSubstr("pid 1234"));
    };
    none([](auto &, auto &e) { e.auxv = OTHERS; }, "the auxiliary vectors differ");
    none([](auto &, auto &e) { e.uid = 1001; }, "of another user");
    none([](auto &, auto &e) { e.death.ns -= 5 * S; }, "older than the death");
    none([](auto &, auto &e) { e.written.ns -= 5 * S; }, "older than the death");
    none(
        [](auto &, auto &e) {
            e.death.ns += 61 * S;
            e.written.ns += 61 * S;
        },
        "of a dump 60 s after the death");
    none([](auto &d, auto &) { d.started.ns = DEATH + 3 * S; }, "older than the process");
}

// Between a death and its entry the clock may be set, by hours when a machine without a battery first hears of the
// time.
TEST(CoreMatch, TheClockMayBeSetMeanwhile) {
    const auto written = [](std::int64_t wall, std::int64_t monotonic) {
        return changed([=](auto &d, auto &e) {
            d.at.ns = 1000 * S;
            e.written.ns = DEATH + static_cast<std::uint64_t>(wall);
            e.written_at.ns = 1000 * S + static_cast<std::uint64_t>(monotonic);
        });
    };
    const auto second = static_cast<std::int64_t>(S);
    EXPECT_EQ(written(-3600 * second, second / 10).join, Join::Exact);
    EXPECT_EQ(written(3600 * second, second / 10).join, Join::Exact);
    const auto older = written(second / 10, -5 * second);
    EXPECT_EQ(older.join, Join::None);
    EXPECT_THAT(older.reason, HasSubstr("older than the death"));
}

// Each of journald's own fields alone shows that somebody else wrote the entry, however well the rest fits.
TEST(CoreMatch, AForgedEntryProvesNothing) {
    const auto forged = [](auto change, const std::string &by) {
        const auto found = changed([&](auto &, auto &e) { change(e); });
        EXPECT_EQ(found.join, Join::None) << by;
        EXPECT_EQ(found.entry, nullptr);
        EXPECT_THAT(found.reason, HasSubstr("it was not written by systemd-coredump but by " + by));
        EXPECT_THAT(found.rejected, HasSubstr(by));
    };
    const std::string genuine = "/usr/lib/systemd/systemd-coredump, systemd-coredump@3-4711-0.service";
    forged([](auto &e) { e.writer_uid = 1001; }, "uid 1001, " + genuine);
    forged([](auto &e) { e.writer_uid = 33; }, "uid 33, " + genuine);
    forged([](auto &e) { e.writer_uid = std::nullopt; }, "nobody known, " + genuine);
    forged([](auto &e) { e.transport = "syslog"; }, "uid 995, " + genuine);
    forged([](auto &e) { e.transport = ""; }, "uid 995, " + genuine);
    forged([](auto &e) { e.writer_exe = "/home/eve/systemd-coredump"; },
           "uid 995, /home/eve/systemd-coredump, systemd-coredump@3-4711-0.service");
    forged([](auto &e) { e.writer_unit = "session-7.scope"; },
           "uid 995, /usr/lib/systemd/systemd-coredump, session-7.scope");
    forged([](auto &e) { e.writer_unit = "user@1000.service"; },
           "uid 995, /usr/lib/systemd/systemd-coredump, user@1000.service");
    // Root in a container that has the machine's journal socket.
    forged(
        [](auto &e) {
            e.writer_uid = 0;
            e.writer_unit = "docker-1234.scope";
        },
        "uid 0, /usr/lib/systemd/systemd-coredump, docker-1234.scope");
    // What she says of the program is hers; what she is is not.
    forged(
        [](auto &e) {
            e.writer_uid = 1001;
            e.writer_unit = "";
            e.uid = 1000;
            e.file = true_file();
        },
        "uid 1001, /usr/lib/systemd/systemd-coredump");
}

TEST(CoreMatch, SystemdCoredumpIsKnownByItsUserAndItsUnit) {
    const auto genuine = [](std::optional<std::uint32_t> uid, const std::string &exe, const std::string &unit,
                            const CoreHandler &here = handler()) {
        CoreEntry e = entry();
        e.writer_uid = uid;
        e.writer_exe = exe;
        e.writer_unit = unit;
        return match_core(death(), std::span(&e, 1), here).join == Join::Exact;
    };
    const std::string unit = "systemd-coredump@3-4711-0.service", exe = "/usr/lib/systemd/systemd-coredump";
    EXPECT_TRUE(genuine(0, exe, unit)) << "there is no user systemd-coredump";
    EXPECT_TRUE(genuine(995, exe, unit));
    EXPECT_TRUE(genuine(1000, exe, unit)) << "it writes as the user the core belongs to";
    EXPECT_TRUE(genuine(995, "/lib/systemd/systemd-coredump", unit)) << "/usr is not merged";
    EXPECT_TRUE(genuine(995, exe + " (deleted)", unit)) << "an upgrade";
    EXPECT_TRUE(genuine(995, "", "")) << "it had ended before journald looked";
    EXPECT_TRUE(genuine(0, exe, "")) << "the kernel starts it outside of any unit, when process 1 crashes";
    EXPECT_FALSE(genuine(995, "/opt/systemd-coredump", unit));
    EXPECT_TRUE(genuine(995, "/opt/systemd-coredump", unit, {.uid = 995, .exe = "/opt/systemd-coredump"}));
    EXPECT_TRUE(genuine(995, exe, "docker-1234.scope", handler(false))) << "systemd does not run this machine";
    EXPECT_FALSE(genuine(995, exe, unit, {})) << "no such user here";
}

// The user whose process died sends entries too, by any program, also by the genuine one (--backtrace).
TEST(CoreMatch, OfTheUsersOwnProcessesTheStoredFileMustProveIt) {
    const auto own = [](auto change, bool in_unit = true) {
        CoreEntry e = entry();
        e.writer_uid = 1000;
        e.writer_unit = "";
        e.file = true_file();
        change(e);
        return match_core(death(), std::span(&e, 1), handler(in_unit));
    };
    EXPECT_EQ(own([](auto &) {}).join, Join::Exact);
    EXPECT_EQ(own([](auto &e) { e.writer_exe = ""; }).join, Join::Exact);
    EXPECT_EQ(own([](auto &) {}, false).join, Join::Exact);
    for (const std::string &file : {std::string(), std::string("/var/lib/systemd/coredump/core.app.zst")}) {
        const auto found = own([&](auto &e) { e.file = file; });
        EXPECT_EQ(found.join, Join::None);
        EXPECT_THAT(found.reason, HasSubstr("no core file proves it"));
    }
    EXPECT_EQ(own([](auto &e) { e.writer_unit = "session-7.scope"; }).join, Join::None);
    EXPECT_EQ(own([](auto &e) { e.writer_exe = "/usr/bin/logger"; }).join, Join::None);
}

TEST(CoreMatch, BesideSystemdCoredumpsEntryTheUsersOwnCountForNothing) {
    CoreEntry own = entry("own"), genuine = entry("genuine");
    genuine.file = true_file();
    own.writer_uid = 1000;
    own.writer_unit = "";
    own.file = stored_name("1000", "1234", 'a', own.death.ns / 1000).replace(31, 3, "gone"); // core.gone.1000…
    EXPECT_EQ(match(death(), {own}).join, Join::Exact) << "alone it is believed";
    for (const auto &found : {match(death(), {own, genuine}), match(death(), {genuine, own})}) {
        EXPECT_EQ(found.join, Join::Exact) << found.reason;
    }
    EXPECT_EQ(match(death(), {own, genuine}).entry->cursor, "genuine");
    genuine.death.ns = ~0ull / 2 + 1; // no distance from it is a number
    EXPECT_NE(match(death(), {genuine}).join, Join::Exact);
}

TEST(CoreMatch, TheNameOfTheStoredFileIsOfTheSameDeath) {
    const auto with = [](const std::string &file) { return changed([&](auto &, auto &e) { e.file = file; }); };
    const std::uint64_t us = entry().death.ns / 1000;
    EXPECT_EQ(with(true_file()).join, Join::Exact);
    EXPECT_THAT(with(stored_name("1001", "1234", 'a', us)).reason,
                HasSubstr("its core file is of a process of uid 1001"));
    EXPECT_THAT(with(stored_name("1000", "1235", 'a', us)).reason, HasSubstr("its core file is of pid 1235"));
    EXPECT_THAT(with(stored_name("1000", "1234", 'b', us)).reason, HasSubstr("its core file is of another boot"));
    EXPECT_THAT(with(stored_name("1000", "1234", 'a', us + 1'000'000)).reason,
                HasSubstr("its core file is of another time"));
}

TEST(CoreMatch, AWindowSaysWhatIsMissing) {
    const auto window = [](auto change, const std::string &why) {
        const auto found = changed(change);
        EXPECT_EQ(found.join, Join::Window) << why;
        EXPECT_EQ(found.reason, "same boot, pid, auxiliary vector; not proven: " + why);
        EXPECT_NE(found.entry, nullptr);
    };
    window([](auto &, auto &e) { e.signal = 6; }, "it died of signal 6, not 11");
    window([](auto &d, auto &) { d.signal = 0; }, "our signal is not known");
    window([](auto &, auto &e) { e.signal = 0; }, "the entry names no signal");
    window([](auto &, auto &e) { e.death.ns += 10 * S; }, "the dump began 9 s after the death");
    window([](auto &, auto &e) { e.death.ns = 0; }, "the entry names no time of death");
}

TEST(CoreMatch, OfSeveralThatContradictNoneIsTaken) {
    auto found = match(death(), {entry("c1"), entry("c2")});
    EXPECT_EQ(found.join, Join::Exact) << "they name one core";
    EXPECT_EQ(found.reason,
              "same boot, pid, auxiliary vector, signal and second; each entry that fits names this core");
    for (const char *file : {"", "/var/lib/systemd/coredump/core.other.zst"}) {
        CoreEntry second = entry("c2");
        second.file = file;
        for (const auto &order : {std::pair(entry("c1"), second), {second, entry("c1")}}) {
            found = match(death(), {order.first, order.second});
            EXPECT_EQ(found.join, Join::None);
            EXPECT_EQ(found.entry, nullptr);
            EXPECT_EQ(found.reason, "2 entries of systemd-coredump for pid 1234 in this boot may be of this death, and "
                                    "they name different cores");
        }
    }
    CoreEntry other = entry("c2");
    other.auxv = OTHERS;
    found = match(death(), {other, entry("c1"), other});
    EXPECT_EQ(found.join, Join::Exact);
    EXPECT_EQ(found.entry->cursor, "c1");
    CoreEntry late = entry("late");
    late.death.ns += 30 * S;
    found = match(death(), {late, entry("c1")});
    EXPECT_EQ(found.join, Join::Exact);
    EXPECT_EQ(found.entry->cursor, "c1");
    CoreEntry later = late;
    later.cursor = "later";
    later.death.ns += 20 * S;
    found = match(death(), {later, late});
    EXPECT_EQ(found.join, Join::Window);
    EXPECT_EQ(found.entry->cursor, "late") << "the nearest";
}

TEST(CoreMatch, NothingToMatch) {
    const auto found = match_core(death(), {});
    EXPECT_EQ(found.join, Join::None);
    EXPECT_EQ(found.reason, "no entry of systemd-coredump for pid 1234 in this boot");
}

TEST(CoreMatch, KnowsARandomizedStack) {
    EXPECT_TRUE(auxv_identifies(OURS));
    EXPECT_FALSE(auxv_identifies(UNRANDOMIZED));
    EXPECT_FALSE(auxv_identifies(auxv(0xffffffffe5b9))) << "arm64, 48 bits";
    EXPECT_FALSE(auxv_identifies("")) << "unknown";
    EXPECT_FALSE(auxv_identifies(std::string(368, '\0')));
    EXPECT_FALSE(auxv_identifies(auxv(0)));
    EXPECT_FALSE(auxv_identifies(auxv(0x7ffc3b01a5b9, 0, 7))) << "not words of 64 bits";
    EXPECT_FALSE(auxv_identifies(OURS.substr(0, 20)));
}

} // namespace
} // namespace incident::capture
