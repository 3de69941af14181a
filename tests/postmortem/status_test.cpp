#include "state.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace incident::postmortem::test {

using testing::HasSubstr;

namespace {

// Answers one question on <state>/control.sock.
class FakeDaemon {
public:
    FakeDaemon(const State &state, std::string reply) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
        state.dir().string().append("/control.sock").copy(address.sun_path, sizeof address.sun_path - 1);
        EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
        EXPECT_EQ(listen(fd_, 1), 0);
        thread_ = std::jthread([this, reply = std::move(reply)] {
            const int peer = accept(fd_, nullptr, nullptr);
            char byte = 0;
            while (byte != '\n' && ::read(peer, &byte, 1) == 1)
                question += byte;
            for (std::size_t sent = 0; sent < reply.size();) {
                const ssize_t wrote = send(peer, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
                if (wrote <= 0)
                    break;
                sent += static_cast<std::size_t>(wrote);
            }
            close(peer);
        });
    }
    ~FakeDaemon() {
        shutdown(fd_, SHUT_RDWR); // nobody may have asked
        thread_.join();
        close(fd_);
    }
    std::string question;

private:
    int fd_;
    std::jthread thread_;
};

const char *const reply =
    R"({"version": "0.1.0", "pid": 7, "started": "2026-11-21T15:00:00Z", "uptime_s": 7500, "state": "running",
  "rules": [{"name": "crash", "kind": "signal", "source": "/etc/x.toml:3", "state": "active", "reason": "", "fired": 5, "suppressed": 2, "cost": {"ns_per_event": 350, "events_per_second": 1200, "cpu_share": 0.0004}},
            {"name": "txg", "kind": "txg_sync", "source": "/etc/x.toml:9", "state": "unavailable", "reason": "no module \u001b[31mzfs", "fired": 0, "suppressed": 0}],
  "rule_errors": ["/etc/y.toml:1:2: unknown key\n 1 | nam = \u001b[31m"],
  "recorder": {"threads_used": 12, "threads_max": 4096, "processes_used": 3, "processes_max": 8192, "calls_bytes": 67108864, "calls_bytes_used": 1048576, "memory_bytes": 33554432, "watching": "matching"},
  "probes": [{"name": "tp_btf/sys_enter", "state": "active", "reason": "", "missed": 1, "runs": 1000, "run_ns": 100000}],
  "losses": [{"where": "slots", "reason": "none free", "count": 3}],
  "incidents": {"committed": 4, "pending": 1, "failed": 0, "suppressed": 2, "recovered": 0, "removed": 3},
  "analyses": {"done": 3, "pending": 1, "failed": 0, "passed_over": 0},
  "self": {"rss_bytes": 12582912, "cpu_ns": 340000000}})";

} // namespace

TEST(Status, OneScreen) {
    State state;
    std::string question;
    Ran ran;
    {
        FakeDaemon daemon(state, reply);
        ran = state.run({"status"});
        while (daemon.question.empty())
            std::this_thread::yield();
        question = daemon.question;
    }
    EXPECT_EQ(question, "{\"verb\":\"status\"}\n");
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.out,
              "incidentd 0.1.0: running, pid 7, up 2h 5m since 2026-11-21T15:00:00Z\n"
              "  itself: 12.0 MiB of memory, 340 ms of CPU time\n"
              "\n"
              "Rules (2)\n"
              "  NAME   KIND      STATE        FIRED  SUPPRESSED  COST                         SOURCE         REASON\n"
              "  crash  signal    active       5      2           350 ns x 1200/s, 0.04 % CPU  /etc/x.toml:3\n"
              "  txg    txg_sync  unavailable  0      0           -                            /etc/x.toml:9  no "
              "module \\x1b[31mzfs\n"
              "  /etc/y.toml:1:2: unknown key\n"
              "    1 | nam = \\x1b[31m\n"
              "\n"
              "Recorder\n"
              "  watching matching processes; 12 of 4096 thread slots, 3 of 8192 processes used\n"
              "  1.0 MiB of 64.0 MiB for calls used; 32.0 MiB of memory\n"
              "\n"
              "Probes\n"
              "  NAME              STATE   RUNS  MISSED  PER RUN  REASON\n"
              "  tp_btf/sys_enter  active  1000  1       100 ns\n"
              "\n"
              "Losses\n"
              "  3 slots: none free\n"
              "\n"
              "Incidents: 4 committed, 1 pending, 0 failed, 2 suppressed, 0 counted, 0 joined, 0 recovered, "
              "3 removed\n"
              "  explained: 3, 1 pending, 0 failed, 0 left for the reader\n");
}

TEST(Status, JsonIsTheDaemonsAnswer) {
    State state;
    FakeDaemon daemon(state, reply);
    EXPECT_EQ(Json::parse(state.run({"status", "--json"}).out), Json::parse(reply));
}

TEST(Status, NoDaemon) {
    State state;
    const Ran ran = state.run({"status"});
    EXPECT_EQ(ran.code, 1);
    EXPECT_EQ(ran.err, "incidentctl: incidentd is not running (no " + state.dir().string() + "/control.sock)\n");
    const std::string nowhere = state.dir().string() + "/none";
    EXPECT_EQ(state.run({"status", "--state", nowhere}).err,
              "incidentctl: incidentd is not running (no " + nowhere + "/control.sock)\n");
}

TEST(Status, DeadSocket) {
    State state;
    {
        FakeDaemon daemon(state, "");
        (void)state.run({"status"});
    }
    const Ran ran = state.run({"status"});
    EXPECT_EQ(ran.code, 1);
    EXPECT_EQ(ran.err,
              "incidentctl: incidentd is not running (nobody listens on " + state.dir().string() + "/control.sock)\n");
}

TEST(Status, StrangeAnswers) {
    for (const auto &[answer, message] : std::vector<std::pair<std::string, std::string>>{
             {"", "incidentd's answer: empty file"},
             {"{\"pid\":", "incidentd's answer: not JSON from line 1, column 8 on"},
             {"[]", "incidentd's answer is not a JSON object"},
             {std::string(17u << 20, ' '), "incidentd's answer is larger than 16777216 bytes"}}) {
        State state;
        FakeDaemon daemon(state, answer);
        EXPECT_EQ(state.run({"status"}).err, "incidentctl: " + message + "\n");
    }
    State state;
    FakeDaemon daemon(state,
                      R"({"rules": [1, {"name": []}], "probes": {}, "self": 3, "uptime_s": 1e300, "losses": "x"})");
    EXPECT_EQ(state.run({"status"}).code, 0);
}

TEST(Status, StateDirectoryWithALongPath) {
    State state;
    const auto deep = state.dir() / std::string(120, 'd');
    std::filesystem::create_directory(deep);
    FakeDaemon daemon(state, reply);
    std::filesystem::rename(state.dir() / "control.sock", deep / "control.sock");
    EXPECT_EQ(state.run({"status", "--json", "--state", deep.string()}).code, 0);
}

} // namespace incident::postmortem::test
