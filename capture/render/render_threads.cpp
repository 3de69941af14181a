#include "capture/render/render_threads.h"

#include "capture/decode/decode_text.h"
#include "capture/decode/epoll_events.h"
#include "capture/decode/io_request.h"
#include "capture/decode/payload.h"
#include "capture/decode/socket_address.h"
#include "capture/decode/syscalls.h"
#include "capture/os/auxv.h"
#include "capture/render/render_accounts.h"
#include "capture/render/render_parts.h"
#include "capture/render/render_requests.h"
#include "capture/render/render_stack.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace incident::capture {

const ThreadSnapshot *crashed_thread(const ProcessSnapshot &process) {
    const auto it = std::ranges::find(process.threads, process.event.h.tid, &ThreadSnapshot::tid);
    return it == process.threads.end() ? nullptr : &*it;
}

std::string_view thread_comm(const ThreadSnapshot &thread) {
    if (thread.event)
        return fixed_text(thread.event->comm);
    return thread.rings ? fixed_text(thread.rings->slot.comm) : std::string_view{};
}

Accounting accounting_of(const ThreadSnapshot &thread, MonotonicTime trigger) {
    if (!thread.rings)
        return {};
    const auto &calls = thread.rings->syscalls;
    const auto later = std::ranges::upper_bound(calls, trigger.ns, {}, &bpf::syscall_record::start_ns);
    Accounting count{.after = static_cast<std::uint64_t>(calls.end() - later),
                     .recorded = calls.size(),
                     .left_out = thread.rings->calls_left_out,
                     .lost = thread.rings->slot.unkept};
    const std::uint64_t made = thread.rings->slot.syscalls;
    count.overwritten = made - std::min(made, count.recorded + count.left_out + count.lost);
    if (const bool whole = calls.size() == made; whole || !calls.empty()) {
        const std::uint64_t from = whole ? thread.rings->slot.first_ns : calls.front().start_ns;
        count.past_ns = trigger.ns - std::min(trigger.ns, from);
    }
    return count;
}

bool captured_whole(const ThreadSnapshot &thread) {
    return thread.rings && thread.event && !thread.event->stack_unsent &&
           (!thread.stack.empty() || thread.event->stack_wanted == 0 || thread.event->is_worker);
}

namespace {

// restart codes: the call was broken off by the signal that killed, and would have gone on
bool interrupted(std::int64_t ret) {
    return ret <= -512 && ret >= -516;
}

class Threads {
public:
    Threads(const RenderContext &context, const Redactor &redactor)
        : context_(context), redactor_(redactor), modules_(context), requests_(requests_of(context.input.process)) {}

    Json render() {
        Json threads = Json::array();
        for (const ThreadSnapshot &thread : context_.input.process.threads)
            threads.push_back(thread_json(thread));
        return threads;
    }

private:
    Json thread_json(const ThreadSnapshot &thread) {
        Json json;
        json["tid"] = thread.tid;
        json["comm"] = valid_utf8(thread_comm(thread));
        json["crashed"] = is_triggers(thread) && context_.input.process.event.fatal != 0;
        json["registers"] = has_registers(thread) ? registers_json(thread.event->regs) : Json();
        json["syscall"] = last_call(thread);
        json["requests_in_flight"] = requests_in_flight(thread);
        json["stack"] = stack_json(thread);
        json["kernel_stack"] = kernel_stack(thread);
        if (thread.event && thread.event->kernel_stack_error)
            json["kernel_stack_error"] = errno_name(std::abs(std::max(thread.event->kernel_stack_error, -4095)));
        json["accounting"] = accounting(thread);
        if (thread.event)
            json["usage"] = usage(*thread.event);
        json["missing"] = thread.missing.empty() ? Json() : Json(valid_utf8(thread.missing));
        return json;
    }

