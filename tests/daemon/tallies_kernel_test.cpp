// What the kernel side remembers of real calls as distinct facts.  Needs root.
#include "capture/decode/syscalls.h"
#include "daemon/os/clocks.h"
#include "records_everybody.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace incident::daemon {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class TalliesInKernel : public RecordsEverybody {
protected:
    // Facts of this process of that kind, by when they were met last.
    std::vector<bpf::tally> mine(int kind) {
        const auto entry = recorder->process(static_cast<std::uint32_t>(::getpid()));
        if (!entry) {
            ADD_FAILURE() << "this process is not recorded";
            return {};
        }
        std::vector<bpf::tally> found;
        for (const bpf::tally &tally : recorder->tallies(capture::process_of(*entry)))
            if (tally.kind == kind)
                found.push_back(tally);
        std::ranges::sort(found, {}, &bpf::tally::last_ns);
        return found;
    }
};

// A socket of this host's own address, at a port that the kernel chooses.
struct Bound {
    int fd = -1;
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t length = sizeof(address);
    sockaddr *at = reinterpret_cast<sockaddr *>(&address);

    explicit Bound(int type) : fd(::socket(AF_INET, type, 0)) {
        EXPECT_EQ(::bind(fd, at, length), 0);
        EXPECT_TRUE(type != SOCK_STREAM || ::listen(fd, 8) == 0);
        EXPECT_EQ(::getsockname(fd, at, &length), 0);
    }
    ~Bound() { ::close(fd); }
    Bound(const Bound &) = delete;
    Bound &operator=(const Bound &) = delete;
    std::string bytes() const { return {reinterpret_cast<const char *>(&address), sizeof(address)}; }
};

std::string name_of(const bpf::tally &tally) {
    return {tally.name, std::min<std::size_t>(tally.length, TALLY_NAME)};
}

auto named(const std::string &name) {
    return testing::ResultOf("name", name_of, testing::Eq(name));
}

std::vector<bpf::tally> of_name(const std::vector<bpf::tally> &all, const std::string &name) {
    std::vector<bpf::tally> found;
    std::ranges::copy_if(all, std::back_inserter(found), [&](const auto &tally) { return name_of(tally) == name; });
    return found;
}

std::vector<bpf::tally> of_call(const std::vector<bpf::tally> &all, long number, int code) {
    std::vector<bpf::tally> found;
    std::ranges::copy_if(all, std::back_inserter(found),
                         [&](const auto &tally) { return tally.nr == number && tally.code == code; });
    return found;
}

TEST_F(TalliesInKernel, EachPathOnce) {
    for (int i = 0; i < 1000; ++i) {
        ::close(::open("/etc/passwd", O_RDONLY | O_CLOEXEC));
        EXPECT_EQ(::open("/no/such/file", O_RDONLY), -1);
    }
    const auto paths = mine(bpf::TALLY_PATH);
    const auto there = of_name(paths, "/etc/passwd"), missing = of_name(paths, "/no/such/file");
    ASSERT_THAT(there, SizeIs(1));
    EXPECT_EQ(there[0].met, 1000u);
    EXPECT_EQ(there[0].failed, 0u);
    EXPECT_EQ(there[0].nr, SYS_openat);
    EXPECT_EQ(there[0].value, std::uint64_t{O_RDONLY | O_CLOEXEC});
    EXPECT_GE(there[0].ret, 3);
    EXPECT_EQ(there[0].tid, static_cast<std::uint32_t>(::gettid()));
    EXPECT_LT(there[0].first_ns, there[0].last_ns);
    EXPECT_GT(there[0].longest_ns, 0u);
    ASSERT_THAT(missing, SizeIs(1));
    EXPECT_EQ(missing[0].met, 1000u);
    EXPECT_EQ(missing[0].failed, 1000u);
    EXPECT_EQ(missing[0].ret, -ENOENT);
    const auto failures = of_call(mine(bpf::TALLY_FAILURE), SYS_openat, ENOENT);
    ASSERT_THAT(failures, SizeIs(1));
    EXPECT_EQ(failures[0].met, 1000u);
}

