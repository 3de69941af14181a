#include "capture/render/render_parts.h"

#include "capture/decode/decode_text.h"
#include "capture/os/auxv.h"
#include "capture/os/lines.h"
#include "capture/render/render_accounts.h"
#include "capture/render/render_lines.h"
#include "capture/render/render_process.h"

#include "capture/render/render_threads.h"
#include "capture/render/render_time.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace incident::capture {

namespace {

class Quality {
public:
    Quality(const RenderContext &context, const Redactor &redactor)
        : context_(context), process_(context.input.process), redactor_(redactor) {}

    Json render() {
        count_threads();
        count_losses();
        count_other_code();
        if (const Gap *gap = gap_within())
            because(fmt::format("from {} to {} nothing was recorded: incidentd {}", wall_text(gap->from),
                                wall_text(gap->until), gap->stopped ? "was stopped" : "was killed"));
        for (const CollectorResult &result : context_.collected.results)
            if (!result.ok)
                because("collector " + result.name + " failed");
        Json json;
        json["complete"] = reasons_.empty();
        json["incomplete_because"] = reasons_;
        json["threads"] = expected();
        json["threads_captured"] = captured_;
        json["recorded"] = recorded_;
        json["after"] = after_;
        json["left_out"] = left_out_;
        json["overwritten"] = overwritten_;
        json["lost"] = lost_;
        json["past_ns"] = past_ns_ ? Json(*past_ns_) : Json();
        json["ended"] = ended();
        json["accounts"] = accounts_json(context_.input);
        json["gap"] = gap();
        json["missing"] = missing_;
        json["losses"] = losses_;
        json["collectors"] = collectors();
        json["probes"] = probes();
        json["cost"] = cost();
        json["degraded"] = degraded();
        return json;
    }

private:
    std::uint64_t expected() const {
        return std::max<std::uint64_t>(process_.threads_expected, process_.threads.size());
    }

    void because(std::string_view reason) { reasons_.push_back(valid_utf8(reason)); }

    void loss(std::string_view where, std::string_view reason, std::uint64_t count) {
        if (count == 0)
            return;
        losses_.push_back({{"where", valid_utf8(where)}, {"reason", valid_utf8(reason)}, {"count", count}});
        because(fmt::format("{}: {} ({})", where, reason, count));
    }

    void count_threads() {
        std::uint64_t paths_cut = 0, paths_faulted = 0, cut_stacks = 0, requests_lost = 0;
        std::set<std::uint64_t> seen;
        for (const ThreadSnapshot &thread : process_.threads) {
            seen.insert(thread.tid);
            const Accounting count = accounting_of(thread, {process_.event.h.t_ns});
            recorded_ += count.recorded;
            after_ += count.after;
            left_out_ += count.left_out;
            overwritten_ += count.overwritten;
            unkept_ += count.lost;
            if (&thread == crashed_thread(process_))
                past_ns_ = count.past_ns;
            requests_lost += thread.rings ? thread.rings->slot.requests_unkept : 0;
            captured_ += thread.event.has_value(); // without a ring its past is missing, said below
            if (thread.rings) {
                paths_cut += thread.rings->slot.paths_cut;
                paths_faulted += thread.rings->slot.paths_faulted;
            }
            if (thread.rings && thread.event && !captured_whole(thread))
                ++cut_stacks;
            if ((!thread.rings && rings_expected(thread)) || !thread.event)
                missing(thread.tid, thread_comm(thread), thread.missing.empty() ? "not captured" : thread.missing);
        }
        // threads that nobody captured, as far as /proc still named them
        std::uint64_t named = 0;
        if (const std::string *comms = context_.collected.file("process/comms"))
            named = missing_by_name(*comms, seen);
        if (expected() > process_.threads.size() + named)
            because(fmt::format("{} of {} threads were not captured", expected() - process_.threads.size() - named,
                                expected()));
        if (process_.deadline_passed)
            because("the deadline passed before the last thread was captured");
        loss("user stacks", "no room in the ring buffer, or not readable", cut_stacks);
        if (process_.entry)
            loss("io_uring requests", "more were in flight than there is room for", process_.entry->requests_unseen);
        loss("io_uring requests", "no memory was left for them ([record] calls)", requests_lost);
        loss("paths", "longer than PATH_MAX, or there was no memory for the rest", paths_cut);
        loss("paths", "not readable in the process's memory", paths_faulted);
    }

    // A thread that has made no call since it is watched has no ring, and misses none: one of a living process, and
    // one that died before its first call (a child of vfork(2), of clone(2) with CLONE_VM), where none of the process's
    // threads went without for want of a slot.
    bool rings_expected(const ThreadSnapshot &thread) const {
        if (!thread.event || thread.event->slot != ~0u)
            return true;
        if (thread.event->is_worker)
            return false;
        return thread.event->role != bpf::ROLE_LIVING && !(process_.entry && process_.entry->threads_unrecorded == 0);
    }

    void missing(std::uint64_t tid, std::string_view comm, std::string_view reason) {
        constexpr std::size_t listed_max = 1024;
        because(fmt::format("thread {}: {}", tid, reason));
        if (missing_.size() < listed_max)
            missing_.push_back({{"tid", tid}, {"comm", valid_utf8(comm)}, {"reason", valid_utf8(reason)}});
    }

