#include "daemon/recorder_tracepoint_counts.h"

#include "daemon/tracefs.h"

#include <bpf/bpf.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <iterator>
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
    const std::string key = category + ":" + name;
    const auto id = counters_.contains(key) ? std::nullopt : id_of(category, name);
    if (!id)
        return;
    // return 1: with 0 nobody else would see the hit (bpf/trigger.bpf.h)
    constexpr bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
                                    {.code = BPF_JMP | BPF_EXIT}};
    Counter counter;
    counter.program =
        UniqueFd(bpf_prog_load(BPF_PROG_TYPE_TRACEPOINT, "count_hits", "GPL", nothing, std::size(nothing), nullptr));
    perf_event_attr what{};
    what.size = sizeof(what);
    what.type = PERF_TYPE_TRACEPOINT;
    what.config = *id;
    // The program is the tracepoint's, on whatever CPU it is hit; the event's own CPU does not matter.
    counter.event = UniqueFd(static_cast<int>(::syscall(SYS_perf_event_open, &what, -1, 0, -1, PERF_FLAG_FD_CLOEXEC)));
    if (counter.program && counter.event &&
        ::ioctl(counter.event.get(), PERF_EVENT_IOC_SET_BPF, counter.program.get()) == 0)
        counters_.emplace(key, std::move(counter));
}

std::uint64_t TracepointCounts::hits(const std::string &category, const std::string &name) const {
    const auto found = counters_.find(category + ":" + name);
    bpf_prog_info info{};
    __u32 size = sizeof(info);
    if (found == counters_.end() || bpf_obj_get_info_by_fd(found->second.program.get(), &info, &size) != 0)
        return 0;
    return info.run_cnt;
}

} // namespace incident::daemon
