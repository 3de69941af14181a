#include "daemon/dump/signal_takers.h"

#include "capture/core/core_link.h"
#include "capture/decode/syscalls.h"
#include "capture/os/proc_file.h"
#include "capture/os/proc_stat.h"
#include "capture/os/process_dir.h"
#include "capture/os/unique_fd.h"
#include "daemon/dump/proc_text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

namespace incident::daemon {

namespace {

constexpr std::size_t most_waiters = 4096; // asked what they wait for

std::string_view word_of(std::string_view status, std::string_view key) {
    std::string_view value;
    if (!capture::line_value(status, key, value))
        return {};
    const std::size_t begin = value.find_first_not_of(" \t");
    return begin == std::string_view::npos ? std::string_view() : value.substr(begin);
}

// While a thread is in rt_sigtimedwait(2) the signals it waits for are not blocked, and SigBlk does not say so.
// "128 0xMASK …" (fs/proc/base.c)
bool waits_for(const std::string &thread, int memory, int signal) {
    const std::string call = proc_text(thread + "/syscall");
    char *end = nullptr;
    if (std::strtol(call.c_str(), &end, 10) != SYS_rt_sigtimedwait || end == call.c_str())
        return false;
    const std::uint64_t address = std::strtoull(end, nullptr, 16);
    std::uint64_t mask = 0;
    if (::pread(memory, &mask, sizeof(mask), static_cast<off_t>(address)) != sizeof(mask))
        return true; // for this one, as far as is known
    return mask >> (signal - 1) & 1;
}

std::uint32_t waiting_thread(const std::string &process, int signal) {
    const UniqueFd tasks(::open((process + "/task").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const UniqueFd memory(::open((process + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
    const auto tids = tasks ? capture::numbers_in(tasks.get(), ".") : Result<std::vector<std::uint32_t>>(fail("gone"));
    for (std::size_t i = 0; tids && i < tids->size() && i < most_waiters; ++i)
        if (waits_for(fmt::format("{}/task/{}", process, (*tids)[i]), memory.get(), signal))
            return (*tids)[i];
    return 0;
}

// Of the v2 hierarchy, which may lie beside those of v1, and of v1's controller: "4:freezer:/a", "0::/a".
bool is_frozen(const capture::OsRoots &os, const std::string &process) {
    const std::string groups = proc_text(process + "/cgroup");
    for (std::size_t begin = 0; begin < groups.size();) {
        const std::size_t end = std::min(groups.find('\n', begin), groups.size());
        const std::string_view line = std::string_view(groups).substr(begin, end - begin);
        begin = end + 1;
        const std::size_t path = line.find(":/");
        if (path == std::string_view::npos)
            continue;
        const std::string_view group = line.substr(path + 1);
        if (line.starts_with("0:")) {
            for (const char *root : {"", "/unified"})
                if (word_of(proc_text(fmt::format("{}{}{}/cgroup.events", os.cgroup, root, group)), "frozen") == "1")
                    return true;
        } else if (line.substr(0, path).ends_with(":freezer")) {
            const std::string state = proc_text(fmt::format("{}/freezer{}/freezer.state", os.cgroup, group));
            if (state.starts_with("FR")) // FROZEN, FREEZING
                return true;
        }
    }
    return false;
}

} // namespace

std::string taken_otherwise(const capture::OsRoots &os, std::uint32_t pid, std::string_view status, int signal) {
    const std::string process = fmt::format("{}/{}", os.proc, pid), name = capture::signal_name(signal);
    if (const auto tracer = word_of(status, "TracerPid:"); !tracer.empty() && tracer != "0")
        return fmt::format("process {} traces it and would be given {}: whether it would dump is that one's affair",
                           tracer, name);
    if (word_of(status, "State:").starts_with('T'))
        return fmt::format("it is stopped: {} would wait, and end it when it is continued", name);
    if (is_frozen(os, process))
        return fmt::format("its cgroup is frozen: {} would wait, and end it when it is thawed", name);
    if (const std::uint32_t tid = waiting_thread(process, signal))
        return fmt::format("its thread {} waits for {} (sigwait): it takes it as a message", tid, name);
    return {};
}

} // namespace incident::daemon
