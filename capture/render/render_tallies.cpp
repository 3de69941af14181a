#include "capture/render/render_tallies.h"

#include "capture/decode/decode.h"
#include "capture/decode/decode_text.h"
#include "capture/decode/io_request.h"
#include "capture/decode/socket_address.h"
#include "capture/decode/syscalls.h"
#include "capture/os/page_size.h"
#include "capture/render/render_json.h"
#include "capture/render/render_time.h"

#include <sys/socket.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace incident::capture {

namespace {

constexpr std::string_view kind_names[] = {"unknown", "path",       "peer", "failure", "slow",   "thread",
                                           "child",   "child_exit", "exec", "signal",  "memory", "descriptors"};
static_assert(std::size(kind_names) == bpf::TALLY_KINDS);

std::string_view kind_of(const bpf::tally &tally) {
    return tally.kind < std::size(kind_names) ? kind_names[tally.kind] : kind_names[0];
}

bool is_call(const bpf::tally &tally) {
    return tally.kind >= bpf::TALLY_PATH && tally.kind <= bpf::TALLY_SLOW;
}

bool is_growth(const bpf::tally &tally) {
    return tally.kind == bpf::TALLY_MEMORY || tally.kind == bpf::TALLY_DESCRIPTORS;
}

std::string_view name_bytes(const bpf::tally &tally) {
    return {tally.name, std::min<std::size_t>(tally.length, TALLY_NAME)};
}

// What was met in the epochs of a window that are not over for long at that time.
std::uint64_t met_within(const bpf::tally_window &window, std::uint64_t now_ns, unsigned shift) {
    const auto now = static_cast<std::uint32_t>(now_ns >> shift);
    std::uint64_t met = 0;
    for (std::uint32_t back = 0; back < TALLY_EPOCHS; ++back) {
        const std::uint32_t epoch = window.epoch - back;
        if (now - epoch < TALLY_EPOCHS || epoch - now < TALLY_EPOCHS) // it may have been met after that time
            met += window.met[epoch % TALLY_EPOCHS];
    }
    return met;
}

// As the kernel side begins a step: TALLY_SLOW_NS × 10^step.
std::string_view slow_text(int step) {
    constexpr std::string_view names[TALLY_SLOW_STEPS] = {"10 ms", "100 ms", "1 s", "10 s"};
    return names[static_cast<std::size_t>(std::clamp(step, 0, TALLY_SLOW_STEPS - 1))];
}

class Facts {
public:
    Facts(const RenderContext &context, const Redactor &redactor)
        : process_(context.input.process), redactor_(redactor), clock_(context.input.clocks) {
        sorted_ = facts_kept(context.input);
    }

    std::string lines() {
        std::string text;
        for (const bpf::tally *tally : sorted_) {
            JsonObject line(text);
            begin(line, *tally);
            common(line, *tally);
            line.end();
            text += '\n';
        }
        return text;
    }

    std::vector<ProcessLine> timeline() {
        find_reaches();
        std::vector<ProcessLine> lines;
        for (const bpf::tally *tally : sorted_)
            if (!is_recorded(*tally)) {
                ProcessLine &added = lines.emplace_back();
                added.t_ns = is_growth(*tally) ? tally->first_ns : tally->last_ns;
                JsonObject line(added.text);
                line.number("t_ns", added.t_ns);
                line.text("wall", clock_.of(MonotonicTime{added.t_ns}));
                line.number("tid", tally->tid);
                line.text("kind", "fact");
                const std::string name = is_call(*tally) ? call_name(*tally) : "";
                line.text("name", name);
                line.texts("args", std::vector<std::string>{});
                result(line, *tally);
                line.null("duration_ns");
                tally->kind == bpf::TALLY_PATH ? line.text("path", what_of(*tally)) : line.null("path");
                line.null("fd");
                line.boolean("in_flight", false);
                line.text("fact", kind_of(*tally));
                line.text("what", what_of(*tally));
                line.boolean("cut", tally->flags & bpf::TALLY_NAME_CUT);
                if (tally->kind == bpf::TALLY_CHILD_EXIT)
                    line.text("status_text", status_text(tally->code));
                line.number("met", tally->met);
                line.number("first_ns", tally->first_ns);
                line.end();
            }
        return lines;
    }

private:
    static bool is_compat(const bpf::tally &tally) { return tally.flags & bpf::TALLY_COMPAT; }
    static bool is_request(const bpf::tally &tally) { return tally.flags & bpf::TALLY_REQUEST; }
    static std::string call_name(const bpf::tally &tally) {
        return is_request(tally) ? "io_uring:" + uring_operation_name(static_cast<unsigned>(tally.nr))
                                 : syscall_name(tally.nr, is_compat(tally));
    }

