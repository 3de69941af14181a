#include "capture/render/render_trigger.h"

#include "capture/bundle/json_member.h"
#include "capture/collect/collect_zfs.h"
#include "capture/decode/decode_text.h"
#include "capture/decode/syscalls.h"
#include "capture/os/page_size.h"
#include "capture/render/render_lines.h"
#include "capture/render/render_parts.h"
#include "capture/render/render_threads.h"
#include "capture/render/render_time.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <map>

namespace incident::capture {

namespace {

// Task states as /proc shows them (include/linux/sched.h, fs/proc/array.c).
constexpr std::uint64_t task_interruptible = 1, task_uninterruptible = 2, task_stopped = 4, task_traced = 8,
                        task_noload = 0x400;

std::string hex_bytes(const std::vector<std::uint8_t> &bytes) {
    return fmt::format("{:02x}", fmt::join(bytes, ""));
}

const char *state_name(std::uint64_t state) {
    if (state & task_uninterruptible)
        return state & task_noload ? "idle" : "uninterruptible";
    if (state & (task_stopped | task_traced))
        return state & task_stopped ? "stopped" : "traced";
    return state & task_interruptible ? "interruptible" : "other";
}

class Renderer {
public:
    Renderer(const RenderContext &context, const Redactor &redactor)
        : context_(context), input_(context.input), redactor_(redactor) {}

    Json render() {
        return std::visit([this](const auto &trigger) { return json(trigger); }, input_.trigger);
    }

private:
    template <typename Word> Json stack(const Word *addresses, std::size_t count) const {
        const std::vector<std::uint64_t> frames(addresses, addresses + std::min<std::size_t>(count, KERNEL_FRAMES));
        return kernel_stack_json(context_, frames);
    }

    Json json(const SignalTrigger &) const { return {}; }

    // The thread's calls since the function was entered: how many, and which took longest.
    Json calls_within(std::uint64_t from_ns, std::uint64_t to_ns) const {
        const ThreadSnapshot *thread = crashed_thread(input_.process);
        if (!thread || !thread->rings)
            return {};
        struct Sum {
            std::uint64_t count = 0, ns = 0;
        };
        std::map<std::string, Sum> by_name;
        Json in_call;
        std::uint64_t count = 0, total = 0, untimed = 0;
        const auto &records = thread->rings->syscalls;
        for (const bpf::syscall_record &record : records) {
            if (record.start_ns < from_ns || record.start_ns > to_ns)
                continue;
            const std::string name = syscall_name(record.nr, record.flags & bpf::SYSCALL_COMPAT);
            // the rings are read later: what had not returned yet by the trigger may have since
            const bool timed = record.duration_ns == IN_FLIGHT || record.duration_ns < NO_DURATION;
            const std::uint64_t left_ns = to_ns - record.start_ns;
            const bool in_flight = record.duration_ns == IN_FLIGHT || (timed && record.duration_ns > left_ns);
            const std::uint64_t ns = in_flight ? left_ns : timed ? record.duration_ns : 0;
            untimed += !timed;
            if (in_flight)
                in_call = {{"name", name}, {"elapsed_ns", ns}};
            Sum &sum = by_name[name];
            ++sum.count, ++count;
            sum.ns += ns, total += ns;
        }
        std::vector<std::pair<std::string, Sum>> sorted(by_name.begin(), by_name.end());
        std::ranges::sort(sorted, [](const auto &a, const auto &b) { return a.second.ns > b.second.ns; });
        constexpr std::size_t shown = 16;
        Json top = Json::array();
        for (std::size_t i = 0; i < std::min(sorted.size(), shown); ++i)
            top.push_back({{"name", sorted[i].first}, {"count", sorted[i].second.count}, {"ns", sorted[i].second.ns}});
        return {{"count", count},
                {"ns", total},
                {"untimed", untimed},
                {"in_flight", in_call},
                {"by_name", top},
                {"since_entry", (!records.empty() && records.front().start_ns <= from_ns) ||
                                    thread->rings->slot.syscalls == records.size()}};
    }

