// Says in words what made the rule fire.
#include "capture/render/render_trigger.h"

#include "capture/decode/decode_text.h"
#include "capture/decode/symbol_name.h"
#include "capture/decode/syscalls.h"
#include "capture/render/timeline_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::capture {

std::string error_name(std::int64_t ret) {
    return ret < 0 && ret >= -4095 ? errno_name(static_cast<int>(-ret)) : std::string();
}

// enum req_op, include/linux/blk_types.h
std::string operation_name(std::uint32_t operation) {
    constexpr std::string_view names[] = {"read",         "write", "flush", "discard", "",
                                          "secure erase", "",      "",      "",        "write zeroes"};
    const bool known = operation < std::size(names) && !names[operation].empty();
    return known ? std::string(names[operation]) : fmt::format("operation {}", operation);
}

namespace {

constexpr std::uint64_t mebibyte = 1 << 20;

std::string took(std::uint64_t ns) {
    return duration_text(static_cast<std::int64_t>(std::min<std::uint64_t>(ns, INT64_MAX)));
}

// "uprobe:BINARY:FUNCTION[+OFFSET]", "usdt:BINARY:PROVIDER:NAME"; a function's name may hold colons of its own.
std::string probe_name(const LatencyTrigger &latency) {
    const std::string_view probe = latency.probe;
    const std::size_t kind = probe.find(':'), binary = kind == probe.npos ? probe.npos : probe.find(':', kind + 1);
    if (binary == probe.npos)
        return latency.probe;
    const std::string_view place = probe.substr(binary + 1);
    if (probe.starts_with("usdt:"))
        return std::string(place.substr(place.rfind(':') + 1));
    const std::size_t plus = place.rfind('+');
    const bool offset = plus != place.npos && plus + 1 < place.size() && place[plus + 1] >= '0' &&
                        place[plus + 1] <= '9' && place.find_first_of(") ", plus) == place.npos;
    return short_function_name(place.substr(0, offset ? plus : place.npos)) +
           std::string(offset ? place.substr(plus) : "");
}

struct Sentence {
    const RenderContext &context;
    const IncidentInput &input = context.input;

