// A file that never answers takes nothing from those that do.
#include "daemon/probe/file_looks.h"

#include <gmock/gmock.h>

#include <atomic>
#include <latch>
#include <memory>

namespace incident::daemon {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const FileQuestion nothing_new = []() -> FileAnswer { return std::nullopt; };
const FileQuestion not_there = []() -> FileAnswer { return fail(Error{"not there", ENOENT}); };

TEST(FileLooks, AreAnsweredInOrder) {
    EXPECT_THAT(ask_all({}, std::chrono::seconds(60)), IsEmpty());
    const auto answers = ask_all({nothing_new, not_there}, std::chrono::seconds(60));
    ASSERT_THAT(answers, SizeIs(2));
    ASSERT_TRUE(answers[0] && answers[1]);
    EXPECT_TRUE(answers[0]->has_value());
    EXPECT_EQ(answers[1]->error().code, ENOENT);
}

TEST(FileLooks, OneThatHangsIsGivenUpAndThoseBehindItAreNotAsked) {
    auto never = std::make_shared<std::latch>(1);
    auto done = std::make_shared<std::latch>(1);
    auto asked = std::make_shared<std::atomic<int>>(0);
    const FileQuestion hangs = [never, done]() -> FileAnswer {
        never->wait();
        done->count_down();
        return std::nullopt;
    };
    const FileQuestion counts = [asked]() -> FileAnswer {
        ++*asked;
        return std::nullopt;
    };
    const auto answers = ask_all({not_there, hangs, counts}, std::chrono::milliseconds(1000));
    ASSERT_THAT(answers, SizeIs(3));
    ASSERT_TRUE(answers[0]);
    EXPECT_EQ(answers[0]->error().what, "not there");
    ASSERT_TRUE(answers[1]);
    EXPECT_EQ(answers[1]->error().code, ETIMEDOUT);
    EXPECT_THAT(answers[1]->error().what, HasSubstr("did not answer within 1000 ms"));
    EXPECT_FALSE(answers[2]);
    never->count_down();
    done->wait();
    EXPECT_EQ(*asked, 0) << "nobody waits for that answer any more";
}

} // namespace
} // namespace incident::daemon
