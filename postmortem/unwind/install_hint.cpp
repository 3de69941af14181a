#include "postmortem/unwind/install_hint.h"

#include "capture/os/lines.h"
#include "capture/os/unique_fd.h"
#include "postmortem/terminal/child.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <map>
#include <poll.h>
#include <unistd.h>

namespace incident::postmortem {

namespace {

constexpr std::chrono::seconds run_time{10};
constexpr std::size_t output_max = 1u << 20; // bytes
constexpr std::size_t paths_max = 256;       // asked about at once
constexpr std::string_view by_debuginfod = "DEBUGINFOD_URLS=https://debuginfod.debian.net incidentctl threads --fresh";

bool lacks_debug_info(const ModuleState &module) {
    return module.on_a_stack && module.path.starts_with('/') &&
           (module.debug.empty() || module.debug == "none" || module.file == "missing");
}

// dpkg-query takes patterns (glob(7)) and prints one answer a line: no path may be more than itself.
bool is_plain(const std::string &path) {
    for (const char c : path)
        if (static_cast<unsigned char>(c) < 0x20 || std::string_view("*?[]\\:,").find(c) != std::string_view::npos)
            return false;
    return true;
}

// With a merged /usr a file is installed under one name and mapped under the other.
std::string other_name(const std::string &path) {
    for (const std::string_view top : {"/lib", "/bin", "/sbin"}) {
        if (path.starts_with(fmt::format("/usr{}", top)))
            return path.substr(4);
        if (path.starts_with(top))
            return "/usr" + path;
    }
    return "";
}

// "libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6", for each path; several packages are parted by ", ".
std::map<std::string, std::string> packages_by_path(std::string_view output) {
    std::map<std::string, std::string> packages;
    for (const std::string_view line : capture::lines_of(output)) {
        const std::size_t end = line.find(": /");
        if (end == std::string_view::npos || line.starts_with("diversion by"))
            continue;
        std::string_view package = line.substr(0, end);
        package = package.substr(0, package.find(','));
        package = package.substr(0, package.find(':')); // without its architecture
        packages.emplace(line.substr(end + 2), package);
    }
    return packages;
}

std::string command_for(const std::string &package) {
    // Some packages' debug symbols are in the main archive, under names of their own.
    if (package == "libc6")
        return "apt install libc6-dbg";
    return fmt::format("apt install {}-dbgsym (needs the debian-debug archive)", package);
}

std::string read_output(int from) {
    const auto deadline = std::chrono::steady_clock::now() + run_time;
    std::string output;
    char chunk[4096];
    while (output.size() < output_max) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd ready{from, POLLIN, 0};
        const int polled = left.count() > 0 ? ::poll(&ready, 1, static_cast<int>(left.count())) : 0;
        if (polled < 0 && errno == EINTR)
            continue;
        const ssize_t n = polled > 0 ? ::read(from, chunk, sizeof chunk) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        output.append(chunk, static_cast<std::size_t>(n));
    }
    return output;
}

} // namespace

std::string run_program(const std::vector<std::string> &argv) {
    int ends[2];
    if (argv.empty() || ::pipe2(ends, O_CLOEXEC) != 0)
        return "";
    const UniqueFd reading(ends[0]);
    UniqueFd writing(ends[1]);
    const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const auto child = spawn(argv, {.input = nothing.get(), .output = writing.get(), .error = nothing.get()});
    if (!child)
        return "";
    writing.reset();
    std::string output = read_output(reading.get());
    ::kill(*child, SIGKILL); // does nothing to one that has ended by itself
    (void)wait_child(*child);
    return output;
}

void add_install_hints(std::vector<ModuleState> &modules, const RunProgram &run) {
    std::vector<std::string> argv{"dpkg-query", "--search", "--"};
    for (const ModuleState &module : modules) {
        if (!lacks_debug_info(module) || !is_plain(module.path) || argv.size() > paths_max)
            continue;
        argv.push_back(module.path);
        if (std::string other = other_name(module.path); !other.empty())
            argv.push_back(std::move(other));
    }
    const auto packages = argv.size() > 3 ? packages_by_path(run(argv)) : std::map<std::string, std::string>();
    for (ModuleState &module : modules) {
        if (!lacks_debug_info(module))
            continue;
        auto found = packages.find(module.path);
        if (found == packages.end())
            found = packages.find(other_name(module.path));
        if (found != packages.end())
            module.install = command_for(found->second);
        else if (!module.build_id.empty())
            module.install = by_debuginfod;
    }
}

} // namespace incident::postmortem
