#include "capture/collect/collectors.h"
#include "capture/os/kernel_log.h"
#include "capture/os/proc_file.h"

#include <fcntl.h>

#include <algorithm>

namespace incident::capture {

namespace {

Collector file(const OsRoots &os, const char *path, const CollectLimits &limits) {
    const std::string full = os.proc + "/" + path;
    return {path, [full, path, cap = limits.file_cap](const Deadline &deadline) {
                auto text = read_proc_file(AT_FDCWD, full.c_str(), cap, [&] { return deadline.passed(); });
                if (!text)
                    return Outcome{false, text.error().what, {}};
                Outcome outcome{true, text->cut ? "cut at " + std::to_string(text->bytes.size()) + " bytes" : "", {}};
                outcome.files.emplace_back(std::string("host/") + path, std::move(text->bytes));
                return outcome;
            }};
}

Outcome collect_kernel_log(const std::string &device, std::chrono::microseconds since, std::uint64_t cap,
                           const Deadline &deadline) {
    KernelLog log(since, cap);
    const auto overwritten = read_kernel_log(device, log, [&] { return deadline.passed(); });
    Outcome outcome{overwritten.has_value(), overwritten ? "" : overwritten.error().what, {}};
    if (log.cut())
        outcome.error = "cut: the newest " + std::to_string(cap) + " bytes";
    if (overwritten && *overwritten > 0)
        outcome.error += std::string(outcome.error.empty() ? "" : "; ") + "records overwritten while they were read";
    // What was read before an error is still worth having.
    if (std::string text = log.text(); overwritten || !text.empty())
        outcome.files.emplace_back("host/kernel_log", std::move(text));
    return outcome;
}

} // namespace

// The order: figures of this instant first, what hardly changes last.
void collect_host(const OsRoots &os, std::chrono::seconds log, const CollectLimits &limits, Collected &into) {
    std::vector<Collector> collectors;
    for (const char *path : {"meminfo", "pressure/memory", "pressure/cpu", "pressure/io", "loadavg", "vmstat",
                             "buddyinfo", "uptime", "version"})
        collectors.push_back(file(os, path, limits));
    const auto from = kernel_log_since(MonotonicTime::now(), std::max(log, std::chrono::seconds(0)));
    collectors.push_back({"kernel_log", [device = os.dev_kmsg, from, cap = limits.file_cap](const Deadline &deadline) {
                              return collect_kernel_log(device, from, cap, deadline);
                          }});
    run_collectors({}, std::move(collectors), {}, limits.deadline, into);
}

} // namespace incident::capture
