#include "capture/collect/collect_oom.h"

#include "capture/collect/collectors.h"
#include "capture/os/kernel_log.h"
#include "capture/os/lines.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"

#include <fcntl.h>
#include <fmt/format.h>

namespace incident::capture {

namespace {

constexpr std::uint64_t file_cap = 64 << 10, log_cap = 256 << 10;
constexpr std::chrono::milliseconds log_patience{250};

// "…,key=value,…": value up to the next comma.
std::string_view value_of(std::string_view line, std::string_view key) {
    const std::string wanted = "," + std::string(key) + "=";
    const std::size_t at = line.find(wanted);
    if (at == std::string_view::npos)
        return {};
    line.remove_prefix(at + wanted.size());
    return line.substr(0, line.find(','));
}

// "Memory cgroup out of memory: Killed process …": behind the colon (__oom_kill_process(), mm/oom_kill.c).  Other
// lines that may hold these words have them from a name.
std::size_t end_of_oom_message(std::string_view text) {
    const std::size_t colon = text.find(": ");
    const bool ours = text.starts_with("Out of memory") || text.starts_with("Memory cgroup out of memory");
    return ours && colon != std::string_view::npos ? colon + 2 : text.size();
}

// A line of the kernel's own (facility 0), without its head.
std::string_view kernel_text(std::string_view line) {
    const std::size_t open = line.find("] <"), close = line.find("> ", open);
    if (open == std::string_view::npos || close == std::string_view::npos || close - open != 4)
        return {}; // more than one digit: a program wrote it
    return line.substr(close + 2);
}

} // namespace

std::string cgroup_of_process(const OsRoots &os, std::uint32_t pid) {
    const auto text = read_proc_file(AT_FDCWD, fmt::format("{}/{}/cgroup", os.proc, pid).c_str(), file_cap);
    return text ? text->bytes : std::string();
}

void collect_cgroup_memory(const OsRoots &os, std::string_view proc_cgroup, const std::string &directory,
                           Collected &into) {
    if (proc_cgroup.empty())
        return;
    std::vector<std::pair<std::string, std::string>> files;
    const std::string missing = collect_cgroup_files(os, proc_cgroup, file_cap, files);
    constexpr std::string_view prefix = "cgroup/";
    for (auto &[path, bytes] : files) {
        const std::string_view name = std::string_view(path).substr(path.starts_with(prefix) ? prefix.size() : 0);
        if (name.starts_with("memory."))
            into.files[directory + "/" + std::string(name)] = std::move(bytes);
    }
    into.results.push_back({directory, missing.empty(), missing, 0});
}

void read_oom_log(std::string_view log, std::uint32_t pid, OomTrigger &into) {
    const std::string as_victim = fmt::format(",pid={},uid=", pid), as_killed = fmt::format("Killed process {} (", pid);
    for (const std::string_view line : lines_of(log)) {
        const std::string_view text = kernel_text(line);
        // Names of cgroups and programs stand before it, and a user gives her cgroups any.
        const std::size_t victim = text.rfind(",pid=");
        if (text.starts_with("oom-kill:constraint=") && victim != std::string_view::npos &&
            text.substr(victim).starts_with(as_victim)) {
            const std::string_view rest = text.substr(std::string_view("oom-kill:constraint=").size());
            into.constraint = rest.substr(0, rest.find(','));
            into.oom_memcg = value_of(text, "oom_memcg");
            into.task_memcg = value_of(text, "task_memcg");
            into.line = text;
        } else if (const std::size_t at = end_of_oom_message(text); text.substr(at).starts_with(as_killed)) {
            into.killed = text.substr(at);
        }
    }
}

std::string recent_kernel_log(const OsRoots &os, std::chrono::seconds span) {
    KernelLog log(kernel_log_since(MonotonicTime::now(), span), log_cap);
    const Deadline deadline(log_patience); // whoever floods the log does not keep its readers for ever
    (void)read_kernel_log(os.dev_kmsg, log, [&] { return deadline.passed(); });
    return log.text(); // what was read before an error is worth having
}

} // namespace incident::capture
