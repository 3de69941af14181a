// The victim `slow` (tests/victims/slow.cpp), which waits at its start and at its end.
#pragma once

#include "capture/os/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace incident::daemon::test {

constexpr std::uint64_t ms = 1'000'000;

// INCIDENTD_VICTIMS: where the victims are, if not where they were built.
inline const std::string &slow_path() {
    static const std::string path = [] {
        const char *folder = std::getenv("INCIDENTD_VICTIMS");
        return folder ? std::string(folder) + "/slow" : std::string(VICTIM_SLOW);
    }();
    return path;
}

class Victim {
public:
    explicit Victim(std::vector<std::string> arguments) {
        int in[2], out[2];
        if (::pipe2(in, O_CLOEXEC) || ::pipe2(out, O_CLOEXEC))
            ::abort();
        pid_ = ::fork();
        if (pid_ == 0) {
            ::dup2(in[0], 0);
            ::dup2(out[1], 1);
            std::vector<char *> argv{const_cast<char *>(slow_path().c_str())};
            for (auto &argument : arguments)
                argv.push_back(argument.data());
            argv.push_back(nullptr);
            ::execv(slow_path().c_str(), argv.data());
            ::_exit(127);
        }
        in_ = UniqueFd(in[1]);
        out_ = UniqueFd(out[0]);
        ::close(in[0]);
        ::close(out[1]);
    }
    ~Victim() { finish(); }

    void go() { EXPECT_EQ(::write(in_.get(), "\n", 1), 1); }
    std::string wait_for_line() {
        std::string line;
        for (char c = 0; ::read(out_.get(), &c, 1) == 1 && c != '\n';)
            line += c;
        return line;
    }
    std::string run() {
        go();
        return wait_for_line();
    }
    void finish() {
        if (pid_ <= 0)
            return;
        in_.reset();
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
    std::uint32_t pid() const { return static_cast<std::uint32_t>(pid_); }

private:
    pid_t pid_ = -1;
    UniqueFd in_, out_;
};

} // namespace incident::daemon::test
