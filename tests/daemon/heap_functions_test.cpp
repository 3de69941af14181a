#include "daemon/watch/heap/heap_functions.h"

#include "capture/os/unique_fd.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace incident::daemon {
namespace {

using testing::IsSupersetOf;

const UprobeAbilities old_kernel = UprobeAbilities::of("6.1.0-18-amd64");

std::size_t entry_of(std::initializer_list<std::uint8_t> code) {
    const std::vector<std::uint8_t> bytes(code);
    return cheap_entry(bytes, old_kernel);
}

std::map<std::string, HeapSite> sites_of(const char *path) {
    const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
    if (!fd)
        return {};
    const auto sites = find_heap_functions(fd.get(), old_kernel);
    EXPECT_TRUE(sites) << (sites ? "" : sites.error().what);
    std::map<std::string, HeapSite> by_name;
    for (const auto &site : sites ? *sites : std::vector<HeapSite>{})
        by_name[site.name] = site;
    return by_name;
}

std::vector<std::string> names_of(const std::map<std::string, HeapSite> &sites) {
    std::vector<std::string> names;
    for (const auto &[name, site] : sites)
        names.push_back(name);
    return names;
}

// Each is followed by bytes, as in a file.
TEST(CheapEntry, IsAnInstructionTheKernelEmulates) {
    EXPECT_EQ(entry_of({0x41, 0x54, 0x55, 0x53}), 0u);                                  // push %r12: at once
    EXPECT_EQ(entry_of({0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x54, 0x55}), 4u);                // endbr64; push
    EXPECT_EQ(entry_of({0x48, 0x85, 0xff, 0x74, 0x10, 0x55}), 3u);                      // test %rdi,%rdi; je
    EXPECT_EQ(entry_of({0x48, 0x81, 0xff, 0, 0x10, 0, 0, 0x0f, 0x87, 1, 1, 0, 0}), 7u); // cmp $0x1000,%rdi; ja
    EXPECT_EQ(entry_of({0x48, 0x89, 0xf8, 0x55, 0x90}), 3u);                            // mov %rdi,%rax; push
}

TEST(CheapEntry, KeepsArgumentsStackAndPreservedRegistersAsTheyWere) {
    EXPECT_EQ(entry_of({0x48, 0x89, 0xf7, 0x55, 0x90}), 0u);       // mov %rsi,%rdi; push
    EXPECT_EQ(entry_of({0x48, 0x83, 0xec, 0x08, 0x55, 0x90}), 0u); // sub $8,%rsp; push
    EXPECT_EQ(entry_of({0x48, 0x89, 0xfb, 0x55, 0x90}), 0u);       // mov %rdi,%rbx; push: rbx is its caller's
    EXPECT_EQ(entry_of({0x31, 0xd2, 0x55, 0x90}), 0u);             // xor %edx,%edx; push
}

TEST(CheapEntry, IsNotBehindWhatMayNotComeBack) {
    EXPECT_EQ(entry_of({0x48, 0x89, 0xf8, 0xc3, 0x55}), 0u);       // mov; ret; push
    EXPECT_EQ(entry_of({0x0f, 0x05, 0x55, 0x90}), 0u);             // syscall; push
    EXPECT_EQ(entry_of({0x48, 0x8b, 0x07, 0x48, 0x8b, 0x07}), 0u); // none near
    EXPECT_EQ(entry_of({}), 0u);
    EXPECT_EQ(entry_of({0x06, 0x55}), 0u); // no instruction of 64-bit mode
}

TEST(HeapFunctions, OfTheCLibrary) {
    const auto sites = sites_of("/lib/x86_64-linux-gnu/libc.so.6");
    EXPECT_THAT(names_of(sites), IsSupersetOf({"malloc", "free", "calloc", "realloc", "reallocarray", "aligned_alloc",
                                               "posix_memalign"}));
    EXPECT_EQ(sites.count("operator new"), 0u);
    for (const char *often : {"malloc", "free", "calloc", "realloc"}) {
        EXPECT_EQ(sites.at(often).problem, "") << often;
        EXPECT_EQ(sites.at(often).remark, "") << often << " would be single-stepped";
    }
    EXPECT_EQ(sites.at("free").function, bpf::HEAP_FREE);
    EXPECT_TRUE(sites.at("malloc").returns.empty());
}

// libstdc++ has the operators, and they call malloc.
TEST(HeapFunctions, OperatorsAreOnlyThoseOfAllocators) {
    EXPECT_TRUE(sites_of("/usr/lib/x86_64-linux-gnu/libstdc++.so.6").empty());
}

class OfAnAllocator : public testing::TestWithParam<const char *> {};

TEST_P(OfAnAllocator, AllAreFoundAndNoThrowingOneGetsAReturnProbe) {
    const auto sites = sites_of(GetParam());
    if (sites.empty())
        GTEST_SKIP() << GetParam() << " is not installed";
    EXPECT_THAT(names_of(sites), IsSupersetOf({"malloc", "free", "calloc", "realloc"}));
    EXPECT_GT(sites.count("operator new"), 0u);
    const UniqueFd fd(::open(GetParam(), O_RDONLY | O_CLOEXEC));
    const auto all = find_heap_functions(fd.get(), old_kernel);
    ASSERT_TRUE(all);
    std::size_t throwing = 0;
    for (const HeapSite &site : *all)
        throwing += site.function == bpf::HEAP_NEW && (!site.returns.empty() || !site.problem.empty());
    EXPECT_GT(throwing, 0u);
}

INSTANTIATE_TEST_SUITE_P(Heap, OfAnAllocator,
                         testing::Values("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
                                         "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
                                         "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2"));

TEST(HeapFunctions, OfWhatIsNoProgram) {
    const UniqueFd fd(::open("/etc/passwd", O_RDONLY | O_CLOEXEC));
    EXPECT_FALSE(find_heap_functions(fd.get(), old_kernel));
    EXPECT_TRUE(sites_of("/usr/bin/true").empty());
}

} // namespace
} // namespace incident::daemon
