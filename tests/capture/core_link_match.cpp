#include "capture/core/core_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <elf.h>

#include <cstring>
#include <fstream>

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
    e.writer_uid = 995;
    e.writer_exe = "/usr/lib/systemd/systemd-coredump";
    return e;
}

CoreMatch match(const DeathIdentity &d, std::initializer_list<CoreEntry> entries) {
    static std::vector<CoreEntry> kept; // the match points into it
    kept = entries;
    return match_core(d, kept);
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

TEST(CoreMatch, WithoutTheVectorCircumstancesDo) {
    const auto weak = [](const std::string &ours, const std::string &theirs, auto change) {
        return changed([&](auto &d, auto &e) {
            d.auxv = ours;
            e.auxv = theirs;
            change(d, e);
        });
    };
    const auto nothing = [](auto &, auto &) {};
    for (const auto &[ours, theirs] :
         {std::pair(std::string(), OURS), {OURS, std::string()}, {UNRANDOMIZED, UNRANDOMIZED}}) {
        const auto found = weak(ours, theirs, nothing);
        EXPECT_EQ(found.join, Join::Exact);
        EXPECT_EQ(found.reason, "same boot, pid, signal, executable and second; no other entry fits");
        EXPECT_EQ(weak(ours, theirs, [](auto &d, auto &) { d.exe = "/usr/bin/other"; }).join, Join::None);
        EXPECT_EQ(weak(ours, theirs, [](auto &d, auto &) { d.exe += " (deleted)"; }).join, Join::Exact);
        EXPECT_EQ(weak(ours, theirs, [](auto &, auto &e) { e.exe += " (deleted)"; }).join, Join::Exact);
        const auto no_exe = weak(ours, theirs, [](auto &d, auto &) { d.exe = ""; });
        EXPECT_EQ(no_exe.join, Join::Window);
        EXPECT_EQ(no_exe.reason, "same boot, pid; not proven: our executable is not known");
        EXPECT_EQ(weak(ours, theirs, [](auto &, auto &e) { e.exe = ""; }).reason,
                  "same boot, pid; not proven: the entry names no executable");
        EXPECT_EQ(weak(ours, theirs, [](auto &, auto &e) { e.signal = 6; }).join, Join::None);
    }
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

TEST(CoreMatch, AForgedEntryProvesNothing) {
    const auto forged = [](std::optional<std::uint32_t> uid, const std::string &exe) {
        return changed([&](auto &, auto &e) {
                   e.writer_uid = uid;
                   e.writer_exe = exe;
               }).join == Join::None;
    };
    EXPECT_TRUE(forged(1000, "/usr/bin/logger"));
    EXPECT_TRUE(forged(33, "/usr/bin/logger")) << "a system user is no more than that";
    EXPECT_TRUE(forged(1001, "")) << "journald came too late to see its program; another user's core";
    EXPECT_TRUE(forged(1000, "/tmp/not-systemd-coredump"));
    EXPECT_FALSE(forged(1000, "/lib/systemd/systemd-coredump")) << "writes as the user the core belongs to";
    EXPECT_FALSE(forged(1000, ""));
    EXPECT_FALSE(forged(995, ""));
    EXPECT_FALSE(forged(0, "/usr/bin/logger")) << "root may write anything anyway";
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

TEST(CoreMatch, OfSeveralThatFitNoneIsProven) {
    auto found = match(death(), {entry("c1"), entry("c2")});
    EXPECT_EQ(found.join, Join::Window);
    EXPECT_EQ(found.reason, "same boot and pid; not proven: 2 entries fit");
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
