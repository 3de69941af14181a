// list, info, timeline, threads, verify on an ordinary bundle.
#include "state.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

namespace incident::postmortem::test {

using testing::HasSubstr;
using testing::Not;

class Show : public testing::Test {
protected:
    Show() {
        setenv("TZ", "UTC", 1);
        tzset();
        name = state.add_sample("crash");
    }
    State state;
    std::string name;
};

TEST_F(Show, List) {
    const Ran ran = state.run({"list"});
    EXPECT_EQ(ran.code, 0);
    EXPECT_EQ(ran.out, "TIME                 RULE   SIGNAL   COMM    PID   CORE  UNIT OR EXE\n"
                       "2026-11-21 15:04:05  crash  SIGSEGV  victim  4242  none  shop.service\n");
    const Json line = Json::parse(state.run({"list", "--json"}).out);
    EXPECT_EQ(line["id"], name);
    EXPECT_EQ(line["pid"], 4242);
    EXPECT_EQ(line["signal"], "SIGSEGV");
}

TEST_F(Show, ListFilters) {
    Json other = sample_incident("crash");
    other["rule"] = "oom";
    other["process"]["comm"] = "postgres";
    other["time"] = "2026-11-20T00:00:00Z";
    state.add("20261120T000000.000Z-oom-postgres-77-aaaaaa", {{"incident.json", other.dump()}});
    const auto ids = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {"list", "--json"});
        std::string text;
        std::istringstream lines(state.run(std::move(arguments)).out);
        for (std::string line; std::getline(lines, line);)
            text += std::string(Json::parse(line)["comm"]) + " ";
        return text;
    };
    EXPECT_EQ(ids({}), "postgres victim ");
    EXPECT_EQ(ids({"--reverse"}), "victim postgres ");
    EXPECT_EQ(ids({"-n", "1"}), "victim ");
    EXPECT_EQ(ids({"--rule", "oom"}), "postgres ");
    EXPECT_EQ(ids({"--comm", "vic*"}), "victim ");
    EXPECT_EQ(ids({"--since", "2026-11-21"}), "victim ");
    EXPECT_EQ(ids({"--comm", "nobody"}), "");
    EXPECT_EQ(ids({"-n", "0"}), "");
    EXPECT_EQ(ids({"--since", "2000d ago"}), "postgres victim ");
    EXPECT_EQ(state.run({"list", "-n", "0"}).err, "") << "there are incidents";
    EXPECT_THAT(state.run({"info", "2026112"}).err,
                HasSubstr("is ambiguous:\n  20261120T000000.000Z-oom-postgres-77-aaaaaa\n  " + name));
}

