// An io_uring made by hand: no library between what a test asks for and what the kernel gets.
#pragma once

#include <linux/io_uring.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

namespace incident::daemon {

class Ring {
public:
    struct Entry {
        std::uint8_t opcode = IORING_OP_NOP, flags = 0;
        int fd = -1;
        std::uint64_t off = 0, addr = 0;
        std::uint32_t len = 0, op_flags = 0;
        std::uint64_t user_data = 0;
    };

    explicit Ring(unsigned entries, unsigned flags = 0) {
        io_uring_params params{};
        params.flags = flags;
        params.sq_thread_idle = 1000; // ms
        fd_ = static_cast<int>(::syscall(SYS_io_uring_setup, entries, &params));
        if (fd_ < 0)
            return;
        params_ = params;
        const std::size_t queue = params.sq_off.array + params.sq_entries * sizeof(unsigned);
        const std::size_t answers = params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe);
        submitted_ = map(queue, IORING_OFF_SQ_RING);
        completed_ = map(answers, IORING_OFF_CQ_RING);
        entries_ = reinterpret_cast<io_uring_sqe *>(map(params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    }
    Ring(const Ring &) = delete;
    Ring &operator=(const Ring &) = delete;
    ~Ring() {
        if (fd_ >= 0)
            ::close(fd_);
    }
    bool valid() const { return fd_ >= 0; }
    int fd() const { return fd_; }

    void put(const Entry &entry) {
        std::atomic_ref<unsigned> tail(at(submitted_, params_.sq_off.tail));
        const unsigned index = tail.load() & (params_.sq_entries - 1);
        io_uring_sqe &sqe = entries_[index];
        std::memset(&sqe, 0, sizeof(sqe));
        sqe.opcode = entry.opcode;
        sqe.flags = entry.flags;
        sqe.fd = entry.fd;
        sqe.off = entry.off;
        sqe.addr = entry.addr;
        sqe.len = entry.len;
        sqe.rw_flags = static_cast<int>(entry.op_flags);
        sqe.user_data = entry.user_data;
        (&at(submitted_, params_.sq_off.array))[index] = index;
        tail.store(tail.load() + 1, std::memory_order_release);
    }
    int submit(unsigned count, unsigned wanted) {
        return static_cast<int>(
            ::syscall(SYS_io_uring_enter, fd_, count, wanted, wanted ? IORING_ENTER_GETEVENTS : 0, nullptr, 0));
    }
    void submit_by_thread() { ::syscall(SYS_io_uring_enter, fd_, 0, 0, IORING_ENTER_SQ_WAKEUP, nullptr, 0); }
    int wait(unsigned wanted) {
        return static_cast<int>(::syscall(SYS_io_uring_enter, fd_, 0, wanted, IORING_ENTER_GETEVENTS, nullptr, 0));
    }
    void take(unsigned count = 1) {
        std::atomic_ref<unsigned> head(at(completed_, params_.cq_off.head));
        head.store(head.load() + count, std::memory_order_release);
    }

private:
    std::uint8_t *map(std::size_t bytes, off_t what) const {
        return static_cast<std::uint8_t *>(
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, what));
    }
    static unsigned &at(std::uint8_t *base, unsigned offset) { return *reinterpret_cast<unsigned *>(base + offset); }

    int fd_ = -1;
    io_uring_params params_{};
    std::uint8_t *submitted_ = nullptr, *completed_ = nullptr; // leaked with the process: tests make few
    io_uring_sqe *entries_ = nullptr;
};

} // namespace incident::daemon
