#include "capture/collect/collect_memory.h"

#include "capture/collect/collectors.h"
#include "capture/os/page_size.h"
#include "capture/os/process_dir.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

namespace incident::capture {

namespace {

constexpr std::uint64_t red_zone = 128;                                  // psABI x86-64 3.2.2
constexpr std::uint64_t user_low = 4096, user_high = 0x00007ffffffff000; // TASK_SIZE_MAX

struct Reading {
    std::uint32_t tid = 0;
    bpf::user_registers regs{};
    std::uint32_t wanted = 0;
    std::uint64_t stack_address = 0;
    std::vector<std::uint8_t> stack;
    bpf::memory_window window[REGISTER_WINDOWS]{};
    bool done = false;
};

struct Job {
    UniqueFd memory;
    std::vector<Reading> readings;
};

// /proc/PID/mem of that very process and program; the descriptor stays with their memory, whoever gets the pid next and
// whatever the process executes next.
Result<UniqueFd> open_memory(const OsRoots &os, const ProcessRef &process, const Program &program) {
    auto dir = ProcessDir::open(os, process.pid);
    if (!dir)
        return fail(dir.error());
    UniqueFd memory(::openat(dir->fd(), "mem", O_RDONLY | O_CLOEXEC));
    if (!memory)
        return fail(Error::system("opening /proc/PID/mem"));
    const auto stat = dir->stat();
    if (!stat)
        return fail(stat.error());
    if (!process.is(*stat))
        return fail("the pid is another process's now");
    if (!program.may_be(program_of(*stat)))
        return fail("the process has executed another program since");
    return memory;
}

// As many bytes as are there, page by page where a read fails half way.
std::size_t read_at(int memory, std::uint64_t address, std::uint8_t *into, std::size_t size) {
    const ssize_t got = ::pread(memory, into, size, static_cast<off_t>(address));
    return got > 0 ? static_cast<std::size_t>(got) : 0;
}

void read_window(int memory, std::uint64_t pointer, std::uint8_t which, bpf::memory_window &window) {
    constexpr std::size_t half = WINDOW_LEN / 2;
    window.which = which;
    window.address = pointer - half;
    if (pointer < user_low || pointer >= user_high)
        return;
    const std::size_t before = read_at(memory, pointer - half, window.bytes, half);
    std::size_t from = before == half ? half : 0;
    if (from == 0)
        window.address = pointer; // the page before is absent
    const std::size_t after = read_at(memory, pointer, window.bytes + from, half);
    window.length = static_cast<__u16>(from + after);
    window.status = window.length == WINDOW_LEN ? bpf::WINDOW_READ
                    : window.length             ? bpf::WINDOW_PARTIAL
                                                : bpf::WINDOW_ABSENT;
}

void read_thread(int memory, Reading &reading) {
    const bpf::user_registers &r = reading.regs;
    if (r.sp < user_low || r.sp >= user_high)
        return;
    reading.stack_address = (r.sp - red_zone) & ~(page_size - 1);
    reading.stack.resize(reading.wanted);
    std::size_t got = read_at(memory, reading.stack_address, reading.stack.data(), reading.stack.size());
    reading.stack.resize(got);
    // In the order of capture.bpf.h; the numbers are indices into user_registers.
    const std::pair<std::uint64_t, std::uint8_t> pointers[REGISTER_WINDOWS] = {
        {r.r15, 0}, {r.r14, 1}, {r.r13, 2}, {r.r12, 3}, {r.bp, 4},  {r.bx, 5},  {r.r11, 6}, {r.r10, 7}, {r.r9, 8},
        {r.r8, 9},  {r.ax, 10}, {r.cx, 11}, {r.dx, 12}, {r.si, 13}, {r.di, 14}, {r.sp, 19}, {r.ip, 16}};
    for (std::size_t i = 0; i < REGISTER_WINDOWS; ++i)
        read_window(memory, pointers[i].first, pointers[i].second, reading.window[i]);
}

} // namespace

void collect_memory(const OsRoots &os, const Subject &subject, const Program &program,
                    std::vector<ThreadSnapshot> &threads, std::chrono::milliseconds deadline, Collected &into) {
    const auto begin = Clock::now();
    CollectorResult result{"memory", false, "", 0};
    auto job = std::make_shared<Job>();
    for (const ThreadSnapshot &thread : threads)
        if (thread.event && thread.event->role == bpf::ROLE_LIVING && thread.event->regs.ip)
            job->readings.push_back({thread.tid, thread.event->regs, thread.event->stack_wanted, 0, {}, {}, false});
    if (job->readings.empty())
        return;
    if (auto opened = open_memory(os, subject.process, program); !opened)
        result.error = opened.error().what;
    else
        job->memory = std::move(*opened);
    if (result.error.empty()) {
        const Ran ran = run_bounded(
            subject,
            [job] {
                for (Reading &reading : job->readings) {
                    read_thread(job->memory.get(), reading);
                    reading.done = true;
                }
            },
            begin + deadline);
        if (ran == Ran::Done) {
            result.ok = true;
            for (Reading &reading : job->readings) {
                auto thread = std::ranges::find(threads, reading.tid, &ThreadSnapshot::tid);
                thread->stack = std::move(reading.stack);
                thread->event->stack_address = reading.stack_address;
                thread->event->stack_length = static_cast<__u32>(thread->stack.size());
                std::ranges::copy(reading.window, thread->event->window);
            }
        } else {
            result.error = ran == Ran::Late ? "the process's memory could not be read in time (its mmap_lock is held)"
                                            : "too many earlier reads still hang";
        }
    }
    result.us =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
    into.results.push_back(std::move(result));
}

} // namespace incident::capture
