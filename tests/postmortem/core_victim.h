// A program of three threads, compiled here and stopped by gdb where it dies, with a full core of it.
#pragma once

#include "postmortem/image/crash_image.h"

#include <filesystem>
#include <string>

namespace incident::postmortem::test {

struct Output {
    int code = -1;
    std::string out, err;
};

class CoreVictim {
public:
    // flags: of gcc.  What went wrong, if anything, is in problem().
    explicit CoreVictim(const std::string &flags);
    ~CoreVictim();
    CoreVictim(const CoreVictim &) = delete;
    CoreVictim &operator=(const CoreVictim &) = delete;

    const std::string &problem() const { return problem_; }
    const std::filesystem::path &dir() const { return dir_; }
    std::string exe() const { return (dir_ / "victim").string(); }
    std::string core() const { return (dir_ / "core").string(); }
    CrashImage image() const;
    // A shell command, run in dir().
    Output run(const std::string &command) const;

private:
    std::filesystem::path dir_;
    std::string problem_;
};

} // namespace incident::postmortem::test
