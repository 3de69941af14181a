#include "render_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace incident::capture {
namespace {

using test::call;
using test::Made;
using test::second;
using test::trigger_ns;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RenderIncident, KeysOtherProgramsRestOn) {
    Made made;
    made.core = {Join::Exact, "", "/var/lib/systemd/coredump/core.app.zst", "s=1;i=2", false, false, 10};
    const auto json = made.incident();
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["id"], made.context().id);
    EXPECT_EQ(json["rule"], "crash");
    EXPECT_EQ(json["kind"], "signal");
    EXPECT_EQ(json["time"], "2026-11-21T14:06:50.000000000Z");
    EXPECT_EQ(json["boot_id"], "0123456789abcdef0123456789abcdef");
    EXPECT_EQ(json["summary"], "app[100] (app.service) was killed by SIGSEGV (SEGV_MAPERR) at 0x10, in thread "
                               "io-1[101]: app+0x2234");
    EXPECT_EQ(json["process"]["pid"], 100);
    EXPECT_EQ(json["process"]["tgid_start_ns"], 7 * second);
    EXPECT_EQ(json["process"]["ppid"], 1);
    EXPECT_EQ(json["process"]["parent_comm"], "systemd");
    EXPECT_EQ(json["signal"]["number"], SIGSEGV);
    EXPECT_EQ(json["signal"]["code_name"], "SEGV_MAPERR");
    EXPECT_EQ(json["signal"]["address"], "0x10");
    EXPECT_TRUE(json["signal"]["sender"].is_null());
    EXPECT_EQ(json["thread"]["tid"], 101);
    EXPECT_EQ(json["core"]["join"], "exact");
    EXPECT_EQ(json["mini_core"], false);
    EXPECT_EQ(json["dump"]["by"], "kernel");
    EXPECT_EQ(json["suppressed_before"], 2);
    EXPECT_EQ(json["clocks"]["trigger_ns"], test::trigger_ns);
}

TEST(RenderIncident, KernelFactsWhereProcIsGone) {
    Made made;
    const auto process = made.incident()["process"];
    EXPECT_EQ(process["exe"], "/usr/bin/app");
    EXPECT_EQ(process["cmdline"], "app --fast -v");
    EXPECT_THAT(process["argv"], ElementsAre("app", "--fast", "-v"));
    EXPECT_EQ(process["cgroup"], "/system.slice/app.service");
    EXPECT_EQ(process["unit"], "app.service");
    EXPECT_EQ(process["facts"].dump(), R"({"exe":"kernel","cmdline":"kernel","cgroup":"kernel"})");
}

TEST(RenderIncident, LiveFactsArePreferred) {
    Made made;
    made.collected.files = {
        {"process/exe", "/opt/app (deleted)"},
        {"process/cmdline", std::string("app\0--live\0", 11)},
        {"process/cgroup", "12:cpu:/x\n1:name=systemd:/system.slice/v1.service\n0::/system.slice/live.service\n"},
        {"host/version", "Linux version 6.1.0-53-amd64 (debian-kernel@lists.debian.org)\n"}};
    const auto json = made.incident();
    EXPECT_EQ(json["process"]["exe"], "/opt/app (deleted)");
    EXPECT_EQ(json["process"]["cmdline"], "app --live");
    EXPECT_EQ(json["process"]["unit"], "live.service");
    EXPECT_EQ(json["process"]["facts"]["exe"], "live");
    EXPECT_EQ(json["versions"]["kernel"], "6.1.0-53-amd64");
}

