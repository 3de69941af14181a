// A journal that takes no entry for a while keeps nobody waiting.
#include "daemon/write/reporter.h"

#include <gmock/gmock.h>
#include <poll.h>

#include <future>
#include <mutex>

namespace incident::daemon {
namespace {

// What has been told after the next wake-up.
std::vector<Reporter::Told> next_told(Reporter &reporter) {
    pollfd ready{reporter.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 60'000), 1);
    return reporter.take_told();
}

TEST(ReporterTest, EntriesWaitUntilTheJournalGoesOn) {
    std::promise<void> goes_on;
    const auto gate = goes_on.get_future().share();
    auto sent = std::make_shared<std::vector<std::string>>();
    auto reporter = Reporter::start([gate, sent](const EntryFields &entry) -> Status {
        gate.wait();
        sent->push_back(entry.front());
        return {};
    });
    ASSERT_TRUE(reporter) << reporter.error().what;
    for (const char *name : {"a", "b", "c"})
        EXPECT_TRUE((*reporter)->submit(name, {name}));
    EXPECT_EQ((*reporter)->pending(), 3u);
    goes_on.set_value();
    std::vector<std::string> told;
    while (told.size() < 3)
        for (auto &one : next_told(**reporter)) {
            EXPECT_TRUE(one.sent);
            told.push_back(one.name);
        }
    EXPECT_THAT(told, testing::ElementsAre("a", "b", "c"));
    EXPECT_EQ(*sent, told);
    EXPECT_EQ((*reporter)->pending(), 0u);
}

TEST(ReporterTest, WhatWaitsIsLimitedAndNotWaitedForAtTheEnd) {
    std::promise<void> begun, goes_on, returned;
    {
        const auto gate = goes_on.get_future().share();
        auto reporter = Reporter::start([gate, &begun, &returned](const EntryFields &) -> Status {
            begun.set_value();
            gate.wait();
            returned.set_value();
            return {};
        });
        ASSERT_TRUE(reporter);
        EXPECT_TRUE((*reporter)->submit("name", {"A=b"}));
        begun.get_future().wait();
        for (std::size_t i = 0; i < Reporter::most_waiting; ++i)
            EXPECT_TRUE((*reporter)->submit("name", {"A=b"}));
        EXPECT_FALSE((*reporter)->submit("name", {"A=b"}));
    }
    goes_on.set_value();
    returned.get_future().wait(); // of the one that was under way, and of no other: a second would throw
}

TEST(ReporterTest, WhatTheJournalRefusesIsTriedAgainAndThenSaid) {
    int tried = 0;
    auto reporter = Reporter::start(
        [&tried](const EntryFields &) -> Status {
            ++tried;
            return fail(Error{"no", EPERM});
        },
        std::chrono::milliseconds(1));
    ASSERT_TRUE(reporter && (*reporter)->submit("name", {"A=b"}));
    const auto told = next_told(**reporter);
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].sent.error().what, "no");
    EXPECT_EQ(tried, Reporter::tries);
}

TEST(ReporterTest, WhatCannotBeSentForAMomentIsSentThen) {
    int tried = 0;
    auto reporter = Reporter::start(
        [&tried](const EntryFields &) -> Status {
            if (++tried < 3)
                return fail(Error{"no memory", ENOMEM});
            return {};
        },
        std::chrono::milliseconds(1));
    ASSERT_TRUE(reporter && (*reporter)->submit("name", {"A=b"}));
    const auto told = next_told(**reporter);
    ASSERT_EQ(told.size(), 1u);
    EXPECT_TRUE(told[0].sent);
    EXPECT_EQ(tried, 3);
}

TEST(ReporterTest, AtTheEndNothingIsWaitedForTwice) {
    std::promise<void> refused;
    auto reporter = Reporter::start(
        [&refused](const EntryFields &) -> Status {
            refused.set_value(); // a second time it would throw
            return fail(Error{"no", EPERM});
        },
        std::chrono::hours(1));
    ASSERT_TRUE(reporter && (*reporter)->submit("name", {"A=b"}));
    refused.get_future().wait();
    (*reporter)->hurry();
    const auto told = next_told(**reporter);
    ASSERT_EQ(told.size(), 1u);
    EXPECT_FALSE(told[0].sent);
}

} // namespace
} // namespace incident::daemon
