// Requests of io_uring as the kernel side records them, of real rings.  Needs root, and a kernel that allows io_uring.
#include "daemon/os/clocks.h"
#include "records_everybody.h"
#include "ring.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string>
#include <thread>

namespace incident::daemon {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr CallsWanted all_of_them{.before = ~std::size_t{0}};

class RequestsInKernel : public RecordsEverybody {
protected:
    void SetUp() override {
        RecordsEverybody::SetUp();
        if (!Ring(1).valid())
            GTEST_SKIP() << "io_uring_setup: " << strerror(errno);
    }
    // Those with this user_data, of all threads of this process.
    std::vector<capture::Request> told(std::uint64_t user_data) {
        std::vector<capture::Request> found;
        for (const auto slot : recorder->slots_of(self())) {
            const auto rings = recorder->read(slot, recorder->header(slot).generation, all_of_them);
            if (!rings)
                continue;
            for (const auto &request : rings->requests)
                if (request.user_data == user_data)
                    found.push_back(request);
        }
        return found;
    }
    std::vector<capture::Request> in_flight(std::uint64_t user_data) {
        auto all = recorder->requests_in_flight(self());
        std::erase_if(all, [&](const auto &request) { return request.user_data != user_data; });
        return all;
    }
    capture::ProcessRef self() {
        for (std::uint32_t slot = 0; slot < recorder->slots(); ++slot)
            if (const auto header = recorder->header(slot);
                header.tgid == static_cast<std::uint32_t>(::getpid()) && header.state == bpf::SLOT_LIVE)
                return capture::process_of(header);
        return {};
    }
};

TEST_F(RequestsInKernel, AreKeptWithWhatTheyAsked) {
    Ring ring(8);
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    char bytes[] = "hello";
    const auto before = clock_ns(CLOCK_MONOTONIC);
    ring.put({.opcode = IORING_OP_WRITE,
              .fd = ends[1],
              .off = ~0ull,
              .addr = std::uint64_t(bytes),
              .len = 5,
              .user_data = 71});
    ring.put({.opcode = IORING_OP_READ,
              .fd = 987,
              .off = 0x123456789a,
              .addr = 0x7123456789ab,
              .len = 4096,
              .user_data = 72});
    ASSERT_EQ(ring.submit(2, 2), 2);
    const auto after = clock_ns(CLOCK_MONOTONIC);

    const auto wrote = told(71), failed = told(72);
    ASSERT_THAT(wrote, SizeIs(1));
    EXPECT_EQ(wrote[0].code, unsigned{IORING_OP_WRITE});
    EXPECT_EQ(wrote[0].fd, ends[1]);
    EXPECT_EQ(wrote[0].address, std::uint64_t(bytes));
    EXPECT_EQ(wrote[0].offset, ~0ull);
    EXPECT_EQ(wrote[0].length, 5u);
    EXPECT_EQ(wrote[0].result, 5);
    EXPECT_EQ(wrote[0].submitter, std::uint32_t(::gettid()));
    EXPECT_GE(wrote[0].t_ns, before);
    EXPECT_LE(wrote[0].t_ns + wrote[0].duration_ns, after);
    ASSERT_THAT(failed, SizeIs(1));
    EXPECT_EQ(failed[0].address, 0x7123456789abu);
    EXPECT_EQ(failed[0].offset, 0x123456789au);
    EXPECT_EQ(failed[0].result, -EBADF);
    EXPECT_THAT(in_flight(71), IsEmpty());
    EXPECT_THAT(in_flight(72), IsEmpty());
}

TEST_F(RequestsInKernel, AreInFlightUntilTheyAreCompleted) {
    Ring ring(8);
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    char byte = 0;
    ring.put({.opcode = IORING_OP_READ,
              .fd = ends[0],
              .off = ~0ull,
              .addr = std::uint64_t(&byte),
              .len = 1,
              .user_data = 81});
    ASSERT_EQ(ring.submit(1, 0), 1);
    const auto waiting = in_flight(81);
    ASSERT_THAT(waiting, SizeIs(1));
    EXPECT_EQ(waiting[0].duration_ns, IN_FLIGHT);
    EXPECT_EQ(waiting[0].fd, ends[0]);
    EXPECT_THAT(told(81), IsEmpty());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_EQ(::write(ends[1], "x", 1), 1);
    ring.wait(1);
    EXPECT_THAT(in_flight(81), IsEmpty());
    const auto over = told(81);
    ASSERT_THAT(over, SizeIs(1));
    EXPECT_EQ(over[0].t_ns, waiting[0].t_ns);
    EXPECT_EQ(over[0].result, 1);
    EXPECT_GE(over[0].duration_ns, 20'000'000u);
    EXPECT_LT(over[0].duration_ns, NO_DURATION);
}

TEST_F(RequestsInKernel, HaveThePathsThatTheyName) {
    Ring ring(8);
    const std::string longer(150, 'x');
    const auto plain = reinterpret_cast<std::uint64_t>("/etc/passwd"),
               cut = reinterpret_cast<std::uint64_t>(longer.c_str());
    ring.put({.opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = plain, .op_flags = O_RDONLY, .user_data = 131});
    ring.put({.opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = cut, .op_flags = O_RDONLY, .user_data = 132});
    ring.put({.opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = 16, .op_flags = O_RDONLY, .user_data = 133});
    ring.put({.opcode = IORING_OP_NOP, .addr = plain, .user_data = 134});
    ring.submit(4, 4);
    ring.submit(1, 0); // an entry that cannot be taken ends the batch: what is left of it
    ring.wait(4);
    const auto opened = told(131), missing = told(132), unreadable = told(133), nothing = told(134);
    ASSERT_THAT(opened, SizeIs(1));
    EXPECT_EQ(opened[0].path, "/etc/passwd");
    EXPECT_GE(opened[0].result, 0);
    ASSERT_THAT(missing, SizeIs(1));
    EXPECT_EQ(missing[0].path, longer.substr(0, REQUEST_PATH_LEN - 1));
    EXPECT_TRUE(missing[0].path_is_cut());
    EXPECT_EQ(missing[0].result, -ENOENT);
    ASSERT_THAT(unreadable, SizeIs(1));
    EXPECT_EQ(unreadable[0].path, "");
    EXPECT_EQ(unreadable[0].result, -EFAULT);
    ASSERT_THAT(nothing, SizeIs(1));
    EXPECT_EQ(nothing[0].path, "");

    std::set<std::string> paths;
    bool failed = false;
    for (const bpf::tally &tally : recorder->tallies(self()))
        if (tally.flags & bpf::TALLY_REQUEST) {
            if (tally.kind == bpf::TALLY_PATH)
                paths.emplace(tally.name, std::min<std::size_t>(tally.length, TALLY_NAME));
            failed |= tally.kind == bpf::TALLY_FAILURE && tally.code == ENOENT && tally.nr == IORING_OP_OPENAT;
        }
    EXPECT_THAT(paths, testing::UnorderedElementsAre("/etc/passwd", longer.substr(0, REQUEST_PATH_LEN - 1)));
    EXPECT_TRUE(failed);
}

// IOSQE_ASYNC: by a thread that io_uring makes in the process.
TEST_F(RequestsInKernel, OfAWorkerAreTheSubmitters) {
    Ring ring(8);
    char bytes[16] = {};
    const int zero = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
    ring.put({.opcode = IORING_OP_READ,
              .flags = IOSQE_ASYNC,
              .fd = zero,
              .addr = std::uint64_t(bytes),
              .len = 16,
              .user_data = 91});
    ASSERT_EQ(ring.submit(1, 1), 1);
    const auto over = told(91);
    ASSERT_THAT(over, SizeIs(1));
    EXPECT_EQ(over[0].result, 16);
    EXPECT_EQ(over[0].submitter, std::uint32_t(::gettid()));
    EXPECT_EQ(over[0].code >> REQUEST_FLAGS_SHIFT & REQUEST_FLAGS_MASK, unsigned{IOSQE_ASYNC});
    ::close(zero);
}

// IORING_SETUP_SQPOLL: no call submits them.
TEST_F(RequestsInKernel, OfAThreadOfTheKernelsAreIts) {
    Ring ring(8, IORING_SETUP_SQPOLL);
    if (!ring.valid())
        GTEST_SKIP() << "IORING_SETUP_SQPOLL: " << strerror(errno);
    ring.put({.opcode = IORING_OP_NOP, .user_data = 101});
    ring.submit_by_thread();
    ring.wait(1);
    const auto over = told(101);
    ASSERT_THAT(over, SizeIs(1));
    EXPECT_NE(over[0].submitter, std::uint32_t(::gettid()));
    EXPECT_NE(over[0].submitter, 0u);
    EXPECT_LT(over[0].duration_ns, NO_DURATION);
}

TEST_F(RequestsInKernel, OfManyCompletionsEachIsTold) {
    Ring ring(8);
    const int event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ring.put({.opcode = IORING_OP_POLL_ADD,
              .fd = event,
              .len = IORING_POLL_ADD_MULTI,
              .op_flags = POLLIN,
              .user_data = 111});
    ASSERT_EQ(ring.submit(1, 0), 1);
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(::eventfd_write(event, 1), 0);
        ring.wait(1);
        ring.take();
        eventfd_t value = 0;
        ::eventfd_read(event, &value);
    }
    const auto over = told(111);
    ASSERT_THAT(over, SizeIs(3));
    for (const auto &one : over)
        EXPECT_TRUE(one.code & REQUEST_MORE);
    EXPECT_THAT(in_flight(111), SizeIs(1)) << "it goes on";
    EXPECT_TRUE(over[0].code & REQUEST_NAMELESS);
    ::close(event);
}