TEST_F(TalliesInKernel, OfALongPathTheEnd) {
    const std::string end = std::string(TALLY_NAME, 'x'), path = "/" + std::string(200, 'y') + "/" + end;
    ::open(path.c_str(), O_RDONLY);
    ::open(("/" + std::string(199, 'y') + "z/" + end).c_str(), O_RDONLY);
    const auto found = of_name(mine(bpf::TALLY_PATH), end);
    ASSERT_THAT(found, SizeIs(2)) << "two paths with the same end are two";
    for (const auto &tally : found) {
        EXPECT_TRUE(tally.flags & bpf::TALLY_NAME_CUT);
        EXPECT_EQ(tally.length, path.size());
    }
}

// Of one that has no room where the slot keeps it, too; so two that begin alike are two.
TEST_F(TalliesInKernel, OfAVeryLongPathTheEnd) {
    const std::string begin = "/no/such/" + std::string(2000, 'd');
    for (const char *name : {"/one", "/two"}) {
        const std::string path = begin + name;
        for (int i = 0; i < 3; ++i)
            EXPECT_EQ(::open(path.c_str(), O_RDONLY), -1);
        const auto found = of_name(mine(bpf::TALLY_PATH), path.substr(path.size() - TALLY_NAME));
        ASSERT_THAT(found, SizeIs(1)) << name;
        EXPECT_EQ(found[0].met, 3u);
        EXPECT_EQ(found[0].length, path.size());
        EXPECT_TRUE(found[0].flags & bpf::TALLY_NAME_CUT);
    }
}

TEST_F(TalliesInKernel, EachPeerOnce) {
    Bound bound(SOCK_STREAM);
    auto &[listener, address, length, at] = bound;
    std::uint16_t last_port = 0;
    for (int i = 0; i < 20; ++i) {
        const int client = ::socket(AF_INET, SOCK_STREAM, 0);
        ASSERT_EQ(::connect(client, at, length), 0);
        sockaddr_in own{};
        socklen_t own_length = sizeof(own);
        ::getsockname(client, reinterpret_cast<sockaddr *>(&own), &own_length);
        last_port = ntohs(own.sin_port);
        const int accepted = ::accept(listener, nullptr, nullptr); // the address is not asked for
        ASSERT_GE(accepted, 0);
        ::close(accepted);
        ::close(client);
    }
    const auto connected = of_call(mine(bpf::TALLY_PEER), SYS_connect, 0);
    ASSERT_THAT(connected, SizeIs(1));
    EXPECT_EQ(connected[0].met, 20u);
    EXPECT_EQ(name_of(connected[0]), bound.bytes());
    const auto accepted = of_call(mine(bpf::TALLY_PEER), SYS_accept, 0);
    ASSERT_THAT(accepted, SizeIs(1)) << "the ports of clients do not make them others";
    EXPECT_EQ(accepted[0].met, 20u);
    sockaddr_in peer = address;
    peer.sin_port = 0;
    EXPECT_EQ(name_of(accepted[0]), std::string(reinterpret_cast<const char *>(&peer), sizeof(peer)));
    EXPECT_EQ(accepted[0].value & 0xffff, last_port);
    EXPECT_EQ(accepted[0].value >> 16, ntohs(address.sin_port));
}