    // Lines {"tid","comm"} of process/comms.
    std::uint64_t missing_by_name(std::string_view comms, const std::set<std::uint64_t> &seen) {
        std::uint64_t count = 0;
        for (const std::string_view line : lines_of(comms)) {
            const auto json = nlohmann::json::parse(line, nullptr, false);
            if (!json.is_object() || !json.contains("tid") || !json["tid"].is_number_unsigned())
                continue;
            const auto tid = json["tid"].get<std::uint64_t>();
            if (seen.contains(tid) || process_.threads.size() + count >= expected())
                continue;
            ++count;
            const bool named = json.contains("comm") && json["comm"].is_string();
            missing(tid, named ? json["comm"].get<std::string>() : "", "alive, but not captured");
        }
        return count;
    }

    // What nobody unwinds.
    void count_other_code() {
        const std::string_view isa = isa_name(process_);
        if (isa == "x32")
            return because("a program of the x32 ABI: its stacks are not unwound, and there is no mini.core");
        const Isa other = isa == "i386" ? Isa::x86_64 : Isa::i386;
        const auto count = std::ranges::count_if(process_.threads, [&](const ThreadSnapshot &thread) {
            return thread.event && !thread.event->is_worker && isa_of(thread.event->regs) == other;
        });
        if (count)
            because(fmt::format("threads of the {} program were in {} code, and their stacks are not unwound ({})", isa,
                                other == Isa::i386 ? "32-bit" : "64-bit", count));
    }

    void count_losses() {
        for (const Loss &given : context_.input.losses)
            loss(given.where, given.reason, given.count);
        lost_ += unkept_;
        loss("system calls", "no memory was left for a thread's first ([record] calls)", unkept_);
        if (process_.heap)
            for (const Loss &of_heap : heap_losses(*process_.heap))
                loss(of_heap.where, redactor_.text(of_heap.reason), of_heap.count);
        if (!process_.entry && !std::holds_alternative<SignalTrigger>(context_.input.trigger)) {
            // a rule about the host fires for processes that nobody records
        } else if (!process_.entry) {
            because("the process had no entry: its signals and forks were not recorded");
        } else {
            const bpf::process_entry &entry = *process_.entry;
            overwritten_ += entry.calls_ended; // others have their rings now
            lost_ += entry.syscalls_unrecorded;
            loss("system calls", "made by threads that had no slot", entry.syscalls_unrecorded);
            loss("threads", "had no slot", entry.threads_unrecorded);
            loss("thread events", "no room in the ring buffer", entry.threads_unsent);
            std::uint64_t torn = 0;
            (void)signals_of(entry, &torn);
            loss("signals", "being written when read", torn);
        }
        if (!redactor_.problem().empty())
            loss("redaction", redactor_.problem(), 1);
        loss("redaction", "texts left out whole: matching the patterns took too long", redactor_.given_up());
    }

    // Threads that were no more when the incident came; their calls are among those overwritten.
    Json ended() const {
        if (!process_.entry)
            return nullptr;
        return {{"threads", process_.entry->threads_ended}, {"calls", process_.entry->calls_ended}};
    }

    // Of a process that is older than this life of incidentd, and of the gap before it.
    const Gap *gap_within() const {
        const auto &gap = context_.input.gap;
        const std::uint64_t born = process_.event.h.process_start_boot_ns;
        const bool lived = gap && born && BootTime{born} < gap->until_at;
        return lived ? &*gap : nullptr;
    }

    Json gap() const {
        const Gap *gap = gap_within();
        if (!gap)
            return nullptr;
        return {{"pid", gap->pid},
                {"stopped", gap->stopped},
                {"from", wall_text(gap->from)},
                {"until", wall_text(gap->until)}};
    }

    Json collectors() const {
        Json list = Json::array();
        for (const CollectorResult &result : context_.collected.results)
            list.push_back({{"name", valid_utf8(result.name)},
                            {"ok", result.ok},
                            {"error", result.error.empty() ? Json() : Json(valid_utf8(result.error))},
                            {"us", result.us}});
        return list;
    }

    Json probes() const {
        Json list = Json::array();
        for (const ProbeState &probe : context_.input.probes)
            list.push_back({{"name", valid_utf8(probe.name)},
                            {"state", valid_utf8(probe.state)},
                            {"reason", probe.reason.empty() ? Json() : Json(valid_utf8(probe.reason))},
                            {"missed", probe.missed}});
        return list;
    }

    Json cost() const {
        const CostRecord &cost = context_.input.cost;
        if (!cost.measured_ns)
            return nullptr;
        return {{"t_ns", cost.measured_ns},
                {"budget", cost.budget ? Json(*cost.budget) : Json()},
                {"total", cost.total},
                {"programs", cost.programs},
                {"daemon", cost.daemon}};
    }

    Json degraded() const {
        Json list = Json::array();
        for (const CostRecord::Step &step : context_.input.cost.degraded)
            list.push_back(
                {{"what", valid_utf8(step.what)}, {"reason", valid_utf8(step.reason)}, {"since_ns", step.since_ns}});
        return list;
    }

    const RenderContext &context_;
    const ProcessSnapshot &process_;
    const Redactor &redactor_;
    std::vector<std::string> reasons_;
    Json missing_ = Json::array(), losses_ = Json::array();
    std::optional<std::uint64_t> past_ns_; // of the thread that the incident is about
    std::uint64_t captured_ = 0, recorded_ = 0, after_ = 0, left_out_ = 0, overwritten_ = 0, unkept_ = 0, lost_ = 0;
};

} // namespace

nlohmann::ordered_json quality_json(const RenderContext &context, const Redactor &redactor) {
    return Quality(context, redactor).render();
}

} // namespace incident::capture