    // From when to when the calls of each thread are there.
    void find_reaches() {
        for (const ThreadSnapshot &thread : process_.threads) {
            if (!thread.rings)
                continue;
            for (const bpf::syscall_record &record : thread.rings->syscalls)
                calls_reach_[thread.tid].add(record.start_ns, record.duration_ns);
            for (const Request &request : thread.rings->requests)
                requests_reach_[request.submitter].add(request.t_ns, request.duration_ns);
        }
    }

    struct Reach {
        std::uint64_t from_ns = ~0ull, to_ns = 0;
        void add(std::uint64_t start_ns, std::uint64_t duration_ns) {
            from_ns = std::min(from_ns, start_ns);
            to_ns = std::max(to_ns, start_ns + (duration_ns < NO_DURATION ? duration_ns : 0));
        }
    };
    using Reaches = std::unordered_map<std::uint32_t, Reach>; // by tid
    static bool within(const Reaches &reaches, const bpf::tally &tally) {
        const auto reach = reaches.find(tally.tid);
        return reach != reaches.end() && reach->second.from_ns <= tally.last_ns && tally.last_ns <= reach->second.to_ns;
    }

    // Whether the call, or the event, that met it last stands in the timeline anyway.
    bool is_recorded(const bpf::tally &tally) const {
        const auto is_among = [&](const auto &records, auto time) {
            return std::ranges::any_of(records, [&](const auto *record) { return time(*record) <= tally.last_ns; });
        };
        if (tally.kind == bpf::TALLY_SIGNAL)
            return process_.entry &&
                   is_among(signals_of(*process_.entry), [](const auto &record) { return record.t_ns; });
        if (tally.kind == bpf::TALLY_CHILD || tally.kind == bpf::TALLY_CHILD_EXIT || tally.kind == bpf::TALLY_EXEC)
            return process_.entry &&
                   is_among(lineage_of(*process_.entry), [](const auto &record) { return record.t_ns; });
        if (!is_call(tally))
            return false;
        if (is_request(tally))
            return within(requests_reach_, tally);
        return within(calls_reach_, tally);
    }

    std::string what_of(const bpf::tally &tally) const {
        const std::string_view name = name_bytes(tally);
        switch (tally.kind) {
        case bpf::TALLY_PEER:
            return redactor_.text(peer_text(name));
        case bpf::TALLY_FAILURE:
            return errno_name(tally.code);
        case bpf::TALLY_SLOW:
            return std::string(slow_text(tally.code));
        case bpf::TALLY_SIGNAL:
            return signal_name(tally.code);
        case bpf::TALLY_MEMORY:
            return std::to_string(tally.value * page_size);
        case bpf::TALLY_DESCRIPTORS:
            return std::to_string(tally.value);
        default:
            return text_of(tally);
        }
    }

    // Of a name that is cut nobody can tell whether a pattern matches the whole.
    std::string text_of(const bpf::tally &tally) const {
        const bool cut = tally.flags & bpf::TALLY_NAME_CUT;
        return cut && redactor_.active() ? std::string(Redactor::mark) : redactor_.text(name_bytes(tally));
    }

    void begin(JsonObject &line, const bpf::tally &tally) {
        line.text("kind", kind_of(tally));
        is_call(tally) ? line.text("name", call_name(tally)) : line.null("name");
        line.text("what", what_of(tally));
    }

    static void result(JsonObject &line, const bpf::tally &tally) {
        const bool failed = is_call(tally) && tally.ret < 0 && tally.ret >= -4095;
        is_call(tally) ? line.number("ret", tally.ret) : line.null("ret");
        failed ? line.text("error", errno_name(static_cast<int>(-tally.ret))) : line.null("error");
    }