// Where it exits it stands in "/" of a v1 hierarchy already.
TEST(RenderIncident, TheRootGroupOfOneThatExitsIsNotPreferred) {
    Made made;
    made.collected.files = {{"process/cgroup", "12:cpu:/\n1:name=systemd:/\n0::/\n"}};
    const auto process = made.incident()["process"];
    EXPECT_EQ(process["cgroup"], "/system.slice/app.service");
    EXPECT_EQ(process["unit"], "app.service");
    EXPECT_EQ(process["facts"]["cgroup"], "kernel");
    made.input.process.event.cgroup_parts = 0;
    EXPECT_EQ(made.incident()["process"]["cgroup"], "/");
    EXPECT_EQ(made.incident()["process"]["facts"]["cgroup"], "live");
}

TEST(RenderIncident, SenderFromTheLastRecordElseFromSiginfo) {
    Made made;
    made.input.process.event.number = made.input.process.event.delivered = SIGABRT;
    made.input.process.event.code = SI_TKILL;
    const std::uint32_t pid = 77, uid = 1000;
    std::memcpy(made.input.process.event.siginfo + 16, &pid, 4);
    std::memcpy(made.input.process.event.siginfo + 20, &uid, 4);
    auto sender = made.incident()["signal"]["sender"];
    EXPECT_EQ(sender["pid"], 77);
    EXPECT_EQ(sender["uid"], 1000);
    EXPECT_TRUE(sender["comm"].is_null());
    bpf::signal_record record{};
    record.number = SIGABRT;
    record.code = SI_TKILL;
    record.phase = bpf::SIGNAL_GENERATED;
    record.target_tid = 101;
    record.sender_tgid = 78;
    test::set_text(record.sender_comm, "who");
    made.add_signal(record);
    sender = made.incident()["signal"]["sender"];
    EXPECT_EQ(sender["pid"], 78);
    EXPECT_EQ(sender["comm"], "who");
}

TEST(RenderIncident, CallsOfThreadsThatEndedCountAsOverwritten) {
    Made made;
    const auto before = made.incident()["quality"];
    made.input.process.entry->calls_ended = 1000;
    made.input.process.entry->threads_ended = 3;
    const auto after = made.incident()["quality"];
    EXPECT_EQ(after["overwritten"].get<int>(), before["overwritten"].get<int>() + 1000);
    EXPECT_EQ(after["ended"]["threads"], 3);
    EXPECT_EQ(after["ended"]["calls"], 1000);
    EXPECT_EQ(after["complete"], true);
}

TEST(RenderIncident, CompleteOnlyWhenNothingIsMissing) {
    Made made;
    EXPECT_EQ(made.incident()["quality"]["complete"], true) << made.incident()["quality"].dump(2);
    made.input.losses.push_back({"slots", "none free", 0}); // nothing happened there
    EXPECT_EQ(made.incident()["quality"]["complete"], true);
    made.collected.results.push_back({"maps", false, "gone", 12});
    const auto quality = made.incident()["quality"];
    EXPECT_EQ(quality["complete"], false);
    EXPECT_THAT(quality["incomplete_because"], ElementsAre("collector maps failed"));
    EXPECT_EQ(quality["collectors"][0]["error"], "gone");
}

TEST(RenderIncident, EachPathIsInOneAccount) {
    Made made;
    made.open_file(second, "/kept", 3);
    for (const auto status : {bpf::PATH_CUT, bpf::PATH_FAULT, bpf::PATH_PENDING})
        made.open_file(second, "", -1).status = status;
    bpf::thread_slot &slot = made.thread(0).rings->slot;
    slot.opens += 40, slot.paths_cut = 11, slot.paths_faulted = 1; // ten more were cut, and their records overwritten
    made.thread(0).rings->paths_left_out = 2;
    const auto paths = made.incident()["quality"]["accounts"]["paths"];
    EXPECT_EQ(paths["happened"], 44);
    EXPECT_EQ(paths["kept"], 1);
    EXPECT_EQ(paths["cut"], 11);
    EXPECT_EQ(paths["unreadable"], 1);
    EXPECT_EQ(paths["pending"], 1);
    EXPECT_EQ(paths["left_out"], 2);
    EXPECT_EQ(paths["overwritten"], 44 - 1 - 11 - 1 - 1 - 2);
    EXPECT_EQ(made.threads()[0]["accounting"]["paths_overwritten"], paths["overwritten"]);
}

