// The paths that the kernel side keeps of real calls, at any moment at which somebody reads them.  Needs root.
#include "daemon/os/clocks.h"
#include "records_everybody.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace incident::daemon {
namespace {

constexpr CallsWanted whatever_there_is{.before = ~std::size_t{0}};

class PathsInKernel : public RecordsEverybody {
protected:
    std::optional<capture::ThreadRings> rings_of(std::uint32_t tid) {
        for (std::uint32_t slot = 0; slot < recorder->slots(); ++slot)
            if (const auto header = recorder->header(slot); header.tid == tid && header.state == bpf::SLOT_LIVE)
                return recorder->read(slot, header.generation, whatever_there_is);
        return std::nullopt;
    }
    // Of the last call of this number that this thread made.
    std::optional<capture::CallPath> last_of(long number) {
        const auto rings = rings_of(static_cast<std::uint32_t>(::gettid()));
        if (!rings)
            return std::nullopt;
        const auto found = std::ranges::find(rings->syscalls.rbegin(), rings->syscalls.rend(), number,
                                             [](const auto &record) { return record.nr; });
        const auto path = found == rings->syscalls.rend()
                              ? rings->paths.end()
                              : std::ranges::find(rings->paths, found->start_ns, &capture::CallPath::start_ns);
        return path == rings->paths.end() ? std::nullopt : std::optional(*path);
    }
};

std::string path_of(std::size_t length) {
    std::string path = "/no/such/";
    while (path.size() < length)
        path += static_cast<char>('a' + path.size() % 26);
    path.resize(length);
    return path;
}

TEST_F(PathsInKernel, AreWholeWhateverTheirLength) {
    for (const std::size_t length : {1u,    127u,  128u,  129u,  255u,  256u,  257u,  511u,  512u,  513u,  1022u,
                                     1023u, 1024u, 1025u, 2005u, 2006u, 2007u, 2989u, 3972u, 3973u, 4094u, 4095u}) {
        const std::string path = path_of(length);
        EXPECT_LT(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_PATH), length > 1 ? 0 : 1 << 20);
        const auto told = last_of(SYS_openat);
        ASSERT_TRUE(told) << length;
        EXPECT_EQ(told->bytes, path);
        EXPECT_EQ(told->status, bpf::PATH_KEPT) << length;
    }
}

TEST_F(PathsInKernel, ThatAreTooLongAreCut) {
    for (const std::size_t length : {4096u, 4097u, 5000u, 6000u}) {
        const std::string path = path_of(length);
        EXPECT_EQ(::open(path.c_str(), O_RDONLY | O_CLOEXEC), -1);
        EXPECT_EQ(errno, ENAMETOOLONG);
        const auto told = last_of(SYS_openat);
        ASSERT_TRUE(told) << length;
        EXPECT_EQ(told->bytes, path.substr(0, PATH_MAX_LEN - 1));
        EXPECT_EQ(told->status, bpf::PATH_CUT);
    }
}

// The kernel reads PATH_MAX bytes and no further: what is not there behind them harms nothing.
TEST_F(PathsInKernel, EndWhereTheirMemoryEnds) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    auto *memory = static_cast<char *>(
        ::mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_EQ(::mprotect(memory + 2 * page, page, PROT_NONE), 0);
    for (const std::size_t length : {20u, 1022u, 1023u, 1024u, 2006u, 4095u, 4096u}) {
        const std::string path = path_of(length);
        char *begin = memory + 2 * page - std::min<std::size_t>(length + 1, PATH_MAX_LEN);
        std::memcpy(begin, path.c_str(), std::min<std::size_t>(length + 1, PATH_MAX_LEN));
        EXPECT_EQ(::open(begin, O_RDONLY | O_CLOEXEC), -1);
        EXPECT_EQ(errno, length < PATH_MAX_LEN ? ENOENT : ENAMETOOLONG);
        const auto told = last_of(SYS_openat);
        ASSERT_TRUE(told) << length;
        EXPECT_EQ(told->bytes, path.substr(0, PATH_MAX_LEN - 1));
        EXPECT_EQ(told->status, length < PATH_MAX_LEN ? bpf::PATH_KEPT : bpf::PATH_CUT) << length;
    }
    EXPECT_EQ(::open(memory + 2 * page, O_RDONLY | O_CLOEXEC), -1);
    const auto unreadable = last_of(SYS_openat);
    ASSERT_TRUE(unreadable);
    EXPECT_EQ(unreadable->status, bpf::PATH_FAULT);
    EXPECT_EQ(unreadable->bytes, "");
    ::munmap(memory, 3 * page);
}