TEST_F(RequestsInKernel, WithoutACompletionAreToldAsSuch) {
    Ring ring(8);
    ring.put({.opcode = IORING_OP_NOP, .flags = IOSQE_CQE_SKIP_SUCCESS, .user_data = 121});
    ASSERT_EQ(ring.submit(1, 0), 1);
    const auto over = told(121);
    ASSERT_THAT(over, SizeIs(1));
    EXPECT_TRUE(over[0].code & REQUEST_SILENT);
    EXPECT_EQ(over[0].duration_ns, IN_FLIGHT);
    EXPECT_THAT(in_flight(121), IsEmpty());
}

// Of a chain in which one is silent, the others may end without a completion.
TEST_F(RequestsInKernel, InAChainWithASilentOneAreInDoubt) {
    Ring ring(8);
    ring.put({.opcode = IORING_OP_NOP, .flags = IOSQE_CQE_SKIP_SUCCESS, .user_data = 131});
    ASSERT_EQ(ring.submit(1, 0), 1);
    const auto doubtful = [&] {
        const auto process = recorder->process(static_cast<std::uint32_t>(::getpid()));
        return process ? process->requests_doubtful : ~0ull;
    };
    const auto before = doubtful();
    ring.put({.opcode = IORING_OP_NOP, .flags = IOSQE_CQE_SKIP_SUCCESS | IOSQE_IO_LINK, .user_data = 132});
    ring.put({.opcode = IORING_OP_NOP, .user_data = 133});
    ASSERT_EQ(ring.submit(2, 1), 2);
    EXPECT_EQ(before, 0u);
    EXPECT_GT(doubtful(), before);
}

