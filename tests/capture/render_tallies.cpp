#include "capture/render/render_tallies.h"
#include "capture/render/timeline_text.h"

#include "render_fixture.h"

#include <gmock/gmock.h>
#include <simdjson.h>

#include <fcntl.h>

#include <cerrno>

namespace incident::capture {
namespace {

using test::call;
using test::Made;
using test::second;
using test::trigger_ns;

bpf::tally tally(int kind, std::string_view name, long nr = 0, int code = 0) {
    bpf::tally made{};
    made.kind = static_cast<__u8>(kind);
    name.copy(made.name, TALLY_NAME);
    made.length = static_cast<__u16>(name.size());
    made.nr = static_cast<__s32>(nr);
    made.code = code;
    made.met = 3;
    made.tid = 101;
    made.first_ns = 1 * second;
    made.last_ns = 2 * second;
    made.minute.epoch = static_cast<__u32>(made.last_ns >> TALLY_MINUTE_SHIFT);
    made.minute.met[made.minute.epoch % TALLY_EPOCHS] = 3;
    made.hour.epoch = 0;
    made.hour.met[0] = 3;
    return made;
}

std::vector<nlohmann::json> lines_of_facts(const Made &made) {
    std::vector<nlohmann::json> lines;
    std::istringstream text(facts_of(made.context(), Redactor(made.redact)));
    for (std::string line; std::getline(text, line);)
        lines.push_back(nlohmann::json::parse(line));
    return lines;
}

std::string text_of(const nlohmann::json &line) {
    simdjson::dom::parser parser;
    return timeline_text(parser.parse(line.dump()), trigger_ns);
}

TEST(RenderTallies, APathWithItsHistory) {
    Made made;
    bpf::tally path = tally(bpf::TALLY_PATH, "/etc/x", SYS_openat);
    path.failed = 2;
    path.ret = -ENOENT;
    path.value = O_WRONLY | O_CREAT;
    path.longest_ns = 4000;
    made.input.process.tallies = {path};
    const auto lines = lines_of_facts(made);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].dump(), nlohmann::json::parse(R"({"kind":"path","name":"openat","what":"/etc/x","met":3,
        "failed":2,"minute":3,"hour":3,"first_ns":1000000000,"first":"2026-11-21T14:06:41.000000000Z",
        "last_ns":2000000000,"last":"2026-11-21T14:06:42.000000000Z","tid":101,"ret":-2,"error":"ENOENT",
        "longest_ns":4000,"idle":false,"cut":false,"flags":"O_WRONLY|O_CREAT"})")
                                   .dump());
}

TEST(RenderTallies, EachKindSaysWhat) {
    Made made;
    const std::string peer("\2\0\0\0\x0a\0\0\2\0\0\0\0\0\0\0\0", 16);
    bpf::tally accepted = tally(bpf::TALLY_PEER, peer, SYS_accept4);
    accepted.value = 443 << 16 | 50000;
    bpf::tally local = tally(bpf::TALLY_PEER, std::string_view("\1\0/run/s\0", 9), SYS_accept);
    local.value = 77;
    bpf::tally signal = tally(bpf::TALLY_SIGNAL, "sender", 0, SIGTERM);
    bpf::tally memory = tally(bpf::TALLY_MEMORY, "", 0, 40);
    memory.value = 256;
    made.input.process.tallies = {accepted,
                                  local,
                                  tally(bpf::TALLY_FAILURE, "", SYS_read, EAGAIN),
                                  tally(bpf::TALLY_SLOW, "", SYS_fsync, 2),
                                  tally(bpf::TALLY_THREAD, "worker"),
                                  tally(bpf::TALLY_CHILD_EXIT, "child", 0, 7 << 8),
                                  tally(bpf::TALLY_CHILD_EXIT, "child", 0, SIGKILL),
                                  signal,
                                  memory};
    std::vector<std::string> shown;
    for (const auto &line : lines_of_facts(made))
        shown.push_back(line["kind"].get<std::string>() + " " +
                        (line["name"].is_null() ? "-" : line["name"].get<std::string>()) + " " +
                        line["what"].get<std::string>() +
                        (line.contains("status_text") ? " " + line["status_text"].get<std::string>() : ""));
    EXPECT_THAT(shown, testing::UnorderedElementsAre(
                           "peer accept4 10.0.0.2", "peer accept unix:/run/s", "failure read EAGAIN", "slow fsync 1 s",
                           "thread - worker", "child_exit - child exited 7", "child_exit - child killed by SIGKILL",
                           "signal - SIGTERM", "memory - 1048576"));
    const auto lines = lines_of_facts(made);
    for (const auto &line : lines)
        if (line["name"] == "accept4") {
            EXPECT_EQ(line["port"], 50000);
            EXPECT_EQ(line["own_port"], 443);
        } else if (line["name"] == "accept") {
            EXPECT_EQ(line["peer_pid"], 77);
        }
}