    // Of io_uring, as they were at the trigger: submitted by this thread, oldest first.  All are in the timeline.
    Json requests_in_flight(const ThreadSnapshot &thread) const {
        constexpr std::size_t listed = 32;
        const std::uint64_t now = context_.input.process.event.h.t_ns;
        Json oldest = Json::array();
        std::uint64_t count = 0;
        for (const ShownRequest &shown : requests_) {
            if (shown.tid != thread.tid || shown.in_doubt || !was_pending(shown, now) || ++count > listed)
                continue;
            Json one = call_json(*shown.request);
            one["elapsed_ns"] = now - shown.request->t_ns;
            one["user_data"] = hex_text(shown.request->user_data);
            oldest.push_back(std::move(one));
        }
        return count == 0 ? Json() : Json{{"count", count}, {"oldest", std::move(oldest)}};
    }
    Json call_json(const Request &request) const {
        const std::string path = redactor_.text(request.path);
        const DecodedCall call = decode_request(request, path.empty() ? nullptr : &path);
        Json json;
        json["name"] = call.name;
        json["args"] = call.args;
        if (call.fd >= 0)
            json["fd"] = call.fd;
        return json;
    }

    static bool has_registers(const ThreadSnapshot &thread) { return thread.event && !thread.event->is_worker; }
    bool is_triggers(const ThreadSnapshot &thread) const { return thread.tid == context_.input.process.event.h.tid; }

    // Of a process that lives on the rings are read after the trigger, and the thread has made more calls by then:
    // told is the one it was in when the rule fired, else the last before.  Null: all that is kept came later.
    const bpf::syscall_record *told_call(const ThreadSnapshot &thread) const {
        const auto &records = thread.rings->syscalls;
        const bpf::death_event &event = context_.input.process.event;
        // After exit_group(2), whose entry made the rule fire, a thread makes no other call.
        if (!is_triggers(thread) || event.fatal || std::holds_alternative<ExitTrigger>(context_.input.trigger))
            return &records.back();
        const auto later = std::ranges::upper_bound(records, event.h.t_ns, {}, &bpf::syscall_record::start_ns);
        return later == records.begin() ? nullptr : &*std::prev(later);
    }

    // It had not returned yet when the rule fired; of a death the record itself says so.
    bool was_in(const ThreadSnapshot &thread, const bpf::syscall_record &record) const {
        const bpf::death_event &event = context_.input.process.event;
        return record.duration_ns == IN_FLIGHT ||
               (is_triggers(thread) && !event.fatal && record.duration_ns < NO_DURATION &&
                record.start_ns + record.duration_ns > event.h.t_ns);
    }

    // The call it is in, else the last one; by its record, else by its registers.
    Json last_call(const ThreadSnapshot &thread) {
        const bool recorded = thread.rings && !thread.rings->syscalls.empty();
        const bpf::syscall_record *told = recorded ? told_call(thread) : nullptr;
        // Where entries are not recorded, or since then for its process alone, the last record may be of a call before.
        const bool unseen = told && (told->duration_ns == NO_DURATION || thread.rings->slot.untimed);
        const bool entered_unseen = unseen && !was_in(thread, *told) && sleeps_in_call(thread);
        if (recorded && !told)
            return {};
        if (told && !entered_unseen) {
            const bpf::syscall_record &record = *told;
            const bool in_flight = was_in(thread, record), timed = !in_flight && record.duration_ns < NO_DURATION;
            Json json = call_json(record.nr, recorded_call(*thread.rings, record));
            json["ret"] = in_flight ? Json() : Json(record.ret);
            json["error"] = !in_flight && record.ret < 0 && record.ret >= -4095
                                ? Json(errno_name(static_cast<int>(-record.ret)))
                                : Json();
            const std::uint64_t now = context_.input.process.event.h.t_ns;
            if (record.flags & bpf::SYSCALL_ARGS_GONE)
                json["args"] = Json::array();
            json["duration_ns"] = timed ? Json(record.duration_ns) : Json();
            json["start_ns"] = record.start_ns;
            if (in_flight && now > record.start_ns)
                json["elapsed_ns"] = now - record.start_ns;
            json["in_flight"] = in_flight;
            json["interrupted"] = !in_flight && interrupted(record.ret);
            json["from"] = "ring";
            return json;
        }
        // On entry the kernel puts the number into orig_ax; a fault or interrupt leaves -1 there.
        if (!has_registers(thread) || static_cast<std::int64_t>(thread.event->regs.orig_ax) < 0)
            return {};
        const bpf::user_registers &r = thread.event->regs;
        const bool compat = isa_of(r) == Isa::i386;
        const std::array<std::uint64_t, SYSCALL_ARGS> args =
            compat ? std::array<std::uint64_t, SYSCALL_ARGS>{r.bx, r.cx, r.dx, r.si, r.di, r.bp}
                   : std::array<std::uint64_t, SYSCALL_ARGS>{r.di, r.si, r.dx, r.r10, r.r8, r.r9};
        const int nr = static_cast<int>(r.orig_ax);
        Json json = call_json(nr, decode_syscall(nr, compat, args.data(), nullptr));
        json["duration_ns"] = nullptr;
        json["in_flight"] = true;
        json["interrupted"] = interrupted(static_cast<std::int64_t>(r.ax));
        json["from"] = "registers";
        return json;
    }