    Json json(const LatencyTrigger &latency) const {
        Json args = Json::array();
        for (const std::uint64_t argument : latency.args)
            args.push_back(hex_text(argument));
        Json json = {{"probe", valid_utf8(latency.probe)},
                     {"leave", text_or_null(latency.leave)},
                     {"threshold_ns", latency.threshold_ns},
                     {"elapsed_ns", latency.elapsed_ns},
                     {"when", latency.in_flight ? "deadline" : "return"},
                     {"in_flight", latency.in_flight},
                     {"entered_ns", latency.entry_ns},
                     {"entered", wall_text(input_.clocks.shown_at(MonotonicTime{latency.entry_ns}))},
                     {"args", args},
                     {"ret", latency.ret ? Json(hex_text(*latency.ret)) : Json()},
                     {"depth", latency.depth},
                     {"missed_returns", latency.missed}};
        Json spent;
        if (latency.running_ns && latency.runnable_ns) {
            const std::uint64_t on_or_wanting = *latency.running_ns + *latency.runnable_ns;
            spent = {{"running_ns", *latency.running_ns},
                     {"runnable_ns", *latency.runnable_ns},
                     {"blocked_ns", latency.elapsed_ns - std::min(latency.elapsed_ns, on_or_wanting)}};
        }
        json["spent"] = spent;
        json["calls"] =
            latency.one_thread ? calls_within(latency.entry_ns, latency.entry_ns + latency.elapsed_ns) : Json();
        return json;
    }

    Json json(const OomTrigger &oom) const {
        Json json = {{"constraint", text_or_null(oom.constraint)},
                     {"cgroup", text_or_null(oom.oom_memcg)},
                     {"task_cgroup", text_or_null(oom.task_memcg)},
                     {"killed", text_or_null(redactor_.text(oom.killed))},
                     {"kernel_line", text_or_null(redactor_.text(oom.line))},
                     {"allocating", Json()}};
        if (oom.event) {
            std::string cgroup;
            for (std::uint32_t i = std::min<std::uint32_t>(oom.event->cgroup_parts, CGROUP_PARTS); i > 0; --i)
                cgroup.append("/").append(fixed_text(oom.event->cgroup[i - 1]));
            json["allocating"] = {{"pid", oom.event->h.tgid},
                                  {"tid", oom.event->h.tid},
                                  {"comm", valid_utf8(fixed_text(oom.event->comm))},
                                  {"cgroup", text_or_null(cgroup)},
                                  {"kernel_stack", stack(oom.event->kernel_stack, oom.event->kernel_frames)}};
            json["chosen_ns"] = oom.event->h.t_ns;
        }
        const auto level = level_at_limit(oom);
        // Of the cgroup that reached its limit, which may be one around the process's own.
        const bool own = oom.oom_memcg.empty() || oom.oom_memcg == oom.task_memcg;
        const auto number = [&](std::initializer_list<const char *> files) {
            return own ? cgroup_number(files) : Json();
        };
        json["memory_max"] = level ? bytes_of(level->max_pages) : number({"memory.max", "memory.limit_in_bytes"});
        json["memory_current"] =
            level ? bytes_of(level->usage_pages) : number({"memory.current", "memory.usage_in_bytes"});
        json["memory"] = cgroup_memory();
        return json;
    }

    // What the kernel side read of the cgroup whose limit was reached, before the victim gave anything back: the one
    // above the allocating thread that lies as deep as the path the kernel names.
    static std::optional<bpf::memory_level> level_at_limit(const OomTrigger &oom) {
        if (!oom.event || oom.constraint != "CONSTRAINT_MEMCG" || !oom.oom_memcg.starts_with('/'))
            return std::nullopt;
        const auto depth = oom.oom_memcg == "/" ? 0 : std::ranges::count(oom.oom_memcg, '/');
        for (std::uint32_t i = 0; i < std::min<std::uint32_t>(oom.event->memory_levels, MEMORY_LEVELS); ++i)
            if (oom.event->memory[i].depth == depth)
                return oom.event->memory[i];
        return std::nullopt;
    }

    // null: no limit, which v1 and v2 write as PAGE_COUNTER_MAX (include/linux/page_counter.h)
    static Json bytes_of(std::uint64_t pages) {
        constexpr std::uint64_t counter_max = (std::uint64_t{1} << 63) / page_size - 1;
        return pages < counter_max ? Json(pages * page_size) : Json();
    }

    // Of the cgroup whose limit was reached (of a host's OOM kill, the victim's) as soon as the daemon could look, of
    // either version; null where there is no such file or no limit.
    Json cgroup_number(std::initializer_list<const char *> names) const {
        for (const char *name : names)
            if (const std::string *text = context_.collected.file(std::string("cgroup_before/") + name)) {
                std::uint64_t number = 0;
                const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
                constexpr std::uint64_t no_limit = std::uint64_t{1} << 62; // v1 says PAGE_COUNTER_MAX pages
                return error == std::errc() && number < no_limit ? Json(number) : Json();
            }
        return {};
    }

