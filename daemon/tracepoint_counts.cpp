#include "daemon/tracepoint_counts.h"

#include "daemon/tracefs.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <optional>

namespace incident::daemon {

namespace {

// The number in its `format`: "name: sched_switch\nID: 314\n…".
std::optional<std::uint64_t> id_of(const std::string &category, const std::string &name) {
    const auto format = tracepoint_format(category, name);
    constexpr std::string_view before = "\nID: ";
    const std::size_t at = format ? format->find(before) : std::string::npos;
    std::uint64_t id = 0;
    if (at == std::string::npos ||
        std::from_chars(format->data() + at + before.size(), format->data() + format->size(), id).ec != std::errc())
        return std::nullopt;
    return id;
}

} // namespace

void TracepointCounts::begin(const std::string &category, const std::string &name) {
    auto &counters = counters_[category + ":" + name];
    const auto id = counters.empty() ? id_of(category, name) : std::nullopt;
    if (!id)
        return;
    perf_event_attr what{};
    what.size = sizeof(what);
    what.type = PERF_TYPE_TRACEPOINT;
    what.config = *id;
    const long cpus = ::sysconf(_SC_NPROCESSORS_CONF);
    for (long cpu = 0; cpu < cpus; ++cpu) // one that is offline: ENODEV
        if (UniqueFd counter(static_cast<int>(
                ::syscall(SYS_perf_event_open, &what, -1, static_cast<int>(cpu), -1, PERF_FLAG_FD_CLOEXEC)));
            counter)
            counters.push_back(std::move(counter));
}

std::uint64_t TracepointCounts::hits(const std::string &category, const std::string &name) const {
    std::uint64_t sum = 0, count = 0;
    if (const auto found = counters_.find(category + ":" + name); found != counters_.end())
        for (const auto &counter : found->second)
            if (::read(counter.get(), &count, sizeof(count)) == sizeof(count))
                sum += count;
    return sum;
}

} // namespace incident::daemon