TEST_F(TalliesInKernel, LocalPeersByPathAndProcess) {
    const auto path = std::filesystem::temp_directory_path() / ("tally" + std::to_string(::getpid()));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    const auto length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.string().size() + 1); // with its NUL
    auto *at = reinterpret_cast<sockaddr *>(&address);
    const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0), client = ::socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(::bind(listener, at, length), 0);
    ASSERT_EQ(::listen(listener, 8), 0);
    ASSERT_EQ(::connect(client, at, length), 0);
    const int accepted = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    ASSERT_GE(accepted, 0);
    const std::string bytes(reinterpret_cast<const char *>(&address), length - 1); // without the NUL
    const auto peers = mine(bpf::TALLY_PEER);
    EXPECT_THAT(of_call(peers, SYS_bind, 0), testing::ElementsAre(named(bytes)));
    EXPECT_THAT(of_call(peers, SYS_connect, 0), testing::ElementsAre(named(bytes)));
    const auto taken = of_call(peers, SYS_accept4, 0);
    ASSERT_THAT(taken, testing::ElementsAre(named(bytes)));
    EXPECT_EQ(taken[0].value, static_cast<std::uint64_t>(::getpid()));
    for (const int fd : {listener, client, accepted})
        ::close(fd);
    std::filesystem::remove(path);
}

TEST_F(TalliesInKernel, DatagramsByTheirAddress) {
    Bound bound(SOCK_DGRAM);
    auto &[fd, address, length, at] = bound;
    char byte = 1;
    iovec part{&byte, 1};
    msghdr message{};
    message.msg_name = at;
    message.msg_namelen = length;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    sockaddr_in from{};
    socklen_t from_length = sizeof(from);
    ASSERT_EQ(::sendto(fd, &byte, 1, 0, at, length), 1);
    ASSERT_EQ(::recvfrom(fd, &byte, 1, 0, reinterpret_cast<sockaddr *>(&from), &from_length), 1);
    ASSERT_EQ(::sendmsg(fd, &message, 0), 1);
    message.msg_name = &from;
    ASSERT_EQ(::recvmsg(fd, &message, 0), 1);
    const auto peers = mine(bpf::TALLY_PEER);
    for (const long number : {SYS_sendto, SYS_sendmsg})
        EXPECT_THAT(of_call(peers, number, 0), testing::ElementsAre(named(bound.bytes()))) << number;
    const std::uint16_t port =
        ntohs(std::exchange(address.sin_port, 0)); // of who comes by itself, it is not the peer's
    for (const long number : {SYS_recvfrom, SYS_recvmsg}) {
        const auto received = of_call(peers, number, 0);
        ASSERT_THAT(received, testing::ElementsAre(named(bound.bytes()))) << number;
        EXPECT_EQ(received[0].value, port);
    }
}

// Whoever gives sizeof(struct sockaddr_storage) as its length means the same peer, whatever stands behind.
TEST_F(TalliesInKernel, WhatStandsBehindAnAddressIsNotOfIt) {
    sockaddr_storage storage{};
    auto *four = reinterpret_cast<sockaddr_in *>(&storage);
    for (int i = 0; i < 5; ++i) {
        std::memset(&storage, 'a' + i, sizeof(storage));
        four->sin_family = AF_INET;
        four->sin_port = htons(9); // nobody answers there
        four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
        EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr *>(&storage), sizeof(storage)), 0);
        ::close(fd);
    }
    const auto connected = of_call(mine(bpf::TALLY_PEER), SYS_connect, 0);
    ASSERT_THAT(connected, SizeIs(1));
    EXPECT_EQ(connected[0].met, 5u);
    EXPECT_EQ(name_of(connected[0]), std::string("\2\0\0\11\x7f\0\0\1\0\0\0\0\0\0\0\0", 16));
}

// The kernel says how long the sender's address is, and writes no more than there is room for.
TEST_F(TalliesInKernel, WhatTheKernelHasNotWrittenIsNoAddress) {
    Bound bound(SOCK_DGRAM);
    auto &[fd, address, length, at] = bound;
    char byte = 1;
    for (const socklen_t room : {0u, 2u}) {
        ASSERT_EQ(::sendto(fd, &byte, 1, 0, at, length), 1);
        sockaddr_in before = address; // of the caller
        before.sin_addr.s_addr = htonl(0x0a0b0c0d);
        socklen_t said = room;
        ASSERT_EQ(::recvfrom(fd, &byte, 1, 0, reinterpret_cast<sockaddr *>(&before), &said), 1);
        ASSERT_EQ(said, sizeof(address));
    }
    for (const auto &peer : of_call(mine(bpf::TALLY_PEER), SYS_recvfrom, 0))
        EXPECT_LE(peer.length, 2u);
}

