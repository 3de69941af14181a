#include "capture/collect/collect_memory.h"

#include "capture/collect/collectors.h"
#include "capture/os/maps.h"
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
constexpr std::uint64_t present_or_swapped = 3ull << 62;                 // Documentation/admin-guide/mm/pagemap.rst
constexpr std::size_t absent_max = 512;                                  // STACK_ABSENT_MAX of the kernel side

struct Reading {
    std::uint32_t tid = 0;
    bpf::user_registers regs{};
    std::uint32_t wanted = 0;
    std::uint64_t stack_end = 0; // of its mapping; 0: not known
    std::vector<StackPiece> stack;
    bpf::memory_window window[REGISTER_WINDOWS]{};
    bool done = false;
};

struct Job {
    UniqueFd memory, pages; // /proc/PID/mem and pagemap
    std::vector<Reading> readings;
};

// /proc/PID/mem and pagemap of that very process and program; the descriptors stay with their memory, whoever gets the
// pid next and whatever the process executes next.
Status open_memory(const OsRoots &os, const ProcessRef &process, const Program &program, Job &into) {
    auto dir = ProcessDir::open(os, process.pid);
    if (!dir)
        return fail(dir.error());
    UniqueFd memory(::openat(dir->fd(), "mem", O_RDONLY | O_CLOEXEC));
    if (!memory)
        return fail(Error::system("opening /proc/PID/mem"));
    UniqueFd pages(::openat(dir->fd(), "pagemap", O_RDONLY | O_CLOEXEC)); // a kernel may have none
    const auto stat = dir->stat();
    if (!stat)
        return fail(stat.error());
    if (!process.is(*stat))
        return fail("the pid is another process's now");
    if (!program.may_be(program_of(*stat)))
        return fail("the process has executed another program since");
    into.memory = std::move(memory);
    into.pages = std::move(pages);
    return {};
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

// Which of the pages from address up are there; where that cannot be told, all.
std::vector<bool> pages_there(const UniqueFd &pages, std::uint64_t address, std::size_t count) {
    std::vector<std::uint64_t> entries(count);
    const std::size_t size = count * sizeof entries[0];
    if (!pages || ::pread(pages.get(), entries.data(), size,
                          static_cast<off_t>(address / page_size * sizeof entries[0])) != static_cast<ssize_t>(size))
        return std::vector<bool>(count, true);
    std::vector<bool> there(count);
    for (std::size_t i = 0; i < count; ++i)
        there[i] = (entries[i] & present_or_swapped) != 0;
    return there;
}

// The stack's pages that are there, as the kernel side takes those of a thread that dies.  A read of an absent one
// succeeds with zeros, so they are left out here.
void read_stack(const Job &job, Reading &reading) {
    std::uint64_t at = (reading.regs.sp - red_zone) & ~(page_size - 1);
    const std::size_t wanted = (reading.wanted + page_size - 1) / page_size;
    const std::size_t count = reading.stack_end > at
                                  ? std::min<std::uint64_t>((reading.stack_end - at) / page_size, wanted + absent_max)
                                  : wanted;
    std::size_t taken = 0, absent = 0;
    for (const bool there : pages_there(job.pages, at, count)) {
        if (taken == wanted || absent > absent_max)
            return;
        if (there) {
            if (reading.stack.empty() || reading.stack.back().address + reading.stack.back().bytes.size() != at)
                reading.stack.emplace_back().address = at;
            auto &bytes = reading.stack.back().bytes;
            bytes.resize(bytes.size() + page_size);
            const std::size_t got = read_at(job.memory.get(), at, bytes.data() + bytes.size() - page_size, page_size);
            bytes.resize(bytes.size() - page_size + got);
            if (bytes.empty())
                reading.stack.pop_back();
            ++taken;
        } else {
            ++absent;
        }
        at += page_size;
    }
}

void read_thread(const Job &job, Reading &reading) {
    const bpf::user_registers &r = reading.regs;
    if (r.sp < user_low || r.sp >= user_high)
        return;
    read_stack(job, reading);
    // In the order of capture.bpf.h; the numbers are indices into user_registers.
    const std::pair<std::uint64_t, std::uint8_t> pointers[REGISTER_WINDOWS] = {
        {r.r15, 0}, {r.r14, 1}, {r.r13, 2}, {r.r12, 3}, {r.bp, 4},  {r.bx, 5},  {r.r11, 6}, {r.r10, 7}, {r.r9, 8},
        {r.r8, 9},  {r.ax, 10}, {r.cx, 11}, {r.dx, 12}, {r.si, 13}, {r.di, 14}, {r.sp, 19}, {r.ip, 16}};
    for (std::size_t i = 0; i < REGISTER_WINDOWS; ++i)
        read_window(job.memory.get(), pointers[i].first, pointers[i].second, reading.window[i]);
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
    if (const auto text = into.files.find("process/maps"); text != into.files.end()) {
        const Maps maps = Maps::parse(text->second);
        for (Reading &reading : job->readings)
            if (const Mapping *mapping = maps.find(UserAddress(reading.regs.sp)))
                reading.stack_end = mapping->end.value;
    }
    if (auto opened = open_memory(os, subject.process, program, *job); !opened)
        result.error = opened.error().what;
    if (result.error.empty()) {
        const Ran ran = run_bounded(
            subject,
            [job] {
                for (Reading &reading : job->readings) {
                    read_thread(*job, reading);
                    reading.done = true;
                }
            },
            begin + deadline);
        if (ran == Ran::Done) {
            result.ok = true;
            for (Reading &reading : job->readings) {
                auto thread = std::ranges::find(threads, reading.tid, &ThreadSnapshot::tid);
                thread->stack = std::move(reading.stack);
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
