#include "daemon/write/analyst.h"

#include "capture/os/dir_at.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace incident::daemon {

namespace {

constexpr int patience_ms = 60'000;
constexpr std::uint64_t answer_max = 512u << 20;
constexpr int low_priority = 15;

// Starts program with its standard output in `output`; everything else is /dev/null.
Result<pid_t> start(const std::string &program, const std::string &state, const std::string &bundle, int output) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    const char *argv[] = {program.c_str(), "--state", state.c_str(), "analyse", "--stream", bundle.c_str(), nullptr};
    pid_t child = 0;
    const int error = posix_spawn(&child, program.c_str(), &actions, &attributes, const_cast<char **>(argv), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        return fail(Error::system("cannot start " + program, error));
    return child;
}

// Where memory runs out, also within the service's own limit, an explanation is what can be done without.
bool first_for_memory(pid_t child) {
    const UniqueFd file(::open(fmt::format("/proc/{}/oom_score_adj", child).c_str(), O_WRONLY | O_CLOEXEC));
    return file && ::write(file.get(), "1000", 4) == 4;
}

bool is_program(const std::string &path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

} // namespace

std::string Analyst::find_program() {
    char self[4096];
    const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
    const std::string own(self, length > 0 ? static_cast<std::size_t>(length) : 0);
    const std::string directory = own.substr(0, own.rfind('/'));
    for (const std::string &path : {directory + "/incidentctl", directory + "/../postmortem/incidentctl",
                                    directory + "/../bin/incidentctl", std::string("/usr/bin/incidentctl")})
        if (is_program(path))
            return path;
    return "";
}

Analyst::Analyst(std::string program, std::string state, Deliver deliver)
    : program_(std::move(program)), state_(std::move(state)), deliver_(std::move(deliver)),
      stop_fd_(::eventfd(0, EFD_CLOEXEC)), thread_([this] { run(); }) {}

Analyst::~Analyst() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    ::eventfd_write(stop_fd_.get(), 1);
    work_.notify_one();
    thread_.join();
}

bool Analyst::submit(std::string bundle) {
    const std::lock_guard lock(mutex_);
    if (program_.empty() || queue_.size() >= queue_limit) {
        ++counters_.passed_over;
        return false;
    }
    queue_.push_back(std::move(bundle));
    work_.notify_one();
    return true;
}

std::size_t Analyst::pending() const {
    const std::lock_guard lock(mutex_);
    return queue_.size() + (busy_ ? 1 : 0);
}

AnalystCounters Analyst::counters() const {
    const std::lock_guard lock(mutex_);
    return counters_;
}

void Analyst::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        work_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (stop_)
            return;
        const std::string bundle = std::move(queue_.front());
        queue_.pop_front();
        busy_ = true;
        lock.unlock();
        auto analysis = analyse(bundle);
        deliver_(bundle, analysis ? std::optional(std::move(*analysis)) : std::nullopt);
        lock.lock();
        busy_ = false;
        if (stop_)
            return;
        if (!analysis)
            spdlog::warn("{}: not analysed: {}", bundle, analysis.error().what);
        ++(analysis ? counters_.done : counters_.failed);
    }
}

Result<capture::BundleAnalysis> Analyst::analyse(const std::string &bundle) {
    const UniqueFd output(::memfd_create("analysis", MFD_CLOEXEC));
    if (!output)
        return fail(Error::system("memfd_create"));
    const auto child = start(program_, state_, bundle, output.get());
    if (!child)
        return fail(child.error());
    // Before it gets far; its threads and children inherit them.
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(*child), low_priority);
    if (!first_for_memory(*child))
        spdlog::debug("{}", Error::system(bundle + ": analysed at incidentd's own oom_score_adj").what);
    const rlimit answer{answer_max, answer_max};
    ::prlimit(*child, RLIMIT_FSIZE, &answer, nullptr);

    const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, *child, 0)));
    const int no_handle = handle ? 0 : errno;
    pollfd waiting[] = {{handle.get(), POLLIN, 0}, {stop_fd_.get(), POLLIN, 0}};
    const int ready = handle ? capture::retry([&] { return ::poll(waiting, std::size(waiting), patience_ms); }) : -1;
    const bool ended = handle && ready > 0 && waiting[0].revents;
    if (!ended)
        ::kill(-*child, SIGKILL); // it leads a group of its own: what it started ends with it
    int status = 0;
    capture::retry([&] { return ::waitpid(*child, &status, 0); });
    if (!handle)
        return fail(Error::system("pidfd_open", no_handle));
    if (!ended)
        return fail(ready == 0 ? fmt::format("it took more than {} s", patience_ms / 1000) : "incidentd is stopping");
    if (WIFSIGNALED(status))
        return fail(fmt::format("the analysing program was killed by signal {}", WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        return fail(fmt::format("the analysing program failed; incidentctl analyse {} says why", bundle));
    struct stat size {};
    if (::fstat(output.get(), &size) != 0)
        return fail(Error::system("memfd"));
    std::string answer_bytes(static_cast<std::size_t>(size.st_size), '\0');
    if (auto read = capture::read_all_at(output.get(), 0, answer_bytes); !read)
        return fail(std::move(read.error()).in("memfd"));
    return capture::parse_analysis_stream(std::move(answer_bytes));
}

} // namespace incident::daemon
