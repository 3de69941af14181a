#include "capture/collect/collectors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <new>
#include <stdexcept>

namespace incident::capture {
namespace {

const Subject own{{.pid = static_cast<std::uint32_t>(::getpid()), .start = {}}, 0};

TEST(Collectors, OneThatCanGetNoMemoryFailsAlone) {
    Collected got;
    run_collectors(own,
                   {{"first", [](const Deadline &) -> Outcome { throw std::bad_alloc(); }},
                    {"second",
                     [](const Deadline &) {
                         return Outcome{true, "", {{"file", "bytes"}}};
                     }}},
                   {}, std::chrono::seconds(60), got);
    ASSERT_EQ(got.results.size(), 2u);
    EXPECT_FALSE(got.results[0].ok);
    EXPECT_EQ(got.results[0].error, "no memory");
    EXPECT_TRUE(got.results[1].ok);
    EXPECT_EQ(got.files.at("file"), "bytes");
}

TEST(RunBounded, ThrowsWhatItsJobThrew) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    EXPECT_THROW(run_bounded(
                     own, [] { throw std::bad_alloc(); }, until),
                 std::bad_alloc);
    EXPECT_EQ(run_bounded(
                  own, [] {}, until),
              Ran::Done);
}

} // namespace
} // namespace incident::capture