    std::string operator()(const SignalTrigger &) const { return {}; }
    std::string operator()(const LatencyTrigger &latency) const {
        return fmt::format("{} {} in {}{}", latency.in_flight ? "has been" : "was", took(latency.elapsed_ns),
                           probe_name(latency), latency.in_flight ? " and still is" : "");
    }
    std::string operator()(const OomTrigger &oom) const {
        if (oom.constraint == "CONSTRAINT_MEMCG")
            return "was killed by the OOM killer: memory cgroup " + oom.oom_memcg + " is at its limit";
        return oom.constraint == "CONSTRAINT_NONE" ? "was killed by the OOM killer: the host is out of memory"
                                                   : "was killed by the OOM killer";
    }
    std::string operator()(const ReclaimTrigger &reclaim) const {
        return fmt::format("waited in {} reclaim, {} waits of {} threads together {}",
                           reclaim.last.cgroup ? "memory-cgroup" : "direct", input.matches_total, reclaim.threads,
                           took(input.value_total));
    }
    std::string operator()(const TxgTrigger &txg) const {
        return fmt::format("ZFS pool {}: syncing TXG {} {} {}", txg.pool, txg.txg,
                           txg.in_flight ? "has lasted" : "took", took(txg.elapsed_ns));
    }
    std::string operator()(const SyscallTrigger &syscall) const {
        const auto &event = syscall.event;
        const std::string name = syscall_name(event.nr, event.flags & bpf::SYSCALL_COMPAT),
                          error = error_name(event.ret);
        const bool timed = event.duration_ns < NO_DURATION;
        if (error.empty())
            return timed ? fmt::format("took {} in {}", took(event.duration_ns), name)
                         : fmt::format("returned from {}", name);
        return fmt::format("got {} from {}", error, name) +
               (timed ? fmt::format(" after {}", took(event.duration_ns)) : std::string());
    }
    std::string operator()(const BlockedTrigger &blocked) const {
        const auto &event = blocked.event;
        std::string text = fmt::format("{} blocked for {}", blocked.in_flight ? "has been" : "was",
                                       took(event.until_ns - std::min(event.until_ns, event.from_ns)));
        if (event.nr >= 0)
            text += " in " + syscall_name(event.nr, event.syscall_flags & bpf::SYSCALL_COMPAT);
        if (event.woken_ns && event.waker_tid)
            text += fmt::format(", woken by {}[{}]", fixed_text(event.waker_comm), event.waker_tid);
        return text;
    }
    std::string operator()(const MemoryTrigger &memory) const {
        return memory.growth ? fmt::format("grew by {} MiB to {} MiB", memory.growth / mebibyte, memory.rss / mebibyte)
                             : fmt::format("has {} MiB resident", memory.rss / mebibyte);
    }
    std::string operator()(const ExitTrigger &exit) const { return fmt::format("exits with status {}", exit.status); }
    std::string operator()(const BlockIoTrigger &block_io) const {
        const auto &event = block_io.event;
        const std::string what =
            fmt::format("{} of {} bytes on {}", operation_name(event.operation), event.bytes, fixed_text(event.disk));
        const std::string time = took(event.done_ns - std::min(event.done_ns, event.issued_ns));
        return block_io.error ? fmt::format("had a {} fail with {} after {}", what, errno_name(block_io.error), time)
                              : fmt::format("waited {} for a {}", time, what);
    }
    std::string operator()(const TracepointTrigger &tracepoint) const {
        return fmt::format("hit {}:{} ({})", tracepoint.category, tracepoint.name, tracepoint.fields);
    }
};

struct Label {
    std::string operator()(const SignalTrigger &) const { return "signal"; }
    std::string operator()(const LatencyTrigger &latency) const { return "latency " + latency.probe; }
    std::string operator()(const OomTrigger &oom) const { return "oom " + oom.oom_memcg; }
    std::string operator()(const ReclaimTrigger &reclaim) const {
        return reclaim.last.cgroup ? "reclaim cgroup" : "reclaim direct";
    }
    std::string operator()(const TxgTrigger &txg) const { return "txg_sync " + txg.pool; }
    std::string operator()(const SyscallTrigger &syscall) const {
        const std::string error = error_name(syscall.event.ret);
        return "syscall " + syscall_name(syscall.event.nr, syscall.event.flags & bpf::SYSCALL_COMPAT) +
               (error.empty() ? "" : " " + error);
    }
    std::string operator()(const BlockedTrigger &blocked) const {
        return "blocked " + (blocked.event.nr < 0
                                 ? std::string("outside of calls")
                                 : syscall_name(blocked.event.nr, blocked.event.syscall_flags & bpf::SYSCALL_COMPAT));
    }
    std::string operator()(const MemoryTrigger &memory) const { return memory.growth ? "memory growth" : "memory"; }
    std::string operator()(const ExitTrigger &exit) const { return fmt::format("exit {}", exit.status); }
    std::string operator()(const BlockIoTrigger &block_io) const {
        return fmt::format("block_io {} {}", fixed_text(block_io.event.disk),
                           block_io.error ? errno_name(block_io.error) : "slow");
    }
    std::string operator()(const TracepointTrigger &tracepoint) const {
        return "tracepoint " + tracepoint.category + ":" + tracepoint.name;
    }
};

} // namespace

const char *trigger_key(const Trigger &trigger) {
    return std::holds_alternative<TxgTrigger>(trigger) ? "txg" : trigger_kind(trigger);
}

const char *trigger_kind(const Trigger &trigger) {
    static constexpr const char *names[] = {"signal",  "latency", "oom",  "reclaim",  "txg_sync",  "syscall",
                                            "blocked", "memory",  "exit", "block_io", "tracepoint"};
    static_assert(std::size(names) == std::variant_size_v<Trigger>);
    return names[trigger.index()];
}

std::string trigger_sentence(const RenderContext &context) {
    return std::visit(Sentence{context}, context.input.trigger);
}

std::string trigger_label(const Trigger &trigger) {
    return std::visit(Label{}, trigger);
}

TriggerLine trigger_line(const RenderContext &context) {
    TriggerLine line{trigger_sentence(context), 0};
    if (const auto *latency = std::get_if<LatencyTrigger>(&context.input.trigger))
        line.duration_ns = latency->elapsed_ns;
    if (const auto *syscall = std::get_if<SyscallTrigger>(&context.input.trigger))
        line.duration_ns = syscall->event.duration_ns < NO_DURATION ? syscall->event.duration_ns : 0;
    return line;
}

} // namespace incident::capture
