#include "postmortem/terminal/child.h"

#include <csignal>
#include <ctime>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace incident::postmortem {

namespace {

sigset_t stop_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
        sigaddset(&set, number);
    return set;
}

sigset_t held_signals() {
    sigset_t set = stop_signals();
    sigaddset(&set, SIGCHLD);
    return set;
}

struct FileActions {
    FileActions() { posix_spawn_file_actions_init(&actions); }
    ~FileActions() { posix_spawn_file_actions_destroy(&actions); }
    posix_spawn_file_actions_t actions;
};

struct Attributes {
    Attributes() { posix_spawnattr_init(&attributes); }
    ~Attributes() { posix_spawnattr_destroy(&attributes); }
    posix_spawnattr_t attributes;
};

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>> &extra) {
    std::vector<std::string> all;
    for (char **entry = environ; *entry; ++entry) {
        const std::string_view text = *entry;
        bool replaced = false;
        for (const auto &[name, value] : extra)
            replaced = replaced || text.starts_with(name + "=");
        if (!replaced)
            all.emplace_back(text);
    }
    for (const auto &[name, value] : extra)
        all.push_back(name + "=" + value);
    return all;
}

std::vector<char *> pointers(std::vector<std::string> &texts) {
    std::vector<char *> result;
    result.reserve(texts.size() + 1);
    for (std::string &text : texts)
        result.push_back(text.data());
    result.push_back(nullptr);
    return result;
}

} // namespace

Result<pid_t> spawn(const std::vector<std::string> &argv, const SpawnOptions &options) {
    FileActions files;
    for (const auto &[from, to] : {std::pair(options.input, STDIN_FILENO), std::pair(options.output, STDOUT_FILENO),
                                   std::pair(options.error, STDERR_FILENO)})
        if (from >= 0)
            posix_spawn_file_actions_adddup2(&files.actions, from, to);
    Attributes attributes;
    sigset_t none, defaults = held_signals();
    sigemptyset(&none);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes.attributes, &none);
    posix_spawnattr_setsigdefault(&attributes.attributes, &defaults);
    posix_spawnattr_setflags(&attributes.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

    std::vector<std::string> arguments = argv;
    std::vector<std::string> environment = environment_with(options.environment);
    pid_t child = -1;
    const int error = posix_spawnp(&child, argv.at(0).c_str(), &files.actions, &attributes.attributes,
                                   pointers(arguments).data(), pointers(environment).data());
    if (error)
        return fail(Error::system("cannot start " + argv[0], error));
    return child;
}

Result<int> wait_child(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return fail(Error::system("cannot wait for a child process"));
    return status;
}

SignalScope::SignalScope() {
    const sigset_t held = held_signals();
    pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

SignalScope::~SignalScope() {
    const sigset_t held = held_signals();
    pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
    if (received_)
        raise(received_);
}

bool SignalScope::interrupted() {
    const sigset_t stop = stop_signals();
    const timespec now{};
    if (const int number = sigtimedwait(&stop, nullptr, &now); number > 0)
        received_ = number;
    return received_ != 0;
}

Result<int> SignalScope::wait(pid_t child) {
    const sigset_t held = held_signals();
    for (;;) {
        int status = 0;
        const pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) {
            // One that came just before the child's end was its own as well.
            sigset_t terminal;
            sigemptyset(&terminal);
            sigaddset(&terminal, SIGINT);
            sigaddset(&terminal, SIGQUIT);
            const timespec now{};
            while (sigtimedwait(&terminal, nullptr, &now) > 0) {
            }
            return status;
        }
        if (ended < 0)
            return fail(Error::system("cannot wait for a child process"));
        const int number = sigwaitinfo(&held, nullptr);
        if (number == SIGTERM || number == SIGHUP) {
            received_ = number;
            kill(child, number);
        }
    }
}

} // namespace incident::postmortem