TEST(RenderTallies, WindowsEndAtTheTrigger) {
    Made made;
    const std::uint64_t minute_epoch = 1ull << TALLY_MINUTE_SHIFT, hour_epoch = 1ull << TALLY_HOUR_SHIFT;
    made.input.process.event.h.t_ns = 100 * hour_epoch;
    bpf::tally old = tally(bpf::TALLY_PATH, "/old", SYS_openat);
    old.hour = {98, {4, 0, 2, 3}}; // of the epochs 96, 98, 95: the last is over for long
    old.minute = {static_cast<__u32>(100 * hour_epoch / minute_epoch - 4), {9, 0, 0, 0}};
    made.input.process.tallies = {old};
    const auto line = lines_of_facts(made).at(0);
    EXPECT_EQ(line["minute"], 0);
    EXPECT_EQ(line["hour"], 2);
}

TEST(RenderTallies, OfEachKindThoseMetLast) {
    Made made;
    for (int i = 0; i < 1500; ++i) {
        made.input.process.tallies.push_back(tally(bpf::TALLY_PATH, "/" + std::to_string(i), SYS_openat));
        made.input.process.tallies.back().last_ns = static_cast<__u64>(i);
    }
    made.input.process.tallies.push_back(tally(bpf::TALLY_FAILURE, "", SYS_read, EAGAIN));
    auto lines = lines_of_facts(made);
    ASSERT_EQ(lines.size(), 1001u);
    EXPECT_EQ(lines[0]["what"], "/500");
    made.input.process.entry->tallies_forgotten = 12;
    const auto facts = quality_json(made.context(), Redactor({}))["accounts"]["facts"];
    EXPECT_EQ(facts.dump(), R"({"kept":1001,"left_out":500,"forgotten":12})");
    made.input.light = true;
    EXPECT_EQ(lines_of_facts(made).size(), 101u);
}

TEST(RenderTallies, TheTimelineHasThoseOfWhichNoCallIsLeft) {
    Made made;
    made.add_call(call(SYS_getppid, 3 * second, 1));
    made.add_call(call(SYS_getppid, 7 * second, 1));
    bpf::tally recent = tally(bpf::TALLY_PATH, "/recent", SYS_openat);
    recent.last_ns = 6 * second;
    bpf::tally of_another = recent; // a thread that is gone, with its calls
    of_another.tid = 999;
    bpf::tally later = tally(bpf::TALLY_PATH, "/later", SYS_openat); // the calls that are kept end before
    later.last_ns = 8 * second;
    bpf::tally grown = tally(bpf::TALLY_MEMORY, "", 0, 40);
    grown.value = 25'600;
    made.input.process.tallies = {tally(bpf::TALLY_PATH, "/long/ago", SYS_openat),
                                  tally(bpf::TALLY_CHILD_EXIT, "child", 0, 7 << 8),
                                  recent,
                                  of_another,
                                  later,
                                  grown};
    std::vector<std::string> facts;
    for (const auto &line : made.timeline())
        if (line["kind"] == "fact")
            facts.push_back(text_of(line));
    EXPECT_THAT(facts, testing::ElementsAre("    -9.000 s  · resident memory reached 100 MiB",
                                            "    -8.000 s  · openat /long/ago (3 times within 1.00 s)",
                                            "    -8.000 s  · child_exit child exited 7 (3 times within 1.00 s)",
                                            "    -4.000 s  · openat /recent (3 times within 5.00 s)",
                                            "    -2.000 s  · openat /later (3 times within 7.00 s)"));
}

TEST(RenderTallies, OfAPathThatIsCutTheEndIsMarked) {
    Made made;
    bpf::tally path = tally(bpf::TALLY_PATH, "sion/of/a/path", SYS_openat);
    path.flags = bpf::TALLY_NAME_CUT;
    made.input.process.tallies = {path};
    EXPECT_EQ(lines_of_facts(made)[0]["cut"], true);
    const auto line = made.timeline().at(0);
    EXPECT_THAT(text_of(line), testing::HasSubstr("openat …sion/of/a/path ("));
    made.redact = {"secret"}; // which may stand where it is cut
    EXPECT_EQ(lines_of_facts(made)[0]["what"], "[redacted]");
    EXPECT_EQ(made.timeline().at(0)["path"], "[redacted]");
}