TEST_F(TalliesInKernel, WhatHasNotFailedIsNoFailure) {
    ::signal(SIGALRM, [](int) {});
    const itimerval soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 20'000}};
    ASSERT_EQ(::setitimer(ITIMER_REAL, &soon, nullptr), 0);
    ::pause();
    Bound bound(SOCK_STREAM);
    auto &[listener, address, length, at] = bound;
    const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ASSERT_EQ(::connect(client, at, length), -1);
    ASSERT_EQ(errno, EINPROGRESS);
    ASSERT_EQ(::fcntl(client, F_GETFL), O_RDWR | O_NONBLOCK);
    const auto failures = mine(bpf::TALLY_FAILURE);
    for (const long number : {SYS_pause, SYS_rt_sigreturn, SYS_connect})
        EXPECT_TRUE(std::ranges::none_of(failures, [&](const auto &tally) { return tally.nr == number; })) << number;
    const auto connected = of_call(mine(bpf::TALLY_PEER), SYS_connect, 0);
    ASSERT_THAT(connected, SizeIs(1));
    EXPECT_EQ(connected[0].failed, 0u);
    for (const auto &reached : mine(bpf::TALLY_DESCRIPTORS))
        EXPECT_LT(reached.value, 1000u) << "flags are no descriptor";
    const auto alarms = of_call(mine(bpf::TALLY_SIGNAL), 0, SIGALRM);
    ASSERT_THAT(alarms, SizeIs(1));
    EXPECT_EQ(alarms[0].length, 0u) << "nobody has sent it: whoever ran when the time was over is not its sender";
    ::close(client);
}

TEST_F(TalliesInKernel, WhatLastsLong) {
    const timespec long_time{.tv_sec = 0, .tv_nsec = 30'000'000};
    for (int i = 0; i < 3; ++i)
        ::clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, nullptr);
    const auto slow = of_call(mine(bpf::TALLY_SLOW), SYS_clock_nanosleep, 0);
    ASSERT_THAT(slow, SizeIs(1));
    EXPECT_GE(slow[0].met, 1u);
    EXPECT_LE(slow[0].met, 3u); // one that waits for its CPU for long is of the next step
    EXPECT_GE(slow[0].longest_ns, 30'000'000u);
    EXPECT_TRUE(slow[0].flags & bpf::TALLY_IDLE);
}

TEST_F(TalliesInKernel, ThreadsChildrenAndSignals) {
    ::signal(SIGUSR1, [](int) {});
    ::getppid(); // decides about this thread
    for (int i = 0; i < 5; ++i) {
        std::thread([] {
            ::pthread_setname_np(::pthread_self(), "tallied");
            ::getppid();
        }).join();
        ::raise(SIGUSR1);
    }
    const pid_t child = ::fork();
    if (child == 0)
        ::_exit(7);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const auto threads = of_name(mine(bpf::TALLY_THREAD), "tallied");
    ASSERT_THAT(threads, SizeIs(1));
    EXPECT_EQ(threads[0].met, 5u);
    const auto signals = of_call(mine(bpf::TALLY_SIGNAL), 0, SIGUSR1);
    ASSERT_THAT(signals, SizeIs(1));
    EXPECT_EQ(signals[0].met, 5u);
    EXPECT_EQ(static_cast<std::int32_t>(signals[0].value), SI_TKILL);
    EXPECT_THAT(mine(bpf::TALLY_CHILD), SizeIs(1));
    const auto ended = mine(bpf::TALLY_CHILD_EXIT);
    ASSERT_THAT(ended, SizeIs(1));
    EXPECT_EQ(ended[0].code, 7 << 8);
}

