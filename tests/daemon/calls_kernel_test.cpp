// What the kernel side packs of real calls is what was called.  Needs root.
#include "daemon/os/clocks.h"
#include "records_everybody.h"

#include <gmock/gmock.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

namespace incident::daemon {
namespace {

using testing::ElementsAreArray;

struct Made {
    long number;
    std::array<std::uint64_t, 6> args;
    std::int64_t ret;
};

// ENOSYS, with whatever arguments: no kernel has these calls.
constexpr long unknown_small = 511, unknown_large = 100'000, unknown_negative = -5;

constexpr CallsWanted everything{.before = ~std::size_t{0}};

class CallsInKernel : public RecordsEverybody {
protected:
    // The rings of this thread, of at most so many calls.
    capture::ThreadRings mine(const CallsWanted &wanted = everything) {
        const auto tid = static_cast<std::uint32_t>(::gettid());
        for (std::uint32_t slot = 0; slot < recorder->slots(); ++slot) {
            const auto header = recorder->header(slot);
            if (header.tid == tid && header.state == bpf::SLOT_LIVE)
                if (auto rings = recorder->read(slot, header.generation, wanted))
                    return std::move(*rings);
        }
        ADD_FAILURE() << "this thread is not recorded";
        return {};
    }
};

Made call(long number, const std::array<std::uint64_t, 6> &args) {
    errno = 0;
    const long ret = ::syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
    return {number, args, ret == -1 ? -errno : ret};
}

// Of the calls that are kept those of these numbers.
std::vector<bpf::syscall_record> of_unknown(const capture::ThreadRings &rings) {
    std::vector<bpf::syscall_record> found;
    for (const auto &record : rings.syscalls)
        if (record.nr == unknown_small || record.nr == unknown_large || record.nr == unknown_negative)
            found.push_back(record);
    return found;
}

void expect_same(const std::vector<bpf::syscall_record> &kept, const std::vector<Made> &made) {
    ASSERT_EQ(kept.size(), made.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
        ASSERT_EQ(kept[i].nr, made[i].number) << i;
        ASSERT_EQ(kept[i].ret, made[i].ret) << i;
        ASSERT_THAT(kept[i].args, ElementsAreArray(made[i].args)) << i;
        ASSERT_LT(kept[i].duration_ns, NO_DURATION) << i;
        ASSERT_TRUE(i == 0 || kept[i].start_ns >= kept[i - 1].start_ns + kept[i - 1].duration_ns) << i;
    }
}

TEST_F(CallsInKernel, KeepEveryBitOfTheirArguments) {
    std::mt19937_64 random(7); // NOLINT(cert-msc32-c,cert-msc51-cpp): the same arguments each time
    const std::uint64_t parts[] = {0, 1, 0xffffffff, 0x100000000, ~0ull, 0x8000000000000000, 0x80000000};
    std::vector<Made> made;
    made.reserve(5000);
    for (int i = 0; i < 5000; ++i) {
        std::array<std::uint64_t, 6> args{};
        for (auto &arg : args)
            arg = random() % 2 ? parts[random() % std::size(parts)] : random();
        const long numbers[] = {unknown_small, unknown_large, unknown_negative};
        for (int again = random() % 4 == 0 ? 3 : 1; again > 0; --again)
            made.push_back(call(numbers[random() % 3], args));
    }
    expect_same(of_unknown(mine()), made);
}

TEST_F(CallsInKernel, AreAsManyAsWereMade) {
    std::thread([&] {
        const auto before = mine();
        constexpr int count = 10'000;
        for (int i = 0; i < count; ++i)
            ::syscall(SYS_getppid);
        const auto rings = mine();
        EXPECT_GE(rings.slot.syscalls, count + before.slot.syscalls);
        EXPECT_EQ(rings.syscalls.size(), rings.slot.syscalls) << "all of them are kept";
        EXPECT_EQ(rings.calls_left_out, 0u);
        const auto some = mine({.before = 100});
        EXPECT_EQ(some.syscalls.size(), 100u);
        EXPECT_EQ(some.calls_left_out, some.slot.syscalls - 100);
        const auto middle = rings.syscalls[5000].start_ns;
        const auto around = mine({.before = 10, .until_ns = middle, .after = 20});
        ASSERT_EQ(around.syscalls.size(), 30u);
        EXPECT_EQ(around.syscalls[9].start_ns, middle);
        EXPECT_EQ(around.calls_left_out, around.slot.syscalls - 30);
    }).join();
}

TEST_F(CallsInKernel, TheSmallestPoolKeepsTheNewest) {
    start({.threads = 16, .calls = 64u << 10});
    std::vector<Made> made;
    made.reserve(20'000);
    for (std::uint64_t i = 0; i < 20'000; ++i)
        made.push_back(call(unknown_small, {i, ~i, i << 32, 0, i * i, 1}));
    const auto kept = of_unknown(mine());
    ASSERT_GE(kept.size(), 25u); // of two segments one at least
    expect_same(kept, {made.end() - static_cast<std::ptrdiff_t>(kept.size()), made.end()});
}

// Whoever reads while the thread goes on gets what is whole: successive calls, each as it was made.
TEST_F(CallsInKernel, AreWholeWhileTheThreadGoesOn) {
    start({.threads = 64, .calls = 256u << 10});
    std::atomic<bool> ended = false;
    std::atomic<std::uint32_t> tid = 0;
    std::thread caller([&] {
        tid = static_cast<std::uint32_t>(::gettid());
        for (std::uint64_t i = 0; !ended; ++i)
            ::syscall(unknown_small, i, ~i, 1, 2, 3, i);
    });
    while (tid == 0)
        std::this_thread::yield();
    int looked = 0;
    std::size_t seen = 0;
    for (const std::uint64_t end = clock_ns(CLOCK_MONOTONIC) + 500'000'000; clock_ns(CLOCK_MONOTONIC) < end;) {
        for (std::uint32_t slot = 0; slot < recorder->slots(); ++slot) {
            const auto header = recorder->header(slot);
            if (header.tid != tid || header.state != bpf::SLOT_LIVE)
                continue;
            const auto rings = recorder->read(slot, header.generation, {.before = 1000});
            ++looked;
            const auto kept = rings ? of_unknown(*rings) : std::vector<bpf::syscall_record>{};
            seen += kept.size();
            for (std::size_t i = 0; i < kept.size(); ++i) {
                ASSERT_EQ(kept[i].args[1], ~kept[i].args[0]);
                ASSERT_EQ(kept[i].args[5], kept[i].args[0]);
                ASSERT_TRUE(i == 0 || kept[i].args[0] == kept[i - 1].args[0] + 1);
            }
        }
        recorder->tend_pool();
    }
    ended = true;
    caller.join();
    EXPECT_GT(looked, 0);
    EXPECT_GT(seen, 0u);
}

TEST_F(CallsInKernel, OfAnUntimedProcessHaveNoDuration) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    std::atomic<std::uint32_t> tid = 0;
    std::thread waits([&] { // in a call as its process becomes untimed
        tid = static_cast<std::uint32_t>(::gettid());
        char byte = 0;
        EXPECT_EQ(::read(ends[0], &byte, 1), 1);
        call(unknown_small, {1});
        EXPECT_EQ(::read(ends[0], &byte, 1), 1);
    });
    const auto rings_of = [&](std::uint32_t of) {
        for (std::uint32_t slot = 0; slot < recorder->slots(); ++slot)
            if (const auto header = recorder->header(slot); header.tid == of && header.state == bpf::SLOT_LIVE)
                if (auto rings = recorder->read(slot, header.generation, everything))
                    return std::move(*rings);
        return capture::ThreadRings();
    };
    const auto reads = [&](std::uint32_t of) {
        std::vector<std::uint64_t> durations;
        for (const auto &record : rings_of(of).syscalls)
            if (record.nr == SYS_read || record.nr == unknown_small)
                durations.push_back(record.duration_ns);
        return durations;
    };
    const auto until_it_has = [&](std::size_t count) {
        for (int i = 0; i < 5000 && (!tid || reads(tid).size() < count); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
    };
    until_it_has(1);
    call(unknown_small, {1});
    const auto all = recorder->calls_by_process();
    const auto self = std::ranges::find_if(
        all, [](const auto &one) { return one.first.pid == static_cast<std::uint32_t>(::getpid()); });
    const auto own = self == all.end() ? std::pair<const capture::ProcessRef, ProcessCalls>() : *self;
    EXPECT_GT(own.second.calls, 1u);
    EXPECT_EQ(own.second.comm, program_invocation_short_name);

    EXPECT_TRUE(recorder->leave_untimed({own.first}));
    call(unknown_small, {2});
    EXPECT_EQ(::write(ends[1], "x", 1), 1);
    until_it_has(2);
    const auto seen = reads(tid);
    EXPECT_TRUE(recorder->leave_untimed({}));
    call(unknown_small, {3});
    EXPECT_EQ(::write(ends[1], "x", 1), 1);
    waits.join();
    ASSERT_GE(seen.size(), 2u);
    EXPECT_LT(seen[0], NO_DURATION) << "begun before";
    EXPECT_EQ(seen[1], NO_DURATION);

    const auto kept = of_unknown(mine());
    ASSERT_EQ(kept.size(), 3u);
    EXPECT_LT(kept[0].duration_ns, NO_DURATION);
    EXPECT_EQ(kept[1].duration_ns, NO_DURATION);
    EXPECT_EQ(kept[1].args[0], 2u);
    EXPECT_LT(kept[2].duration_ns, NO_DURATION);
    ::close(ends[0]);
    ::close(ends[1]);
}

// A thread that has ended counts on: a server may make one for each request.
TEST_F(CallsInKernel, OfEndedThreadsStillCount) {
    const auto own = [&] {
        for (const auto &[process, calls] : recorder->calls_by_process())
            if (process.pid == static_cast<std::uint32_t>(::getpid()))
                return calls.calls;
        return std::uint64_t{0};
    };
    call(unknown_small, {1});
    const std::uint64_t before = own();
    for (int i = 0; i < 10; ++i)
        std::thread([] {
            for (int k = 0; k < 100; ++k)
                call(unknown_small, {1});
        }).join();
    EXPECT_GE(own(), before + 1000);
}

TEST_F(CallsInKernel, OfEpollHaveTheirEvents) {
    const int set = ::epoll_create1(0);
    int ends[6][2];
    for (auto &pair : ends) {
        ASSERT_EQ(::pipe(pair), 0);
        epoll_event event{.events = EPOLLIN, .data = {.u64 = 0x1234500000000 + static_cast<std::uint64_t>(pair[0])}};
        ASSERT_EQ(::epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event), 0);
        ASSERT_EQ(::write(pair[1], "x", 1), 1);
    }
    ::epoll_ctl(set, EPOLL_CTL_ADD, -1, nullptr); // has no event, and is none that others have left
    epoll_event ready[8];
    ASSERT_EQ(::epoll_wait(set, ready, 8, -1), 6);
    ASSERT_EQ(::epoll_wait(set, ready, 2, -1), 2);
    const auto rings = mine();
    std::vector<std::string> given, taken;
    for (const auto &events : rings.events) {
        const auto of = std::ranges::find(rings.syscalls, events.start_ns, &bpf::syscall_record::start_ns);
        ASSERT_NE(of, rings.syscalls.end());
        (of->nr == SYS_epoll_ctl ? given : taken).push_back(events.bytes);
    }
    ASSERT_EQ(given.size(), 6u);
    for (std::size_t i = 0; i < 6; ++i) {
        epoll_event event{};
        ASSERT_EQ(given[i].size(), sizeof(event));
        std::memcpy(&event, given[i].data(), sizeof(event));
        EXPECT_EQ(event.events, EPOLLIN);
        EXPECT_EQ(event.data.u64, 0x1234500000000 + static_cast<std::uint64_t>(ends[i][0]));
    }
    ASSERT_EQ(taken.size(), 2u);
    EXPECT_EQ(taken[0], given[0] + given[1] + given[2] + given[3]) << "the first of six";
    EXPECT_EQ(taken[1].size(), 2 * sizeof(epoll_event));
    for (auto &pair : ends)
        for (const int end : pair)
            ::close(end);
    ::close(set);
}

} // namespace
} // namespace incident::daemon