    // What the cgroup's files said when the daemon heard of the choice (the victim may have given back some by then),
    // and when it was gone.
    Json cgroup_memory() const {
        Json json = Json::object();
        for (const char *when : {"before", "after"}) {
            Json files = Json::object();
            const std::string directory = fmt::format("cgroup_{}/", when);
            for (const auto &[path, bytes] : context_.collected.files)
                if (path.starts_with(directory))
                    files[path.substr(directory.size())] =
                        valid_utf8(std::string_view(bytes).substr(0, bytes.find_last_not_of("\n ") + 1));
            json[when] = files.empty() ? Json() : files;
        }
        return json;
    }

    Json json(const ReclaimTrigger &reclaim) const {
        Json top = Json::array();
        for (const Stalled &thread : reclaim.top)
            top.push_back({{"pid", thread.pid},
                           {"tid", thread.tid},
                           {"comm", valid_utf8(thread.comm)},
                           {"cgroup", text_or_null(thread.cgroup)},
                           {"count", thread.count},
                           {"stalled_ns", thread.stalled_ns},
                           {"longest_ns", thread.longest_ns},
                           {"reclaimed_pages", thread.reclaimed_pages},
                           {"kernel_stack", stack(thread.kernel_stack.data(), thread.kernel_stack.size())}});
        return {{"scope", reclaim.last.cgroup ? "cgroup" : "direct"},
                {"count", input_.matches_total},
                {"stalled_ns", input_.value_total},
                {"last",
                 {{"duration_ns", reclaim.last.duration_ns},
                  {"reclaimed_pages", reclaim.last.reclaimed},
                  {"order", reclaim.last.order},
                  {"gfp_flags", hex_text(reclaim.last.gfp_flags)}}},
                {"threads", reclaim.threads},
                {"top", top},
                {"host_before_ns", reclaim.before_ns ? Json(reclaim.before_ns) : Json()}};
    }

    Json json(const TxgTrigger &txg) const {
        const ZfsState zfs = zfs_state(context_.collected);
        const std::string label = zfs_pool_label(txg.pool);
        Json history = Json::array(), blocked = Json::array();
        if (const auto rows = zfs.txgs.find(label); rows != zfs.txgs.end())
            for (const TxgRow &row : rows->second)
                history.push_back({{"txg", row.txg},
                                   {"state", std::string(1, row.state)},
                                   {"sync_ns", row.sync_ns},
                                   {"dirty_bytes", row.dirty},
                                   {"written_bytes", row.written}});
        for (const ZfsBlocked &thread : zfs.blocked)
            blocked.push_back({{"pid", thread.pid},
                               {"tid", thread.tid},
                               {"comm", valid_utf8(thread.comm)},
                               {"kernel_stack", thread.stack}});
        const auto state = zfs.pool_states.find(label);
        Json tunables = Json::object();
        for (const char *name : {"zfs_txg_timeout", "zfs_dirty_data_max", "zfs_delay_min_dirty_percent"})
            if (const auto value = zfs.parameters.find(name); value != zfs.parameters.end())
                tunables[name] = value->second;
        return {{"pool", valid_utf8(txg.pool)},
                {"pool_state", state == zfs.pool_states.end() ? Json() : text_or_null(state->second)},
                {"txg", txg.txg},
                {"threshold_ns", txg.threshold_ns},
                {"elapsed_ns", txg.elapsed_ns},
                {"in_flight", txg.in_flight},
                {"started_ns", txg.start_ns},
                {"source", txg.source},
                {"tunables", tunables},
                {"history", history},
                {"blocked", blocked}};
    }

    Json json(const SyscallTrigger &syscall) const {
        const bpf::syscall_trigger &event = syscall.event;
        const bool compat = event.flags & bpf::SYSCALL_COMPAT;
        const std::string *path = nullptr;
        if (const ThreadSnapshot *thread = crashed_thread(input_.process); thread && thread->rings)
            for (const CallPath &named : thread->rings->paths)
                if (named.start_ns == event.start_ns && !named.bytes.empty())
                    path = &named.bytes;
        const std::string shown = path ? redactor_.text(*path) : std::string();
        std::uint64_t args[SYSCALL_ARGS];
        std::ranges::copy(event.args, args);
        DecodedCall call = decode_syscall(event.nr, compat, args, path ? &shown : nullptr);
        if (event.flags & bpf::SYSCALL_ARGS_GONE)
            call.args.clear();
        const bool timed = event.duration_ns < NO_DURATION;
        return {{"name", call.name},          {"nr", event.nr},
                {"args", call.args},          {"path", path ? Json(valid_utf8(shown)) : Json()},
                {"ret", event.ret},           {"error", text_or_null(error_name(event.ret))},
                {"start_ns", event.start_ns}, {"duration_ns", timed ? Json(event.duration_ns) : Json()}};
    }