TEST(RenderIncident, SignalsAndLineageSayWhatIsOverwritten) {
    Made made;
    for (int i = 0; i < SIGNAL_RECORDS + 5; ++i)
        made.add_signal({}).phase = bpf::SIGNAL_GENERATED;
    made.input.process.entry->signal[0].seq = 0; // being written
    made.input.process.entry->lineage = LINEAGE_RECORDS + 2;
    const auto accounts = made.incident()["quality"]["accounts"];
    EXPECT_EQ(accounts["signals"].dump(), R"({"happened":21,"kept":15,"overwritten":5,"torn":1})");
    EXPECT_EQ(accounts["lineage"].dump(), R"({"happened":10,"kept":8,"overwritten":2})");
}

TEST(RenderIncident, AGapWithinTheProcesssLifeIsTold) {
    Made made; // born 7 s after boot, 2 s on the monotonic clock
    EXPECT_TRUE(made.incident()["quality"]["gap"].is_null());
    made.input.gap = Gap{77, false, {test::wall_offset + 3 * second}, {test::wall_offset + 4 * second}, {9 * second}};
    const auto quality = made.incident()["quality"];
    EXPECT_EQ(quality["gap"]["from"], "2026-11-21T14:06:43.000000000Z");
    EXPECT_EQ(quality["gap"]["until"], "2026-11-21T14:06:44.000000000Z");
    EXPECT_EQ(quality["gap"]["stopped"], false);
    EXPECT_THAT(quality["incomplete_because"].dump(), HasSubstr("nothing was recorded: incidentd was killed"));
    made.input.gap->until.ns = test::wall_offset + 3600 * second; // the clock was set back since
    made.input.gap->until_at.ns = 6 * second;                     // before it was born
    EXPECT_TRUE(made.incident()["quality"]["gap"].is_null());
}

TEST(RenderIncident, RecordedOverwrittenAndLostAddUp) {
    Made made;
    for (int i = 0; i < 5; ++i)
        made.add_call(call(SYS_getpid, second + i, 1));
    made.thread(0).rings->slot.syscalls = 42;
    made.add_call(call(SYS_getpid, second, 1), 1);
    made.input.process.entry->syscalls_unrecorded = 3;
    made.input.process.entry->threads_unrecorded = 1;
    const auto quality = made.incident()["quality"];
    EXPECT_EQ(quality["recorded"], 6);
    EXPECT_EQ(quality["overwritten"], 37);
    EXPECT_EQ(quality["lost"], 3);
    EXPECT_EQ(quality["complete"], false);
    EXPECT_EQ(made.threads()[0]["accounting"]["overwritten"], 37);
}

TEST(RenderIncident, EachCallIsThereOrSaidToBeLeftOutOverwrittenOrLost) {
    Made made;
    for (int i = 0; i < 5; ++i)
        made.add_call(call(SYS_getpid, trigger_ns - 3'000'000 + i, 1));
    made.add_call(call(SYS_getpid, trigger_ns + 1, 1));
    made.thread(0).rings->slot.syscalls = 20;
    made.thread(0).rings->slot.unkept = 3;
    made.thread(0).rings->calls_left_out = 4;
    const auto quality = made.incident()["quality"], accounting = made.threads()[0]["accounting"];
    for (const auto &told : {quality, accounting}) {
        EXPECT_EQ(told["recorded"], 6);
        EXPECT_EQ(told["after"], 1);
        EXPECT_EQ(told["left_out"], 4);
        EXPECT_EQ(told["overwritten"], 7);
        EXPECT_EQ(told["lost"], 3);
        EXPECT_EQ(told["past_ns"], 3'000'000);
    }
    EXPECT_THAT(quality["losses"].dump(), HasSubstr("no memory was left for a thread's first"));
    EXPECT_THAT(made.summary(), HasSubstr("6 calls recorded (the last 3.00 ms), 4 left out, 7 overwr"));
}

