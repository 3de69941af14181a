// The resource limits that the kernel side copied look as /proc has them.
#include "capture/render/render_parts.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <iterator>

namespace incident::capture {
namespace {

TEST(Limits, LookAsProcHasThem) {
    bpf::death_event event{};
    for (int i = 0; i < LIMITS; ++i) {
        rlimit own{};
        ASSERT_EQ(::getrlimit(static_cast<__rlimit_resource>(i), &own), 0);
        event.limits[i] = {own.rlim_cur, own.rlim_max};
    }
    std::ifstream proc("/proc/self/limits");
    const std::string shown{std::istreambuf_iterator<char>(proc), {}};
    ASSERT_FALSE(shown.empty());
    EXPECT_EQ(limits_text(event), shown);
}

TEST(Limits, OfWhomNoneWereCopiedAreNotKnown) {
    EXPECT_EQ(limits_text({}), "");
}

} // namespace
} // namespace incident::capture