// Its first completion says that another one will follow, of the kernel's own notification.
TEST_F(RequestsInKernel, ThatSendWithoutCopyingEnd) {
    Ring ring(8);
    const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int sending = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    ASSERT_EQ(::bind(listening, reinterpret_cast<sockaddr *>(&address), length), 0);
    ASSERT_EQ(::listen(listening, 1), 0);
    ASSERT_EQ(::getsockname(listening, reinterpret_cast<sockaddr *>(&address), &length), 0);
    ASSERT_EQ(::connect(sending, reinterpret_cast<sockaddr *>(&address), length), 0);
    const int receiving = ::accept(listening, nullptr, nullptr);
    char bytes[] = "hello";
    ring.put({.opcode = IORING_OP_SEND_ZC, .fd = sending, .addr = std::uint64_t(bytes), .len = 5, .user_data = 141});
    ASSERT_EQ(ring.submit(1, 1), 1);
    ASSERT_EQ(::read(receiving, bytes, 5), 5);
    ring.wait(2);
    const auto over = told(141);
    ASSERT_THAT(over, SizeIs(2));
    EXPECT_EQ(over[0].result, 5);
    EXPECT_EQ(over[0].fd, sending);
    EXPECT_TRUE(over[0].code & REQUEST_MORE);
    EXPECT_THAT(in_flight(141), IsEmpty());
    for (const int fd : {listening, sending, receiving})
        ::close(fd);
}

// So many that they fill segments, and between calls: the ledger of calls adds up all the same.
TEST_F(RequestsInKernel, TakeNoCallFromTheLedger) {
    Ring ring(64);
    constexpr int rounds = 200, each = 16;
    std::uint64_t next = 1'000'000;
    for (int i = 0; i < rounds; ++i) {
        for (int k = 0; k < each; ++k)
            ring.put({.opcode = IORING_OP_NOP, .user_data = next++});
        ASSERT_EQ(ring.submit(each, each), each);
        ring.take(each);
        ::getppid();
    }
    const auto tid = static_cast<std::uint32_t>(::gettid());
    for (const auto slot : recorder->slots_of(self())) {
        const auto header = recorder->header(slot);
        if (header.tid != tid)
            continue;
        const auto rings = recorder->read(slot, header.generation, all_of_them);
        ASSERT_TRUE(rings);
        std::uint64_t last = 0, seen = 0;
        for (const auto &request : rings->requests) {
            if (request.user_data < 1'000'000)
                continue;
            EXPECT_EQ(request.user_data, seen ? last + 1 : request.user_data);
            last = request.user_data;
            ++seen;
        }
        EXPECT_EQ(last, next - 1);
        EXPECT_EQ(rings->slot.requests_unkept, 0u);
        const auto enters = std::ranges::count(rings->syscalls, SYS_io_uring_enter, &bpf::syscall_record::nr);
        const auto parents = std::ranges::count(rings->syscalls, SYS_getppid, &bpf::syscall_record::nr);
        EXPECT_GE(enters, parents);
        EXPECT_GT(parents, 0);
        EXPECT_EQ(seen, rounds * each) << "of " << header.segments << " segments";
        return;
    }
    FAIL() << "this thread is not recorded";
}

} // namespace
} // namespace incident::daemon