TEST_F(Show, ABundleByItsDirectory) {
    const std::string path = state.dir().string() + "/incidents/" + name;
    const State other; // with another state directory in use
    const Ran ran = other.run({"--json", "info", path + "/"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr(name));
    EXPECT_EQ(other.run({"info", state.dir().string() + "/incidents"}).code, 1) << "its name is no incident's";
}

TEST_F(Show, ListOfNothing) {
    State empty;
    std::filesystem::create_directory(empty.dir() / "incidents");
    const Ran ran = empty.run({"list"});
    EXPECT_EQ(ran.code, 0);
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(ran.err, "incidentctl: no incidents yet in " + empty.dir().string() + "/incidents\n");
}

TEST_F(Show, Info) {
    const Ran ran = state.run({"info", "4242"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    for (const auto *expected :
         {"victim[4242] was killed by SIGSEGV (SEGV_MAPERR) at 0x10", "2026-11-21 15:04:05",
          "crash (signal), 3 more like it suppressed before", "victim[4242], uid 1000, child of systemd[1]",
          "/opt/shop/victim  build-id aabbcc", "SIGSEGV (SEGV_MAPERR) at 0x10", "worker[4243]",
          "pending: the dump may still be under way (as the bundle says; the journal cannot be asked: no journal here)",
          "incomplete: 2 of 3 threads; events: 5 recorded (the last 1.5 s), 9 left out, 7 overwritten, 2 lost",
          "lost 1: ring buffer: thread event (no room)", "not collected smaps_rollup: deadline passed",
          "probe lsm/x unavailable: no BPF LSM", "after close(5) = 0 <900 ns>", "timeline.jsonl 1."})
        EXPECT_THAT(ran.out, HasSubstr(expected));
    EXPECT_THAT(ran.out, Not(HasSubstr("\x1b")));
}

TEST_F(Show, InfoJsonIsTheIncidentWithTheCoreAsItIsNow) {
    const std::string core = (state.dir() / "core.zst").string();
    write_file(core, "x");
    state.find_core = [&](const capture::DeathIdentity &death) -> Result<capture::CoreLink> {
        EXPECT_EQ(death.process.pid, 4242u);
        EXPECT_EQ(death.signal, 11);
        EXPECT_EQ(death.uid, 1000u);
        EXPECT_EQ(death.boot_id, "0123456789abcdef0123456789abcdef");
        EXPECT_EQ(death.process.start.ns, 4'000'000'000u);
        EXPECT_EQ(death.time.ns, 1795273445'123'000'000u);
        EXPECT_EQ(death.started.ns, 1795273445'123'000'000u - 1'000'000'000u);
        return capture::CoreLink{.join = capture::Join::Exact, .file = core, .journal_cursor = "s=1"};
    };
    const Json document = Json::parse(state.run({"info", "--json"}).out);
    EXPECT_EQ(document["id"], name);
    EXPECT_EQ(document["signal"]["name"], "SIGSEGV");
    EXPECT_EQ(document["core"]["join"], "exact");
    EXPECT_EQ(document["core"]["file"], core);
    EXPECT_EQ(document["core"]["file_bytes"], 1);
    EXPECT_EQ(document["path"], state.bundle(name).string());
    EXPECT_GE(document["files"].size(), 5u);
}

TEST_F(Show, InfoKeepsTheBundlesReasonWhenTheJournalKnowsNone) {
    Json incident = sample_incident("crash");
    incident["core"] = {{"join", "none"}, {"reason", "RLIMIT_CORE is 0"}, {"pending", false}};
    State other;
    other.add_sample("crash", {{"incident.json", incident.dump()}});
    other.find_core = [](const capture::DeathIdentity &) -> Result<capture::CoreLink> {
        return capture::CoreLink{.reason = "no journal entry"};
    };
    EXPECT_THAT(other.run({"info"}).out, HasSubstr("none: RLIMIT_CORE is 0\n"));
}

TEST_F(Show, Timeline) {
    const Ran ran = state.run({"timeline"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(std::ranges::count(ran.out, '\n'), 6);
    EXPECT_THAT(ran.out, HasSubstr("   4243 worker "));
    EXPECT_THAT(ran.out, HasSubstr("-600.0 ms"));
    EXPECT_THAT(ran.out, HasSubstr("openat(AT_FDCWD, \"/etc/shop.conf\", O_RDONLY) = -1 ENOENT"));
    EXPECT_THAT(ran.out, HasSubstr("SIGSEGV"));
}

TEST_F(Show, TimelineFilters) {
    const auto names = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {"timeline", "--json"});
        const Ran ran = state.run(std::move(arguments));
        std::string text;
        std::istringstream lines(ran.out);
        for (std::string line; std::getline(lines, line);)
            text += std::string(Json::parse(line)["name"]) + " ";
        return text;
    };
    EXPECT_EQ(names({}), "born openat read futex close SIGSEGV ");
    EXPECT_EQ(names({"-n", "2"}), "close SIGSEGV ");
    EXPECT_EQ(names({"-n", "0"}), "");
    EXPECT_EQ(names({"--tid", "4242"}), "born futex ");
    EXPECT_EQ(names({"--kind", "syscall"}), "read futex close ");
    EXPECT_EQ(names({"--since", "-100ms"}), "read futex close SIGSEGV ");
    EXPECT_EQ(names({"--since", "100ms", "--tid", "4243", "-n", "1"}), "SIGSEGV ");
    EXPECT_EQ(names({"--errors"}), "openat ");
}

TEST_F(Show, Threads) {
    const Ran ran = state.run({"threads", "--registers"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    for (const auto *expected :
         {"* worker[4243]  crashed\n", "#0  0x0000555555555139 /opt/shop/victim+0x1139\n",
          "#1  0x0000555555555200 main (/opt/shop/victim) at victim.c:12\n",
          "(unwound by frame pointers (may be incomplete); ends because beyond the captured bytes of the stack)",
          "kernel stack:\n      0xffffffff81000000 asm_exc_page_fault+0x22\n", "rip      0x555555555139",
          "  victim[4242]\n    in futex(0x7f0000000000, FUTEX_WAIT) for 1.2 s\n",
          "(no user stack: no stack was captured)", "(missing: the ring buffer had no room)",
          "1 of 3 threads are missing from the bundle"})
        EXPECT_THAT(ran.out, HasSubstr(expected));
    const Json one = Json::parse(state.run({"threads", "--json", "--tid", "4242"}).out);
    ASSERT_EQ(one.size(), 1u);
    EXPECT_EQ(one[0]["tid"], 4242);
    const Ran none = state.run({"threads", "--tid", "1"});
    EXPECT_EQ(none.code, 1);
    EXPECT_EQ(none.err, "incidentctl: no thread 1 in " + name + "\n");
}

TEST_F(Show, Verify) {
    EXPECT_EQ(state.run({"verify"}).out, name + ": ok\n");
    EXPECT_EQ(state.run({"verify"}).code, 0);
    write_file(state.bundle(name) / "threads.json", "[]");
    const Ran changed = state.run({"verify"});
    EXPECT_EQ(changed.code, 1);
    EXPECT_THAT(changed.out, HasSubstr("threads.json"));
    state.add_sample("hostile");
    const Ran all = state.run({"verify", "--all"});
    EXPECT_EQ(all.code, 1);
    EXPECT_THAT(all.out, HasSubstr("2 bundles, 1 with problems\n"));
    const Json documents = Json::parse(state.run({"verify", "--all", "--json"}).out);
    ASSERT_EQ(documents.size(), 2u);
    EXPECT_EQ(documents[0]["ok"], false);
    EXPECT_EQ(documents[1]["ok"], true);
}

TEST_F(Show, Pin) {
    const auto pinned = [&] { return Json::parse(state.run({"list", "--json"}).out)["pinned"]; };
    EXPECT_EQ(pinned(), false);
    EXPECT_EQ(state.run({"pin"}).out, name + " is pinned\n");
    EXPECT_EQ(pinned(), true);
    EXPECT_THAT(state.run({"list"}).out, HasSubstr(" pinned "));
    EXPECT_EQ(state.run({"verify"}).code, 0);
    const Json taken = Json::parse(state.run({"pin", "--remove", "--json", name}).out);
    EXPECT_EQ(taken, (Json{{"id", name}, {"pinned", false}}));
    EXPECT_EQ(pinned(), false);
    EXPECT_EQ(state.run({"pin", state.bundle(name).string() + "/"}).code, 0) << "its directory is an ID too";
    EXPECT_EQ(pinned(), true);
    const Ran unknown = state.run({"pin", "99999"});
    EXPECT_EQ(unknown.code, 1);
    EXPECT_THAT(unknown.err, HasSubstr("(see 'incidentctl list')"));
}

} // namespace incident::postmortem::test
