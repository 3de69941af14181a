// Victims compiled and crashed under gdb: what a bundle would hold of them, and gdb's own backtrace of the core.
#pragma once

#include "postmortem/image/crash_image.h"
#include "postmortem/unwind/analysis.h"

#include <filesystem>
#include <string>
#include <vector>

namespace incident::postmortem::test {

struct GdbArgument {
    std::string name, value;
};

struct GdbFrame {
    std::uint64_t ip = 0;
    std::string name, kind, file; // kind: "normal", "inline", "signal", "tail"
    unsigned line = 0;
    std::int64_t offset = -1; // of ip in the symbol it lies in; -1 in none
    std::vector<GdbArgument> arguments;
};

struct GdbThread {
    std::uint32_t tid = 0;
    std::vector<GdbFrame> frames;
    std::string end; // why gdb stopped
};

struct Crash {
    CrashImage image;               // as from a bundle
    std::vector<GdbThread> threads; // as gdb sees the core
};

struct CrashOptions {
    std::size_t stack_max = 256u << 10; // bytes of each stack that are captured
    std::vector<std::string> arguments;
    std::vector<std::string> gdb_before; // gdb commands before "run"
    std::string debug_directory;         // another than gdb's own
    std::string through;                 // a program that executes this one: setpriv
    std::vector<std::string> through_arguments;
    std::string input = "/dev/null";
};

class UnwindLab {
public:
    UnwindLab();
    ~UnwindLab();
    const std::filesystem::path &dir() const { return dir_; }

    // Writes the source and compiles it; flags as on a command line.  The compiler's failure fails the test.
    std::filesystem::path compile(const std::string &name, const std::string &source, const std::string &flags);
    Crash crash(const std::filesystem::path &program, const CrashOptions &options = {});
    // Status of sh -c.
    int shell(const std::string &command) const;

private:
    std::filesystem::path dir_;
    int runs_ = 0;
};

// Modules as read_crash_image makes them of /proc/PID/maps.
std::vector<ImageModule> modules_of_maps(const capture::Maps &maps);

// How the frames of one thread agree with gdb's.
struct Agreement {
    std::size_t frames = 0, same = 0; // gdb's frames; those that are the same here
    std::string differences;          // both stacks, side by side; "" where none
    double share() const { return frames ? static_cast<double>(same) / static_cast<double>(frames) : 0; }
};
Agreement compare(const ThreadStack &ours, const GdbThread &gdb);

} // namespace incident::postmortem::test
