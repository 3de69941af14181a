// The hook against a manager of our own behind a socket: what is asked, and what becomes of the answers.
#include "daemon/write/hook.h"
#include "daemon/write/manager.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

namespace incident::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Speaks D-Bus on a socket as /run/systemd/private does; refuses units whose name has "refused" in it.
class FakeManager {
public:
    explicit FakeManager(const std::string &path)
        : path_(path), listening_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
        EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr *>(&address), sizeof(address)), 0);
        EXPECT_EQ(::listen(listening_, 4), 0);
        thread_ = std::thread([this] { serve(); });
    }
    ~FakeManager() { end(); }
    // No answers any more: connections end.
    void end() {
        if (!thread_.joinable())
            return;
        stop_ = true;
        ::shutdown(listening_, SHUT_RDWR);
        thread_.join();
        ::close(listening_);
        ::unlink(path_.c_str());
    }
    std::vector<std::string> asked() {
        const std::lock_guard lock(mutex_);
        return asked_;
    }

private:
    static int on_call(sd_bus_message *message, void *self, sd_bus_error *) {
        if (!sd_bus_message_is_method_call(message, "org.freedesktop.systemd1.Manager", "StartUnit"))
            return 0;
        const char *unit = nullptr, *mode = nullptr;
        sd_bus_message_read(message, "ss", &unit, &mode);
        auto &manager = *static_cast<FakeManager *>(self);
        {
            const std::lock_guard lock(manager.mutex_);
            manager.asked_.push_back(std::string(unit) + " " + mode);
        }
        if (std::string_view(unit).contains("refused"))
            return sd_bus_reply_method_errorf(message, "org.freedesktop.systemd1.NoSuchUnit", "Unit %s not found.",
                                              unit);
        return sd_bus_reply_method_return(message, "o", "/org/freedesktop/systemd1/job/1");
    }
    void serve() {
        for (int peer; !stop_ && (peer = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
            sd_bus *bus = nullptr;
            sd_id128_t id;
            sd_id128_randomize(&id);
            EXPECT_GE(sd_bus_new(&bus), 0);
            EXPECT_GE(sd_bus_set_fd(bus, peer, peer), 0);
            EXPECT_GE(sd_bus_set_server(bus, 1, id), 0);
            EXPECT_GE(sd_bus_add_filter(bus, nullptr, on_call, this), 0);
            EXPECT_GE(sd_bus_start(bus), 0);
            while (!stop_) {
                const int done = sd_bus_process(bus, nullptr);
                if (done < 0 || (done == 0 && sd_bus_wait(bus, 20'000) < 0))
                    break;
            }
            sd_bus_close_unref(bus);
        }
    }

    std::string path_;
    int listening_;
    std::atomic<bool> stop_ = false;
    std::mutex mutex_;
    std::vector<std::string> asked_;
    std::thread thread_;
};

constexpr std::uint64_t hook_second = 1'000'000'000;
constexpr std::chrono::seconds patience{20};

class HookTest : public testing::Test {
protected:
    HookTest() {
        std::string name = (std::filesystem::temp_directory_path() / "hook.XXXXXX").string();
        root = ::mkdtemp(name.data());
        socket = root / "private";
        // As in the daemon, before there are threads: a fork beside one may inherit the allocator's lock,
        // held for ever.
        auto started = Manager::start("incident-hook@.service", "unix:path=" + socket.string());
        EXPECT_TRUE(started) << started.error().what;
        manager_process = std::move(*started);
    }
    ~HookTest() override { std::filesystem::remove_all(root); }
    Hook hook(std::uint32_t per_hour = 60) {
        return {"incident-hook@.service", per_hour,
                [this](const std::string &incident) { return manager_process->start_unit(incident); }};
    }
    std::unique_ptr<Manager> manager_process;
    std::filesystem::path root, socket;
};

TEST(HookUnit, InstanceIsEscapedAsSystemdDoes) { // as systemd-escape(1) prints them
    EXPECT_EQ(unit_of_instance("a@.service", "20261122T013000Z-crash-x.y-12-ab"),
              "a@20261122T013000Z\\x2dcrash\\x2dx.y\\x2d12\\x2dab.service");
    EXPECT_EQ(unit_of_instance("a@.service", ".x/y z"), "a@\\x2ex-y\\x20z.service");
    EXPECT_EQ(unit_of_instance("a@.service", "ö"), "a@\\xc3\\xb6.service");
}

TEST_F(HookTest, AsksForTheIncidentsUnit) {
    FakeManager manager(socket);
    Hook hook = this->hook();
    hook.start("one", std::nullopt, hook_second);
    hook.start("two", std::nullopt, hook_second);
    hook.finish(patience);
    EXPECT_THAT(manager.asked(), ElementsAre("incident-hook@one.service fail", "incident-hook@two.service fail"));
    EXPECT_EQ(hook.counters().started, 2u);
    EXPECT_EQ(hook.counters().failed, 0u);
}

TEST_F(HookTest, ARefusalIsCounted) {
    FakeManager manager(socket);
    Hook hook = this->hook();
    hook.start("refused", std::nullopt, hook_second);
    hook.start("one", std::nullopt, hook_second);
    hook.finish(patience);
    EXPECT_EQ(hook.counters().started, 1u);
    EXPECT_EQ(hook.counters().failed, 1u);
}

TEST_F(HookTest, NobodyThereThenSomebody) {
    Hook hook = this->hook();
    hook.start("one", std::nullopt, hook_second);
    hook.finish(patience);
    EXPECT_EQ(hook.counters().failed, 1u);
    FakeManager manager(socket);
    hook.start("two", std::nullopt, hook_second);
    hook.finish(patience);
    EXPECT_EQ(hook.counters().started, 1u);
    EXPECT_THAT(manager.asked(), ElementsAre("incident-hook@two.service fail"));
}

TEST_F(HookTest, AManagerThatRestartsIsFoundAgain) {
    Hook hook = this->hook();
    {
        FakeManager first(socket);
        hook.start("one", std::nullopt, hook_second);
        hook.finish(patience);
    }
    FakeManager next(socket);
    hook.start("two", std::nullopt, hook_second); // may still go to the connection that is gone
    hook.finish(patience);
    hook.start("three", std::nullopt, hook_second);
    hook.finish(patience);
    EXPECT_THAT(next.asked(), testing::Contains("incident-hook@three.service fail"));
    EXPECT_EQ(hook.counters().started + hook.counters().failed, 3u) << "each is in one account";
}

TEST_F(HookTest, NoMoreThanSoManyAnHour) {
    FakeManager manager(socket);
    Hook hook = this->hook(2);
    hook.start("one", std::nullopt, 1 * hook_second);
    hook.start("two", std::nullopt, 2 * hook_second);
    hook.start("three", std::nullopt, 3 * hook_second);
    hook.start("four", std::nullopt, 3601 * hook_second);
    hook.start("five", std::nullopt, 3601 * hook_second);
    hook.finish(patience);
    EXPECT_EQ(hook.counters().started, 3u) << "one, two, and an hour after one, four";
    EXPECT_EQ(hook.counters().suppressed, 2u);
}

TEST_F(HookTest, NoUserTakesAllStartsOfTheHour) {
    FakeManager manager(socket);
    Hook hook = this->hook(8);
    for (int i = 0; i < 20; ++i)
        hook.start("one", 1000, hook_second);
    EXPECT_EQ(hook.counters().suppressed, 14u) << "two of eight are for others";
    hook.start("two", 0, hook_second);
    hook.start("three", 1001, hook_second);
    EXPECT_EQ(hook.counters().suppressed, 14u);
    hook.start("four", 1002, hook_second);
    hook.finish(patience);
    EXPECT_EQ(hook.counters().started, 8u) << "and never more";
    EXPECT_EQ(hook.counters().suppressed, 15u);
}

TEST_F(HookTest, OffAsksNobody) {
    FakeManager manager(socket);
    Hook hook("", 60, nullptr);
    hook.start("one", std::nullopt, hook_second);
    hook.finish(patience);
    EXPECT_THAT(manager.asked(), IsEmpty());
    EXPECT_EQ(hook.counters().started + hook.counters().failed + hook.counters().suppressed, 0u);
}

} // namespace
} // namespace incident::daemon