TEST(RenderTallies, WhoHasNoPortHasNone) {
    Made made;
    bpf::tally machine = tally(bpf::TALLY_PEER, std::string_view("\x28\0", 2), SYS_accept);
    machine.value = 5;
    bpf::tally nameless = tally(bpf::TALLY_PEER, std::string_view("\1\0", 2), SYS_accept);
    bpf::tally received =
        tally(bpf::TALLY_PEER, std::string_view("\2\0\0\0\x0a\0\0\2\0\0\0\0\0\0\0\0", 16), SYS_recvfrom);
    received.value = 53;
    made.input.process.tallies = {machine, nameless, received};
    for (const auto &line : lines_of_facts(made)) {
        EXPECT_FALSE(line.contains("own_port") || line.contains("peer_pid") || line.contains("fd"));
        EXPECT_EQ(line.value("port", 0), line["name"] == "recvfrom" ? 53 : 0);
    }
}

TEST(RenderTallies, SecretsAreLeftOut) {
    Made made;
    made.redact = {"secret"};
    made.input.process.tallies = {tally(bpf::TALLY_PATH, "/secret/x", SYS_openat),
                                  tally(bpf::TALLY_THREAD, "secret-1")};
    for (const auto &line : lines_of_facts(made))
        EXPECT_THAT(line["what"].get<std::string>(), testing::HasSubstr("[redacted]"));
    for (const auto &line : made.timeline())
        EXPECT_EQ(line.dump().find("secret"), std::string::npos);
}

TEST(RenderTimeline, SocketsAreNamedByTheirAddresses) {
    Made made;
    const std::string database("\2\0\x15\x38\x0a\0\0\2\0\0\0\0\0\0\0\0", 16),
        client("\2\0\xc3\x50\x0a\0\0\7\0\0\0\0\0\0\0\0", 16);
    made.add_call(call(SYS_connect, 2 * second, 0, {5, 0x1000, 16}));
    made.add_call(call(SYS_write, 3 * second, 1, {5, 0x1000, 1}));
    made.add_call(call(SYS_accept4, 4 * second, 9, {4, 0, 0, 0}));
    made.add_call(call(SYS_read, 5 * second, 1, {9, 0x1000, 1}));
    made.add_call(call(SYS_close, 6 * second, 0, {9}));
    made.add_call(call(SYS_read, 7 * second, -EBADF, {9, 0x1000, 1}));
    made.thread(0).rings->addresses = {{2 * second, database}, {4 * second, client}};
    const auto lines = made.timeline();
    EXPECT_EQ(lines[0]["args"][1], R"({sa_family=AF_INET, sin_port=htons(5432), sin_addr=inet_addr("10.0.0.2")})");
    EXPECT_EQ(lines[0]["address"], "10.0.0.2:5432");
    EXPECT_EQ(lines[1]["fd_path"], "10.0.0.2:5432");
    EXPECT_EQ(lines[1]["fd_path_from"], "connect");
    EXPECT_EQ(lines[2]["address"], "10.0.0.7:50000");
    EXPECT_EQ(lines[3]["fd_path"], "10.0.0.7:50000");
    EXPECT_EQ(lines[3]["fd_path_from"], "open");
    EXPECT_EQ(lines[4]["fd_path"], "10.0.0.7:50000");
    EXPECT_FALSE(lines[5].contains("fd_path"));
    EXPECT_THAT(text_of(lines[1]), testing::HasSubstr("write(5<10.0.0.2:5432>, "));
}

// Where a thread hangs says more with whom it wants to talk to.
TEST(RenderThreads, TheCallInFlightHasItsAddress) {
    Made made;
    made.add_call(call(SYS_connect, 2 * second, 0, {5, 0x1000, 16}, IN_FLIGHT));
    made.thread(0).rings->addresses = {{2 * second, std::string("\2\0\x15\x38\x0a\0\0\2\0\0\0\0\0\0\0\0", 16)}};
    const auto threads = threads_of(made.context(), Redactor({}));
    EXPECT_THAT(threads[0]["syscall"]["args"][1].get<std::string>(), testing::HasSubstr("htons(5432)"));
}

} // namespace
} // namespace incident::capture