TEST_F(TalliesInKernel, Growth) {
    std::vector<int> opened;
    for (int i = 0; i < 300; ++i)
        opened.push_back(::dup(1));
    const auto descriptors = mine(bpf::TALLY_DESCRIPTORS);
    EXPECT_GE(descriptors.size(), 8u) << "a level for each quarter of a power of two";
    EXPECT_LE(descriptors.size(), 40u);
    EXPECT_GE(descriptors.back().value, 256u);
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
        EXPECT_EQ(descriptors[i].met, 1u) << "when it was reached, and never again";
        EXPECT_TRUE(i == 0 || descriptors[i].value > descriptors[i - 1].value);
    }
    for (const int fd : opened)
        ::close(fd);
}

// Another process's facts, and those of others in the same table, are not these.
TEST_F(TalliesInKernel, AreOfOneProcess) {
    ::open("/only/the/parent", O_RDONLY);
    const pid_t child = ::fork();
    if (child == 0) {
        ::open("/only/the/child", O_RDONLY);
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    const auto paths = mine(bpf::TALLY_PATH);
    EXPECT_THAT(of_name(paths, "/only/the/parent"), SizeIs(1));
    EXPECT_THAT(of_name(paths, "/only/the/child"), IsEmpty());
}

// Who makes up paths washes away its own facts, and not another process's.
TEST_F(TalliesInKernel, WhoHasMostGivesWay) {
    start({.facts = 64 << 10});
    for (int i = 0; i < 4; ++i)
        ::open(("/quiet/" + std::to_string(i)).c_str(), O_RDONLY);
    const pid_t child = ::fork();
    if (child == 0) {
        for (int i = 0; i < 20'000; ++i)
            ::open(("/made/up/" + std::to_string(i)).c_str(), O_RDONLY);
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    const auto paths = mine(bpf::TALLY_PATH);
    for (int i = 0; i < 4; ++i)
        EXPECT_THAT(of_name(paths, "/quiet/" + std::to_string(i)), SizeIs(1)) << i;
    for (int i = 0; i < 20'000; ++i)
        ::open(("/made/up/" + std::to_string(i)).c_str(), O_RDONLY);
    const auto entry = recorder->process(static_cast<std::uint32_t>(::getpid()));
    ASSERT_TRUE(entry);
    EXPECT_GT(entry->tallies_forgotten, 10'000u) << "what is forgotten is counted";
    EXPECT_FALSE(mine(bpf::TALLY_FAILURE).empty()) << "paths do not wash away other kinds";
}

// Many threads that meet the same facts at the same time: each meeting is counted, or is a loss that is.
TEST_F(TalliesInKernel, CountsOfManyThreadsAddUp) {
    constexpr int count = 20'000, thread_count = 8;
    const auto losses = recorder->loss_counts()[bpf::LOSS_TALLY];
    std::vector<std::jthread> threads;
    threads.reserve(thread_count);
    for (int i = 0; i < thread_count; ++i)
        threads.emplace_back([] {
            for (int n = 0; n < count; ++n)
                ::syscall(SYS_close, -1);
        });
    threads.clear();
    const auto failures = of_call(mine(bpf::TALLY_FAILURE), SYS_close, EBADF);
    ASSERT_THAT(failures, SizeIs(1));
    const auto lost = recorder->loss_counts()[bpf::LOSS_TALLY] - losses;
    EXPECT_LE(failures[0].met, std::uint64_t{count} * thread_count);
    EXPECT_GE(failures[0].met + lost, std::uint64_t{count} * thread_count);
    EXPECT_EQ(failures[0].met, failures[0].failed);
}

} // namespace
} // namespace incident::daemon