TEST(RenderIncident, APastThatIsWholeIsAsLongAsItWasRecorded) {
    Made made;
    made.thread(0).rings->slot.first_ns = trigger_ns - 70;
    made.thread(0).rings->syscalls.clear();
    made.thread(0).rings->slot.syscalls = 0;
    EXPECT_EQ(made.incident()["quality"]["past_ns"], 70);
    made.thread(0).rings->slot.syscalls = 5; // they are overwritten
    EXPECT_TRUE(made.incident()["quality"]["past_ns"].is_null());
}

TEST(RenderIncident, MissingThreadsAreNamedWithTheReason) {
    Made made;
    made.input.process.threads_expected = 5;
    made.thread(1).event.reset();
    made.thread(1).missing = "ring buffer full";
    made.collected.files["process/comms"] =
        "{\"tid\":101,\"comm\":\"io-1\"}\n{\"tid\":150,\"comm\":\"lazy\"}\nx\n{\"tid\":-1}\n";
    const auto quality = made.incident()["quality"];
    EXPECT_EQ(quality["threads"], 5);
    EXPECT_EQ(quality["threads_captured"], 1);
    ASSERT_EQ(quality["missing"].size(), 2u);
    EXPECT_EQ(quality["missing"][0]["reason"], "ring buffer full");
    EXPECT_EQ(quality["missing"][1]["tid"], 150);
    EXPECT_THAT(quality["incomplete_because"].dump(), HasSubstr("2 of 5 threads were not captured"));
}

TEST(RenderIncident, SignatureHoldsAcrossProcesses) {
    Made made;
    const std::string signature = incident_signature(made.input);
    EXPECT_EQ(signature, "SIGSEGV:app+0x1234");
    made.collected.files["process/maps"] = "400000-500000 r-xp 00001000 08:01 77 /usr/bin/app\n";
    EXPECT_EQ(made.incident()["signature"], signature); // whatever /proc said

    // moved by ASLR, into a library, called from the executable
    bpf::death_event &event = made.input.process.event;
    event.vmas = 1;
    event.vma[0] = {0x7f0000020000, 0x7f0000040000, 0x20, 5, 88, 0, 0, "libc.so.6"};
    made.thread(0).event->regs.ip = 0x7f0000020010;
    const std::uint64_t back = 0x400500;
    std::memcpy(made.thread(0).stack.front().bytes.data() + 24, &back, sizeof back);
    EXPECT_EQ(incident_signature(made.input), "SIGSEGV:libc.so.6+0x20010<app+0x500");
    made.thread(0).event->regs.ip = 0;
    EXPECT_EQ(incident_signature(made.input), "SIGSEGV:nowhere<app+0x500");
    const auto whole = event;
    event.vmas = event.end_code = 0; // lost: whoever else lost them stood elsewhere
    EXPECT_EQ(incident_signature(made.input), "SIGSEGV:app");
    event = whole;
    made.thread(0).event.reset();
    EXPECT_EQ(incident_signature(made.input), "SIGSEGV:app");
    EXPECT_EQ(incident_kind(made.input), "SIGSEGV:app");
}

TEST(RenderIncident, HostileNamesStayJson) {
    Made made;
    test::set_text(made.input.process.event.leader_comm, "\x1b]0;x\x07\n\xff\xfe\"\\");
    test::set_text(made.input.process.event.comm, std::string(16, '\xc3'));
    const auto json = made.incident();
    const std::string text = json.dump(); // throws where a string is not UTF-8
    EXPECT_TRUE(nlohmann::json::accept(text));
    EXPECT_EQ(made.summary().find('\x1b'), std::string::npos);
}

} // namespace
} // namespace incident::capture
