#include "daemon/write/analysis_process.h"

#include "capture/os/dir_at.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <utility>

namespace incident::daemon {

namespace {

constexpr std::uint64_t answer_max = 512u << 20;
constexpr int low_priority = 15, patience_with_killed_ms = 3000;

struct ToolRequest {
    bool ends = false;
    std::array<char, 256> bundle{};
};

// Starts program with its standard output in `output`; everything else is /dev/null.
Result<pid_t> spawn(const std::string &program, const std::string &state, const char *bundle, int output) {
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
    const char *argv[] = {program.c_str(), "--state", state.c_str(), "analyse", "--stream", bundle, nullptr};
    pid_t child = 0;
    const int error = posix_spawn(&child, program.c_str(), &actions, &attributes, const_cast<char **>(argv), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        return fail(Error::system("cannot start " + program, error));
    return child;
}

// In the process that starts the tool.
class Tool {
public:
    Tool(std::string program, std::string state) : program_(std::move(program)), state_(std::move(state)) {}

    Servant::Answer begin(const char *bundle, const UniqueFd &output) {
        if (hangs_) {
            if (::waitpid(child_, nullptr, WNOHANG) == 0)
                return fail("the program that analysed an earlier incident still hangs in the kernel");
            child_ = 0;
            hangs_ = false;
        }
        if (child_ != 0)
            return fail("the tool runs already");
        const auto child = spawn(program_, state_, bundle, output.get());
        if (!child)
            return fail(child.error());
        child_ = *child;
        // Before it gets far; its threads and children inherit them.
        ::setpriority(PRIO_PROCESS, static_cast<id_t>(child_), low_priority);
        const rlimit answer{answer_max, answer_max};
        ::prlimit(child_, RLIMIT_FSIZE, &answer, nullptr);
        std::vector<UniqueFd> files;
        files.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, child_, 0)));
        if (!files.back()) {
            const int error = errno;
            (void)end();
            return fail(Error::system("a pidfd of the tool", error));
        }
        return files;
    }

    Servant::Answer end() {
        if (child_ == 0 || hangs_)
            return fail("no tool runs");
        siginfo_t info{};
        const bool ended =
            ::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
        if (!ended)
            ::kill(-child_, SIGKILL); // it leads a group of its own: what it started ends with it
        // A read from a dead file system may last beyond SIGKILL, and this process is not to wait as long.
        int status = 0;
        for (int waited = 0; ::waitpid(child_, &status, WNOHANG) == 0; ++waited) {
            if (waited == patience_with_killed_ms) {
                hangs_ = true;
                return fail("the analysing program was killed and does not end: it hangs in the kernel");
            }
            ::usleep(1000);
        }
        child_ = 0;
        if (WIFSIGNALED(status))
            return fail(fmt::format("the analysing program was killed by signal {}", WTERMSIG(status)));
        if (WEXITSTATUS(status) != 0)
            return fail("the analysing program failed");
        return std::vector<UniqueFd>{};
    }

private:
    std::string program_, state_;
    pid_t child_ = 0;
    bool hangs_ = false; // the child has been killed and is still there
};

// What is forked while it lives is not spared as this process is (OOMScoreAdjust=), if memory runs out: it counts as
// any other.  More than that would have the kernel kill a process that takes next to nothing before one that takes all.
class NotSparedForMemory {
public:
    NotSparedForMemory() {
        char text[16] = {};
        const UniqueFd now(::open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC));
        if (!now || ::read(now.get(), text, sizeof(text) - 1) <= 0 || *text != '-')
            return; // it is not spared
        file_ = UniqueFd(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
        if (file_ && ::pwrite(file_.get(), "0", 1, 0) == 1)
            before_ = text;
        else
            spdlog::warn("{}", Error::system("incidents are analysed at incidentd's own oom_score_adj").what);
    }
    ~NotSparedForMemory() {
        if (!before_.empty() && ::pwrite(file_.get(), before_.data(), before_.size(), 0) < 0)
            spdlog::error("{}", Error::system("taking oom_score_adj back").what);
    }
    NotSparedForMemory(const NotSparedForMemory &) = delete;
    NotSparedForMemory &operator=(const NotSparedForMemory &) = delete;

private:
    UniqueFd file_;
    std::string before_;
};

} // namespace

Result<std::unique_ptr<AnalysisProcess>> AnalysisProcess::start(const std::string &program, const std::string &state) {
    const Servant::Role role{.name = "incidentd-tool",
                             .capabilities = {CAP_DAC_READ_SEARCH, CAP_KILL, CAP_SETUID, CAP_SETGID},
                             .connects = false,
                             .needs = nullptr,
                             .request_bytes = sizeof(ToolRequest),
                             .patience = std::chrono::seconds(10)};
    const NotSparedForMemory meanwhile;
    auto tool = std::make_shared<Tool>(program, state);
    auto servant = Servant::start(role, [tool](std::span<const char> bytes, const UniqueFd &file, bool &) {
        ToolRequest request;
        std::memcpy(static_cast<void *>(&request), bytes.data(), sizeof(request));
        request.bundle.back() = '\0';
        return request.ends ? tool->end() : tool->begin(request.bundle.data(), file);
    });
    if (!servant)
        return fail(servant.error());
    return std::unique_ptr<AnalysisProcess>(new AnalysisProcess(std::move(*servant)));
}

Result<UniqueFd> AnalysisProcess::begin(const std::string &bundle, int output) {
    ToolRequest request;
    if (bundle.size() >= request.bundle.size())
        return fail("the name of the bundle is too long");
    bundle.copy(request.bundle.data(), bundle.size());
    auto begun = servant_->ask({reinterpret_cast<const char *>(&request), sizeof(request)}, output);
    if (!begun)
        return fail(begun.error());
    if (begun->empty())
        return fail("no descriptor came for the tool");
    return std::move(begun->front());
}

Status AnalysisProcess::end() {
    const ToolRequest request{.ends = true};
    if (const auto ended = servant_->ask({reinterpret_cast<const char *>(&request), sizeof(request)}); !ended)
        return fail(ended.error());
    return {};
}

} // namespace incident::daemon