    // The kernel puts -ENOSYS into ax as a call begins, and what it returns as it ends (arch/x86/entry/entry_64.S).
    static bool sleeps_in_call(const ThreadSnapshot &thread) {
        return has_registers(thread) && thread.event->state != 0 &&
               static_cast<std::int64_t>(thread.event->regs.orig_ax) >= 0 &&
               static_cast<std::int64_t>(thread.event->regs.ax) == -ENOSYS;
    }

    template <typename Extra>
    static const Extra *extra_of(const std::vector<Extra> &extras, const bpf::syscall_record &record) {
        const auto found = std::ranges::find(extras, record.start_ns, &Extra::start_ns);
        return found == extras.end() ? nullptr : &*found;
    }

    static const std::string *path_of(const ThreadRings &rings, const bpf::syscall_record &record) {
        const CallPath *path = extra_of(rings.paths, record);
        return path && !path->bytes.empty() ? &path->bytes : nullptr;
    }

    DecodedCall recorded_call(const ThreadRings &rings, const bpf::syscall_record &record) {
        std::array<std::uint64_t, SYSCALL_ARGS> args;
        std::ranges::copy(record.args, args.begin());
        const std::string *path = path_of(rings, record);
        const std::string shown = path ? redactor_.text(*path) : std::string();
        DecodedCall call =
            decode_syscall(record.nr, record.flags & bpf::SYSCALL_COMPAT, args.data(), path ? &shown : nullptr);
        if (const CallAddress *address = extra_of(rings.addresses, record))
            show_address(call, redactor_.text(socket_address_text(address->bytes)));
        if (const CallEvents *events = extra_of(rings.events, record))
            show_events(call, events->bytes, record.ret);
        if (const CallPayload *payload = extra_of(rings.payloads, record))
            show_payload(call, redactor_.text(payload->bytes), holds_all(*payload, record.ret));
        return call;
    }

    static Json call_json(int nr, const DecodedCall &call) {
        Json json;
        json["name"] = call.name;
        json["nr"] = nr;
        json["args"] = call.args;
        if (call.fd >= 0)
            json["fd"] = call.fd;
        return json;
    }

    Json stack_json(const ThreadSnapshot &thread) {
        const StackWalk walk = walk_stack(thread, modules_);
        Json stack;
        stack["how"] = walk.how;
        stack["truncated"] = true;
        stack["reason"] = walk.stopped;
        if (thread.event) {
            std::uint64_t bytes = 0, absent = 0, end = 0;
            for (const StackPiece &piece : thread.stack) {
                absent += bytes && !piece.another ? piece.address - end : 0;
                bytes += piece.bytes.size();
                end = piece.address + piece.bytes.size();
            }
            const std::uint64_t from = thread.stack.empty() ? 0 : thread.stack.front().address;
            stack["address"] = hex_text(from);
            stack["bytes"] = bytes;
            stack["absent"] = absent;
            stack["wanted"] = thread.event->stack_wanted;
        }
        if (thread.returns) {
            stack["return_probes"] = return_probes(*thread.returns);
            stack["return_probes_cut"] = thread.returns->cut;
        }
        stack["frames"] = Json::array();
        for (const std::uint64_t ip : walk.frames)
            stack["frames"].push_back(frame_json(ip));
        return stack;
    }

