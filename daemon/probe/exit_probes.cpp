#include "daemon/probe/exit_probes.h"

#include "capture/collect/collectors.h"
#include "capture/os/unique_fd.h"
#include "daemon/os/clocks.h"
#include "daemon/probe/overdue.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

namespace incident::daemon {

namespace {

// Where distributions keep what nearly every program maps: known before a process has mapped it, its places are
// probed from the process's first instruction on.
constexpr std::array<const char *, 5> library_directories = {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
                                                             "/lib64", "/usr/lib64", "/usr/lib"};
constexpr std::array<const char *, 4> common_libraries = {"libgcc_s.so.1", "libc.so.6", "libunwind.so.1",
                                                          "ld-linux-x86-64.so.2"};

// By the name of its file: others need not be read for it.
bool is_loader(std::string_view path) {
    const std::string_view name = path.substr(path.rfind('/') + 1);
    return name.starts_with("ld-") || name.starts_with("ld.so") || name == "libc.so"; // musl's is both
}

constexpr std::chrono::milliseconds patience{200};

struct Look {
    capture::Maps maps; // empty: they could not be read
    std::optional<std::uint64_t> word;
};

// What the process has mapped, and the word at the address.  A process that hangs with its mmap_lock held hangs its
// reader, and one that hangs is what is looked at here.
Look look_at_process(const capture::OsRoots &os, std::uint32_t pid, std::uint64_t address) {
    const auto seen = std::make_shared<Look>();
    const auto ran = capture::run_bounded(
        capture::subject_of(os, pid),
        [seen, os, pid, address] {
            seen->maps = mappings_of(os, pid);
            const UniqueFd memory(::open(fmt::format("{}/{}/mem", os.proc, pid).c_str(), O_RDONLY | O_CLOEXEC));
            std::uint64_t word = 0;
            if (memory && ::pread(memory.get(), &word, sizeof(word), static_cast<off_t>(address)) == sizeof(word))
                seen->word = word;
        },
        capture::Clock::now() + patience);
    return ran == capture::Ran::Done ? std::move(*seen) : Look{};
}

} // namespace

ExitProbes::~ExitProbes() {
    want(false, {});
}

void ExitProbes::want(bool everywhere, std::set<std::uint32_t> processes) {
    everywhere_ = everywhere;
    processes_ = std::move(processes);
    if (wanted())
        look_on_host();
    for (auto &[key, file] : files_)
        follow(file);
}

void ExitProbes::turn(bool on) {
    if (std::exchange(on_, on) == on)
        return;
    for (auto &[key, file] : files_)
        follow(file);
}

// Once: a system whose C library is replaced has new files in new processes, which are looked at there.
void ExitProbes::look_on_host() {
    if (std::exchange(host_seen_, true))
        return;
    for (const char *directory : library_directories)
        for (const char *library : common_libraries)
            if (follows_ == Follows::Loads && !is_loader(library)) {
                continue;
            } else if (auto target = open_on_host(fmt::format("{}/{}", directory, library))) {
                const Key key{::gnu_dev_major(target->identity.device), ::gnu_dev_minor(target->identity.device),
                              target->identity.inode};
                know(key, std::move(*target));
            }
}

ExitProbes::File &ExitProbes::know(const Key &key, TargetFile target) {
    const auto found = files_.find(key);
    if (found != files_.end())
        return found->second;
    if (files_.size() >= files_max)
        std::erase_if(files_, [](const auto &known) { return known.second.exits.points.empty(); });
    File file;
    file.path = target.path;
    if (auto exits = find_exits(target.fd.get(), tools_.abilities))
        file.exits = std::move(*exits);
    std::erase_if(file.exits.points, [this](const ExitPoint &point) {
        return (point.role == Recorder::UprobeRole::CodeLoaded) != (follows_ == Follows::Loads);
    });
    if (!file.exits.points.empty())
        file.fd = std::move(target.fd);
    return files_.emplace(key, std::move(file)).first->second;
}

void ExitProbes::look_at(std::uint32_t pid, const capture::Maps &maps) {
    for (const auto &mapping : maps.all()) {
        const Key key{mapping.major, mapping.minor, mapping.inode};
        if (!mapping.is_file() || !mapping.execute || files_.contains(key))
            continue;
        if (follows_ == Follows::Loads && !is_loader(mapping.path))
            continue;
        if (auto target = open_mapped_file(tools_.os, pid, mapping))
            follow(know(key, std::move(*target)));
    }
}

void ExitProbes::look_in(std::uint32_t pid) {
    if (wanted())
        look_at(pid, look_at_process(tools_.os, pid, 0).maps);
}

ExitProbes::Standing ExitProbes::put(File &file, std::optional<std::uint32_t> pid) {
    Standing standing;
    for (const auto &point : file.exits.points) {
        auto link = tools_.kernel.attach(
            point.role, {fmt::format("/proc/self/fd/{}", file.fd.get()), point.offset, {}, pid}, EXIT_PROBE);
        if (!link) {
            if (link.error().code != ESRCH)
                file.refused = link.error().what;
            tools_.detacher.drop(std::move(standing.links));
            return {};
        }
        standing.links.push_back(std::move(*link));
    }
    file.refused.clear();
    standing.since_ns = clock_ns(CLOCK_MONOTONIC);
    return standing;
}

void ExitProbes::drop(Standing &standing) {
    tools_.detacher.drop(std::move(standing.links));
    standing = {};
}

// Puts probes where they are wanted and missing, takes them from where they are not.
void ExitProbes::follow(File &file) {
    if (file.exits.points.empty())
        return;
    if (on_ && everywhere_ && file.everywhere.links.empty())
        file.everywhere = put(file, std::nullopt);
    if ((!on_ || !everywhere_) && !file.everywhere.links.empty())
        drop(file.everywhere);
    for (auto it = file.by_process.begin(); it != file.by_process.end();) {
        const bool kept = on_ && !everywhere_ && processes_.contains(it->first);
        if (!kept)
            drop(it->second);
        it = kept ? std::next(it) : file.by_process.erase(it);
    }
    if (!on_ || everywhere_)
        return;
    for (const auto pid : processes_)
        if (!file.by_process.contains(pid))
            if (auto standing = put(file, pid); !standing.links.empty())
                file.by_process.emplace(pid, std::move(standing));
}

std::string ExitProbes::uncovered(std::uint32_t pid, const capture::Maps &maps, std::uint64_t since_ns) const {
    if (!on_)
        return "exceptions and longjmps are too many to be followed";
    for (const auto &mapping : maps.all()) {
        if (!mapping.is_file() || !mapping.execute)
            continue;
        const auto found = files_.find({mapping.major, mapping.minor, mapping.inode});
        if (found == files_.end())
            return fmt::format("{} could not be read", mapping.path);
        const File &file = found->second;
        if (!file.exits.hidden.empty())
            return fmt::format("{} {}", mapping.path, file.exits.hidden);
        if (file.exits.points.empty())
            continue;
        if (!file.refused.empty())
            return fmt::format("{}: {}", mapping.path, file.refused);
        const auto own = file.by_process.find(pid);
        const std::uint64_t since = own != file.by_process.end() ? own->second.since_ns : file.everywhere.since_ns;
        if (since == 0 || since > since_ns)
            return fmt::format("the call began before exceptions and longjmps of {} were followed", mapping.path);
    }
    return {};
}

std::string ExitProbes::doubt(std::uint32_t tgid, std::uint32_t tid, const bpf::call_frame &frame, bool function) {
    const auto [maps, word] = look_at_process(tools_.os, tgid, frame.sp);
    if (maps.empty())
        return "its mappings could not be read";
    look_at(tgid, maps);
    if (auto why = uncovered(tgid, maps, frame.start_ns); !why.empty())
        return why;
    if (tools_.kernel.switches_stacks(tgid))
        return "its program switches stacks";
    const auto *stack = maps.find(capture::UserAddress(frame.sp));
    if (!stack || !stack->write)
        return "its stack is gone";
    // However it got there: by code that switches stacks and is known to nobody, or in a signal handler on a stack of
    // its own.
    const auto sp = stack_pointer_of(tools_.os, tgid, tid);
    if (sp && maps.find(capture::UserAddress(*sp)) != stack)
        return "its thread is on another stack";
    for (const auto &mapping : maps.all())
        if (const auto found = files_.find({mapping.major, mapping.minor, mapping.inode});
            mapping.is_file() && found != files_.end() && found->second.exits.switches_stacks &&
            !(tid == tgid && stack->path == "[stack]"))
            return fmt::format("{} switches stacks", mapping.path);
    if (!function)
        return {};
    // whatever is called in its place has written its own return address there
    if (!word)
        return "its stack could not be read";
    if (frame.return_address)
        return *word == frame.return_address ? "" : "its return address is gone from the stack";
    const auto *trampoline = maps.find(capture::UserAddress(*word));
    return trampoline && trampoline->path == "[uprobes]" ? "" : "its return address is gone from the stack";
}

} // namespace incident::daemon