    void common(JsonObject &line, const bpf::tally &tally) {
        const std::uint64_t now = process_.event.h.t_ns;
        line.number("met", tally.met);
        line.number("failed", tally.failed);
        line.number("minute", met_within(tally.minute, now, TALLY_MINUTE_SHIFT));
        line.number("hour", met_within(tally.hour, now, TALLY_HOUR_SHIFT));
        line.number("first_ns", tally.first_ns);
        line.text("first", clock_.of(MonotonicTime{tally.first_ns}));
        line.number("last_ns", tally.last_ns);
        line.text("last", clock_.of(MonotonicTime{tally.last_ns}));
        line.number("tid", tally.tid);
        result(line, tally);
        tally.longest_ns ? line.number("longest_ns", tally.longest_ns) : line.null("longest_ns");
        line.boolean("idle", tally.flags & bpf::TALLY_IDLE);
        line.boolean("cut", tally.flags & bpf::TALLY_NAME_CUT);
        of_kind(line, tally);
    }

    void of_kind(JsonObject &line, const bpf::tally &tally) const {
        switch (tally.kind) {
        case bpf::TALLY_PATH: {
            std::string flags;
            if (!is_request(tally) && is_open_call(tally.nr, is_compat(tally)))
                decode::append_set(flags, tables::set_open_flags, tally.value);
            line.text("flags", flags);
            return;
        }
        case bpf::TALLY_PEER:
            return peer(line, tally);
        case bpf::TALLY_FAILURE:
        case bpf::TALLY_SLOW:
            line.number("argument", tally.value);
            return;
        case bpf::TALLY_CHILD_EXIT:
            line.text("status_text", status_text(tally.code));
            return;
        case bpf::TALLY_SIGNAL:
            line.text("code", signal_code_name(tally.code, static_cast<std::int32_t>(tally.value)));
            tally.length ? line.text("sender", text_of(tally)) : line.null("sender");
            return;
        default:
            return;
        }
    }

    // Of one that has come by itself its last port; of one that was accepted also the own port, or the process at the
    // other end of a local socket.
    void peer(JsonObject &line, const bpf::tally &tally) const {
        const std::string call = call_name(tally);
        const bool accepted = call == "accept" || call == "accept4", received = call == "recvfrom" || call == "recvmsg";
        const int family = address_family(name_bytes(tally)), port = static_cast<int>(tally.value & 0xffff);
        const bool internet = family == AF_INET || family == AF_INET6;
        if (!accepted && !received)
            line.number("fd", static_cast<std::int32_t>(tally.value));
        else if (internet)
            line.number("port", port);
        if (accepted && internet)
            line.number("own_port", tally.value >> 16 & 0xffff);
        if (accepted && family == AF_UNIX && tally.value)
            line.number("peer_pid", tally.value);
    }

    const ProcessSnapshot &process_;
    const Redactor &redactor_;
    WallClock clock_;
    std::vector<const bpf::tally *> sorted_;
    Reaches calls_reach_, requests_reach_;
};

} // namespace

std::vector<const bpf::tally *> facts_kept(const IncidentInput &input) {
    constexpr std::size_t most = 1000, most_of_light = 100; // of each kind
    std::vector<const bpf::tally *> sorted, kept;
    for (const bpf::tally &tally : input.process.tallies)
        sorted.push_back(&tally);
    std::ranges::sort(sorted, {}, [](const bpf::tally *tally) {
        return std::tuple(tally->kind, tally->last_ns, tally->first_ns, tally->nr, tally->code);
    });
    for (auto begin = sorted.begin(); begin != sorted.end();) {
        const auto end =
            std::find_if(begin, sorted.end(), [&](const auto *tally) { return tally->kind != (*begin)->kind; });
        const auto count = std::min<std::ptrdiff_t>(end - begin, input.light ? most_of_light : most);
        kept.insert(kept.end(), end - count, end);
        begin = end;
    }
    return kept;
}

std::string facts_of(const RenderContext &context, const Redactor &redactor) {
    return Facts(context, redactor).lines();
}

std::vector<ProcessLine> fact_lines(const RenderContext &context, const Redactor &redactor) {
    return Facts(context, redactor).timeline();
}

} // namespace incident::capture