    static Json return_probes(const ReturnProbes &probes) {
        Json places = Json::array();
        for (const PendingReturn &pending : probes.pending)
            places.push_back({{"address", hex_text(pending.place)},
                              {"trampoline", hex_text(probes.trampoline)},
                              {"return_address", hex_text(pending.return_address)}});
        return places;
    }

    Json frame_json(std::uint64_t ip) {
        Json frame;
        frame["ip"] = hex_text(ip);
        const Mapping *mapping = modules_.mapping(UserAddress(ip));
        frame["module"] = mapping && !mapping->path.empty() ? Json(valid_utf8(redactor_.text(mapping->path))) : Json();
        const std::string &build_id = mapping ? modules_.build_id(*mapping) : std::string();
        frame["build_id"] = build_id.empty() ? Json() : Json(build_id);
        frame["offset"] = mapping ? Json(hex_text(mapping->offset_of(UserAddress(ip)).value)) : Json();
        for (const char *later : {"symbol", "file", "line"}) // the reader's work
            frame[later] = nullptr;
        frame["inline"] = false;
        return frame;
    }

    Json kernel_stack(const ThreadSnapshot &thread) {
        if (!thread.event)
            return Json::array();
        const auto &event = *thread.event;
        const std::size_t count = std::min<std::size_t>(event.kernel_frames, KERNEL_FRAMES);
        return kernel_stack_json(context_, std::vector<std::uint64_t>(event.kernel_stack, event.kernel_stack + count));
    }

    Json accounting(const ThreadSnapshot &thread) {
        if (!thread.rings)
            return {};
        const bpf::thread_slot &slot = thread.rings->slot;
        const MonotonicTime trigger{context_.input.process.event.h.t_ns};
        const Accounting count = accounting_of(thread, trigger);
        const Account paths = paths_of(*thread.rings);
        Json json;
        json["recorded"] = count.recorded;
        json["after"] = count.after;
        json["left_out"] = count.left_out;
        json["overwritten"] = count.overwritten;
        json["lost"] = count.lost;
        json["since_birth"] = slot.since_birth != 0;
        json["first_t_ns"] = slot.first_ns;
        json["kept_from_ns"] = count.recorded ? Json(thread.rings->syscalls.front().start_ns) : Json();
        json["kept_to_ns"] = count.recorded ? Json(thread.rings->syscalls.back().start_ns) : Json();
        json["past_ns"] = count.past_ns ? Json(*count.past_ns) : Json();
        json["exit_ns"] = slot.exit_ns ? Json(slot.exit_ns) : Json();
        json["opens"] = slot.opens;
        json["opens_kept"] = thread.rings->paths.size();
        json["paths_kept"] = paths.kept;
        json["paths_left_out"] = paths.left_out;
        json["paths_overwritten"] = paths.overwritten();
        json["requests"] = slot.requests;
        json["requests_kept"] = thread.rings->requests.size();
        json["requests_left_out"] = thread.rings->requests_left_out;
        json["requests_lost"] = slot.requests_unkept;
        json["memory_events"] = slot.memory_events;
        json["memory_kept"] = thread.rings->memory.size();
        json["memory_overwritten"] = memory_of(*thread.rings).overwritten();
        json["paths_cut"] = slot.paths_cut;
        json["paths_faulted"] = slot.paths_faulted;
        return json;
    }

    static Json usage(const bpf::thread_event &event) {
        return {{"user_ns", event.user_ns},           {"system_ns", event.system_ns},
                {"minor_faults", event.minor_faults}, {"major_faults", event.major_faults},
                {"voluntary_switches", event.nvcsw},  {"involuntary_switches", event.nivcsw},
                {"capture_ns", event.capture_ns}};
    }

    const RenderContext &context_;
    const Redactor &redactor_;
    Modules modules_;
    std::vector<ShownRequest> requests_;
};

} // namespace

nlohmann::ordered_json threads_of(const RenderContext &context, const Redactor &redactor) {
    return Threads(context, redactor).render();
}

} // namespace incident::capture