    Json json(const BlockedTrigger &blocked) const {
        const bpf::blocked_trigger &event = blocked.event;
        Json json = {{"threshold_ns", blocked.threshold_ns},
                     {"elapsed_ns", event.until_ns - std::min(event.until_ns, event.from_ns)},
                     {"in_flight", blocked.in_flight},
                     {"idle", blocked.idle},
                     {"from_ns", event.from_ns},
                     {"state", state_name(event.state)},
                     {"syscall",
                      event.nr < 0 ? Json() : Json(syscall_name(event.nr, event.syscall_flags & bpf::SYSCALL_COMPAT))},
                     {"kernel_stack", stack(event.kernel_stack, event.kernel_frames)},
                     {"waker", Json()}};
        if (event.woken_ns) {
            const Json kernel = stack(event.waker_kernel_stack, event.waker_kernel_frames);
            Json user = Json::array();
            for (std::size_t i = 0; i < std::min<std::size_t>(event.waker_user_frames, KERNEL_FRAMES); ++i)
                user.push_back(hex_text(event.waker_user_stack[i]));
            json["waker"] = {{"pid", event.waker_tgid},
                             {"tid", event.waker_tid},
                             {"comm", valid_utf8(fixed_text(event.waker_comm))},
                             {"woken_ns", event.woken_ns},
                             {"on_cpu_after_ns", event.until_ns - std::min(event.until_ns, event.woken_ns)},
                             {"in_interrupt", in_interrupt(kernel)},
                             {"kernel_stack", kernel},
                             {"user_stack", user},
                             {"user_stack_how", "frame pointers (may be incomplete)"}};
        }
        return json;
    }

    // An interrupt that woke it has nothing to do with the thread it interrupted.
    static bool in_interrupt(const Json &stack) {
        for (const Json &frame : stack) {
            if (!frame["symbol"].is_string())
                continue;
            const std::string_view symbol = frame["symbol"].get_ref<const std::string &>();
            for (const std::string_view entry : {"asm_sysvec_", "asm_common_interrupt", "sysvec_", "common_interrupt",
                                                 "handle_softirqs", "__do_softirq", "irq_exit_rcu", "__irq_exit_rcu"})
                if (symbol.starts_with(entry))
                    return true;
        }
        return false;
    }

    Json json(const MemoryTrigger &memory) const {
        Json samples = Json::array();
        for (const auto &[t_ns, bytes] : memory.samples)
            samples.push_back({{"t_ns", t_ns}, {"rss", bytes}});
        return {{"rss", memory.rss}, {"growth", memory.growth}, {"samples", samples}};
    }

    Json json(const ExitTrigger &exit) const { return {{"status", exit.status}}; }

    Json json(const BlockIoTrigger &block_io) const {
        const bpf::block_io_trigger &event = block_io.event;
        return {{"device", valid_utf8(fixed_text(event.disk))},
                {"operation", operation_name(event.operation)},
                {"sector", event.sector},
                {"bytes", event.bytes},
                {"error", block_io.error ? Json(errno_name(block_io.error)) : Json()},
                {"duration_ns", event.done_ns - std::min(event.done_ns, event.issued_ns)},
                {"queued_for_ns", event.queued_ns && event.queued_ns < event.issued_ns
                                      ? Json(event.issued_ns - event.queued_ns)
                                      : Json()},
                {"issued_ns", event.issued_ns},
                {"submitter_known", event.known != 0}};
    }

    Json json(const TracepointTrigger &tracepoint) const {
        return {{"tracepoint", valid_utf8(tracepoint.category + ":" + tracepoint.name)},
                {"filter", text_or_null(tracepoint.filter)},
                {"fields", valid_utf8(redactor_.text(tracepoint.fields))},
                {"record", redactor_.active() ? Json() : Json(hex_bytes(tracepoint.record))},
                {"format", text_or_null(tracepoint.format)}};
    }

    const RenderContext &context_;
    const IncidentInput &input_;
    const Redactor &redactor_;
};

} // namespace

nlohmann::ordered_json trigger_json(const RenderContext &context, const Redactor &redactor) {
    return Renderer(context, redactor).render();
}

} // namespace incident::capture
