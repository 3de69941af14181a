// Which OOM kills are remembered until their victims' deaths are seen.
#include "daemon/assemble/oom_kills.h"

#include <gtest/gtest.h>

namespace incident::daemon {
namespace {

constexpr std::uint32_t mallory = 4711, trent = 4712;

class OomKillsTest : public testing::Test {
protected:
    void kill(std::uint32_t victim, std::uint32_t user) {
        bpf::oom_event event{};
        event.h.t_ns = ++now_ns;
        kills.note(event, victim, user);
    }
    std::uint64_t now_ns = 0;
    OomKills kills{{.proc = "/nonexistent", .cgroup = "/nonexistent", .dev_kmsg = "/nonexistent"}};
};

TEST_F(OomKillsTest, OneUsersForgetNoneOfAnother) {
    kill(1, trent);
    for (std::uint32_t pid = 100; pid < 100 + 2 * OomKills::most; ++pid)
        kill(pid, mallory);
    EXPECT_TRUE(kills.take(1));
    EXPECT_FALSE(kills.take(100)) << "her oldest gave way";
    EXPECT_TRUE(kills.take(100 + 2 * OomKills::most - 1));
}

TEST_F(OomKillsTest, OfThePidThatComesAgainTheNewerIsMeant) {
    kill(1, trent);
    kill(1, mallory);
    const auto found = kills.take(1);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->user, mallory);
    EXPECT_FALSE(kills.take(1));
}

} // namespace
} // namespace incident::daemon