TEST_F(PathsInKernel, OfOpenat2HaveItsFlags) {
    open_how how{};
    how.flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
    const long fd = ::syscall(SYS_openat2, AT_FDCWD, "/etc/hostname", &how, sizeof(how));
    const auto told = last_of(SYS_openat2);
    ASSERT_TRUE(told);
    EXPECT_EQ(told->bytes, "/etc/hostname");
    EXPECT_EQ(told->how_flags, how.flags);
    ::close(static_cast<int>(fd));
}

// Whoever reads while the thread goes on gets each path at its own call, and none twice.
class PathsOfALivingThread : public PathsInKernel, public testing::WithParamInterface<bool> {};

TEST_P(PathsOfALivingThread, StandAtTheirCalls) {
    start({.threads = 64, .calls = 1u << 20});
    ASSERT_TRUE(recorder->record_entries(GetParam()));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < 64; ++i)
        names.push_back(path_of(i % 8 == 7 ? 1000 + 45 * i : 10 + 5 * i));
    std::atomic<bool> ended = false;
    std::atomic<std::uint32_t> tid = 0;
    std::thread opener([&] {
        tid = static_cast<std::uint32_t>(::gettid());
        for (std::size_t i = 0; !ended; ++i) {
            ::open(names[i % names.size()].c_str(), O_RDONLY | O_CLOEXEC);
            ::getppid();
        }
    });
    while (tid == 0)
        std::this_thread::yield();
    std::size_t looked = 0, seen = 0, without = 0;
    for (const std::uint64_t end = clock_ns(CLOCK_MONOTONIC) + 1'000'000'000; clock_ns(CLOCK_MONOTONIC) < end;) {
        const auto rings = rings_of(tid);
        if (!rings || rings->syscalls.size() < 2)
            continue;
        ++looked;
        std::uint64_t before = 0;
        for (const auto &path : rings->paths) {
            ASSERT_GT(path.start_ns, before) << "each call has one";
            before = path.start_ns;
            const auto call =
                std::ranges::lower_bound(rings->syscalls, path.start_ns, {}, &bpf::syscall_record::start_ns);
            ASSERT_TRUE(call != rings->syscalls.end() && call->start_ns == path.start_ns);
            ASSERT_EQ(call->nr, SYS_openat);
            const auto named =
                std::ranges::find(names, call->args[1], [](const auto &name) { return std::uint64_t(name.c_str()); });
            ASSERT_TRUE(named != names.end());
            if (path.status == bpf::PATH_PENDING)
                ASSERT_EQ(path.bytes, "");
            else if (path.status == bpf::PATH_CUT) // its pieces were given back
                ASSERT_TRUE(named->starts_with(path.bytes));
            else
                ASSERT_EQ(path.bytes, *named);
            ++seen;
        }
        // but for the one that it was in as it went on, and those whose pool was taken from under them
        const auto opens = std::ranges::count(rings->syscalls, SYS_openat, &bpf::syscall_record::nr);
        without += static_cast<std::size_t>(opens) - rings->paths.size();
        ASSERT_LE(rings->paths.size(), static_cast<std::size_t>(opens));
        ASSERT_LE(static_cast<std::size_t>(opens), rings->paths.size() + 1);
    }
    ended = true;
    opener.join();
    EXPECT_GT(looked, 10u);
    EXPECT_GT(seen, 100u);
    EXPECT_LE(without, looked);
}

INSTANTIATE_TEST_SUITE_P(Durations, PathsOfALivingThread, testing::Bool());

} // namespace
} // namespace incident::daemon
