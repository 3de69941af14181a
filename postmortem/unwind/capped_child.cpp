#include "postmortem/unwind/capped_child.h"

#include "capture/os/unique_fd.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <grp.h>
#include <new>
#include <optional>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace incident::postmortem {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uid_t nobody = 65534; // as the kernel's overflowuid
// How it exits, for a signal handler has nothing else to say with: 128 + the signal, as in a shell.
constexpr int exit_signal = 128, exit_memory = 3, exit_exception = 4;
constexpr std::size_t signal_stack_bytes = 64u << 10;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool limit_memory = false; // their shadow is terabytes
#else
constexpr bool limit_memory = true;
#endif

void exit_with_signal(int signal) {
    _exit(exit_signal + signal);
}

// Its crashes are exits: neither a core nor an incident of their own.
void catch_crashes() {
    static char stack[signal_stack_bytes];
    const stack_t alternate{stack, 0, sizeof stack};
    sigaltstack(&alternate, nullptr);
    struct sigaction action {};
    action.sa_handler = exit_with_signal;
    action.sa_flags = SA_ONSTACK | SA_NODEFER;
    for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGXCPU, SIGXFSZ})
        sigaction(number, &action, nullptr);
    action.sa_handler = SIG_DFL;
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
        sigaction(number, &action, nullptr);
    signal(SIGPIPE, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

bool limit(int resource, rlim_t soft, rlim_t hard) {
    rlimit now{};
    getrlimit(static_cast<__rlimit_resource>(resource), &now);
    const rlimit wanted{std::min(soft, now.rlim_max), std::min(hard, now.rlim_max)};
    return setrlimit(static_cast<__rlimit_resource>(resource), &wanted) == 0;
}

std::uint64_t address_space_now() {
    const UniqueFd statm(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
    char text[64] = {};
    if (!statm || ::read(statm.get(), text, sizeof text - 1) <= 0)
        return 0;
    return std::strtoull(text, nullptr, 10) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

bool apply_caps(const ChildCaps &caps) {
    bool ok = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && limit(RLIMIT_CORE, 0, 0) &&
              limit(RLIMIT_FSIZE, caps.file_bytes, caps.file_bytes) &&
              limit(RLIMIT_CPU, caps.cpu_seconds, caps.cpu_seconds + 1) &&
              limit(RLIMIT_NOFILE, caps.descriptors, caps.descriptors);
    if (limit_memory) {
        const std::uint64_t bytes = address_space_now() + caps.memory_bytes;
        ok = ok && limit(RLIMIT_AS, bytes, bytes);
    }
    if (caps.before_drop)
        caps.before_drop();
    if (caps.drop_privileges && geteuid() == 0)
        ok = ok && setgroups(0, nullptr) == 0 && setresgid(nobody, nobody, nobody) == 0 &&
             setresuid(nobody, nobody, nobody) == 0 && limit(RLIMIT_NPROC, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return ok;
}

void write_line(int to, std::string_view line) {
    std::string text(line);
    text += '\n';
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t n = ::write(to, text.data() + done, text.size() - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(exit_exception); // nobody reads any more
        done += static_cast<std::size_t>(n);
    }
}

[[noreturn]] void be_child(const ChildCaps &caps, int answers, pid_t parent,
                           const std::function<void(const AnswerLine &, std::atomic<std::uint32_t> *)> &work,
                           std::atomic<std::uint32_t> *progress) {
    catch_crashes();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(exit_exception);
    if (const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC); null >= 0)
        for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
            if (standard != answers)
                ::dup2(null, standard);
    if (!apply_caps(caps))
        _exit(exit_exception);
    try {
        work([answers](std::string_view line) { write_line(answers, line); }, progress);
    } catch (const std::bad_alloc &) {
        _exit(exit_memory);
    } catch (...) {
        _exit(exit_exception);
    }
    _exit(0);
}

// Reads lines until the end of file, the deadline or the cap; why it stopped early.
std::optional<std::string> read_lines(int from, const ChildCaps &caps, const AnswerLine &on_line) {
    const Clock::time_point deadline = Clock::now() + caps.time;
    std::string pending;
    std::uint64_t total = 0;
    for (std::string chunk(64u << 10, '\0');;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd ready{from, POLLIN, 0};
        const int polled = ::poll(&ready, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, INT32_MAX)));
        if (polled < 0 && errno == EINTR)
            continue;
        if (polled <= 0 || left <= 0)
            return fmt::format("it took more than {} ms", caps.time.count());
        const ssize_t n = ::read(from, chunk.data(), chunk.size());
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return std::nullopt;
        total += static_cast<std::uint64_t>(n);
        if (total > caps.answer_bytes)
            return fmt::format("it answered more than {} bytes", caps.answer_bytes);
        pending.append(chunk, 0, static_cast<std::size_t>(n));
        std::size_t begin = 0;
        for (std::size_t end; (end = pending.find('\n', begin)) != std::string::npos; begin = end + 1)
            on_line(std::string_view(pending).substr(begin, end - begin));
        pending.erase(0, begin);
    }
}

std::string signal_text(int number, const ChildCaps &caps) {
    if (number == SIGXCPU)
        return fmt::format("it took more than {} s of CPU time", caps.cpu_seconds);
    const char *name = sigabbrev_np(number);
    return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

// Past the soft limit comes SIGXCPU; but SIGKILL at once where the clock jumped over both limits between two ticks
// (a virtual machine that was stopped meanwhile).
bool used_up_cpu(const rusage &use, const ChildCaps &caps) {
    return use.ru_utime.tv_sec + use.ru_stime.tv_sec + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1'000'000 >=
           static_cast<time_t>(caps.cpu_seconds);
}

ChildEnd end_of(int status, const rusage &use, const ChildCaps &caps) {
    ChildEnd end;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        end.why = used_up_cpu(use, caps) ? signal_text(SIGXCPU, caps)
                                         : "SIGKILL (it closed its answer, or the system's memory was used up)";
    else if (WIFSIGNALED(status))
        end.why = signal_text(WTERMSIG(status), caps);
    else if (const int code = WEXITSTATUS(status); code == 0)
        end.done = true;
    else if (code > exit_signal)
        end.why = signal_text(code - exit_signal, caps);
    else if (code == exit_memory) {
        end.out_of_memory = true;
        end.why = fmt::format("it needed more than {} MiB of memory", caps.memory_bytes >> 20);
    } else
        end.why = "it could not go on";
    return end;
}

} // namespace

void exit_out_of_memory() {
    _exit(exit_memory);
}

ChildEnd run_capped(const ChildCaps &caps,
                    const std::function<void(const AnswerLine &, std::atomic<std::uint32_t> *)> &work,
                    const AnswerLine &on_line) {
    ChildEnd end;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        end.why = Error::system("no pipe").what;
        return end;
    }
    UniqueFd reading(ends[0]), writing(ends[1]);
    using Shared = std::atomic<std::uint32_t>;
    static_assert(Shared::is_always_lock_free);
    void *memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto *progress = memory == MAP_FAILED ? nullptr : new (memory) Shared(UINT32_MAX);

    const pid_t parent = getpid();
    const pid_t child = ::fork();
    if (child == 0) {
        reading.reset();
        be_child(caps, writing.get(), parent, work, progress);
    }
    if (child < 0) {
        end.why = Error::system("no child process").what;
    } else {
        writing.reset();
        const auto stopped = read_lines(reading.get(), caps, on_line);
        // At the end of its answers it is on its way out, and its status is set; one that only closed the
        // pipe has nothing more to say.
        ::kill(child, SIGKILL);
        int status = 0;
        rusage use{};
        while (::wait4(child, &status, 0, &use) < 0 && errno == EINTR) {
        }
        end = end_of(status, use, caps);
        if (stopped) {
            end.done = false;
            end.why = *stopped;
        }
        if (progress)
            end.progress = progress->load();
    }
    if (progress)
        ::munmap(memory, sizeof(Shared));
    return end;
}

} // namespace incident::postmortem
