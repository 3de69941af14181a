#include "capture/decode/kernel_path.h"

#include <gtest/gtest.h>

#include <cstring>

namespace incident::capture {
namespace {

bpf::kernel_path made_of(std::string_view names, __u32 parts) {
    bpf::kernel_path path{};
    path.parts = parts;
    path.length = static_cast<__u32>(names.size());
    std::memcpy(path.names, names.data(), names.size());
    return path;
}

TEST(KernelPath, IsJoinedRootFirst) {
    using std::string_view_literals::operator""sv;
    const auto path = made_of("redis-server\0bin\0usr\0"sv, 3);
    EXPECT_EQ(path_of(path), "/usr/bin/redis-server");
    EXPECT_EQ(file_name_of(path), "redis-server");
    EXPECT_EQ(path_of({}), "");
    EXPECT_EQ(file_name_of({}), "");
}

TEST(KernelPath, TakesTheLongestNameAFileMayHave) {
    const std::string name(255, 'n');
    const auto path = made_of(name + '\0' + "opt" + '\0', 2);
    EXPECT_EQ(path_of(path), "/opt/" + name);
    EXPECT_EQ(file_name_of(path), name);
}

TEST(KernelPath, OfHostileNumbersNothingBeyondIsRead) {
    bpf::kernel_path path{};
    std::memset(path.names, 'x', sizeof path.names); // without a NUL
    path.parts = path.length = ~0u;
    EXPECT_EQ(path_of(path), "/" + std::string(sizeof path.names, 'x'));
    path.length = 0;
    EXPECT_EQ(path_of(path), "");
}

} // namespace
} // namespace incident::capture
