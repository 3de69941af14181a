// timeline.jsonl: one line for every recorded event, exactly one for every call.
//
// A call can have left two records (syscall, memory), tied by thread and start_ns, in rings of different lengths.  Its
// line is made from those that are left:
//   the syscall record:   kind "open" (open, openat, openat2, creat) or "syscall"; path and "memory" beside it
//   a memory record only: kind "alloc"
// A request of io_uring is no call and has a line of its own, of kind "request".
#include "capture/decode/decode.h"
#include "capture/decode/epoll_events.h"
#include "capture/decode/io_request.h"
#include "capture/decode/payload.h"
#include "capture/decode/socket_address.h"
#include "capture/decode/syscalls.h"
#include "capture/os/page_size.h"
#include "capture/render/render_calls.h"
#include "capture/render/render_fds.h"
#include "capture/render/render_json.h"
#include "capture/render/render_lines.h"
#include "capture/render/render_parts.h"
#include "capture/render/render_requests.h"
#include "capture/render/render_tallies.h"
#include "capture/render/render_time.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <iterator>

namespace incident::capture {

namespace {

// Sorted by time; at the same nanosecond what a return made comes before the lines that may use
// it, what an entry takes away after the line of the call that does.
struct Item {
    std::uint64_t t_ns;
    enum Order : std::uint8_t { Returned, Line, Entered } order;
    enum Kind : std::uint8_t { CallLine, RequestLine, ReadyLine, Change } kind;
    std::uint32_t index;
};

class Timeline {
public:
    Timeline(const RenderContext &context, const Redactor &redactor)
        : context_(context), redactor_(redactor), clock_(context.input.clocks),
          fds_(context.collected.file("process/fds"), context.collected.file("process/sockets")) {}

    std::string render() {
        for (const ThreadSnapshot &thread : context_.input.process.threads)
            if (thread.rings)
                add_thread(thread.tid, *thread.rings);
        add_requests();
        ready_ = process_lines(context_, redactor_);
        std::ranges::move(fact_lines(context_, redactor_), std::back_inserter(ready_));
        for (std::uint32_t i = 0; i < ready_.size(); ++i)
            items_.push_back({ready_[i].t_ns, Item::Line, Item::ReadyLine, i});
        std::ranges::stable_sort(items_, [](const Item &a, const Item &b) {
            return a.t_ns != b.t_ns ? a.t_ns < b.t_ns : a.order < b.order;
        });
        for (const Item &item : items_)
            if (item.kind == Item::Change)
                changes_[item.index].announce(fds_);
        constexpr std::size_t usual_line = 320;
        out_.reserve(items_.size() * usual_line);
        for (const Item &item : items_)
            emit(item);
        return std::move(out_);
    }

private:
    void add_thread(std::uint32_t tid, const ThreadRings &rings) {
        by_start_.clear();
        const std::size_t first = calls_.size();
        for (const bpf::syscall_record &record : rings.syscalls) {
            by_start_.emplace_back(record.start_ns, calls_.size());
            calls_.push_back({tid, &record});
        }
        std::ranges::sort(by_start_);
        for (const CallPath &path : rings.paths)
            if (const auto call = recorded_call(path.start_ns); call != by_start_.end())
                calls_[call->second].path = &path;
        for (const CallAddress &address : rings.addresses)
            if (const auto call = recorded_call(address.start_ns); call != by_start_.end())
                calls_[call->second].address = &address;
        for (const CallEvents &events : rings.events)
            if (const auto call = recorded_call(events.start_ns); call != by_start_.end())
                calls_[call->second].events = &events;
        for (const CallPayload &payload : rings.payloads)
            if (const auto call = recorded_call(payload.start_ns); call != by_start_.end())
                calls_[call->second].payload = &payload;
        for (const bpf::memory_record &memory : rings.memory)
            call_at(tid, memory.start_ns ? memory.start_ns : memory.t_ns).memory = &memory;
        for (std::size_t i = first; i < calls_.size(); ++i) {
            items_.push_back({calls_[i].start(), Item::Line, Item::CallLine, static_cast<std::uint32_t>(i)});
            add_changes(static_cast<std::uint32_t>(i));
        }
    }

    void add_requests() {
        requests_ = requests_of(context_.input.process);
        for (std::uint32_t i = 0; i < requests_.size(); ++i) {
            const Request &request = *requests_[i].request;
            items_.push_back({request.t_ns, Item::Line, Item::RequestLine, i});
            const auto same = request_as_call(request);
            // one that was taken back may not even have begun
            if (!same || !has_result(request) || request.result == -ECANCELED || !names_descriptors(request))
                continue;
            // what it did to the table of descriptors, as the call would have done
            Call &call = calls_.emplace_back(Call{requests_[i].tid, &same_calls_.emplace_back(*same)});
            call.request = &request;
            add_changes(static_cast<std::uint32_t>(calls_.size() - 1));
        }
    }

    using ByStart = std::vector<std::pair<std::uint64_t, std::size_t>>;
    // The call of this thread that began then, if it has a syscall record.
    ByStart::const_iterator recorded_call(std::uint64_t start_ns) const {
        const auto it =
            std::ranges::lower_bound(by_start_, start_ns, {}, [](const auto &entry) { return entry.first; });
        return it != by_start_.end() && it->first == start_ns ? it : by_start_.end();
    }

    // The call of this thread that began then; a new one if its syscall record is gone.
    Call &call_at(std::uint32_t tid, std::uint64_t start_ns) {
        if (const auto it = recorded_call(start_ns); it != by_start_.end())
            return calls_[it->second];
        return calls_.emplace_back(Call{tid});
    }

    void add_changes(std::uint32_t index) {
        if (auto change = change_of(calls_[index])) {
            change->call = index;
            items_.push_back({change->t_ns, change->after ? Item::Entered : Item::Returned, Item::Change,
                              static_cast<std::uint32_t>(changes_.size())});
            changes_.push_back(*change);
        }
    }

    void apply(const FdChange &change) {
        const Call &call = calls_[change.call];
        std::string name;
        if (call.address)
            name = peer_text(call.address->bytes);
        else if (change.what == FdChange::What::Open)
            name = call.request ? below(call.request->fd, call.request->path) : opened_path(call);
        change.apply(fds_, std::move(name));
    }

    // As given to the call; below a directory descriptor whose own name is known.
    std::string opened_path(const Call &call) {
        if (!call.path || !is_open_call(call.nr(), call.compat()))
            return {};
        return below(call.directory(), call.path->bytes);
    }
    std::string below(int directory_fd, const std::string &path) {
        if (!path.empty() && path.front() != '/' && directory_fd >= 0)
            if (const std::string_view directory = fds_.name(directory_fd).path; directory.starts_with('/'))
                return std::string(directory) + '/' + path;
        return path;
    }

    void emit(const Item &item) {
        if (item.kind == Item::Change)
            return apply(changes_[item.index]);
        if (item.kind == Item::ReadyLine)
            out_ += ready_[item.index].text;
        else if (item.kind == Item::RequestLine)
            emit_request(requests_[item.index]);
        else
            emit_call(calls_[item.index]);
        out_ += '\n';
    }

    void emit_call(const Call &call) {
        const int nr = call.nr();
        const bool compat = call.compat(), in_flight = call.in_flight();
        const std::string *path = nullptr;
        if (call.path && !call.path->bytes.empty())
            path = redactor_.active() ? &(redacted_ = redactor_.text(call.path->bytes)) : &call.path->bytes;
        DecodedCall decoded = decode_call(call, path);
        const std::int64_t ret = call.ret();
        const bool failed = !in_flight && ret < 0 && ret >= -4095;

        JsonObject line(out_);
        line.number("t_ns", call.start());
        line.text("wall", clock_.of(MonotonicTime{call.start()}));
        line.number("tid", call.tid);
        line.text("kind", !call.record ? "alloc" : is_open_call(nr, compat) ? "open" : "syscall");
        line.text("name", decoded.name);
        line.texts("args", decoded.args);
        in_flight ? line.null("ret") : line.number("ret", ret);
        failed ? line.text("error", errno_name(static_cast<int>(-ret))) : line.null("error");
        call.timed() ? line.number("duration_ns", call.duration()) : line.null("duration_ns");
        path ? line.text("path", *path) : line.null("path");
        const bool made_fd = decoded.returns_fd && !in_flight && ret >= 0 && decoded.fd < 0;
        const int fd = made_fd ? static_cast<int>(ret) : decoded.fd;
        fd >= 0 ? line.number("fd", fd) : line.null("fd");
        line.boolean("in_flight", in_flight);

        if (decoded.returns_pointer && !in_flight && !failed)
            line.hex("ret_text", static_cast<std::uint64_t>(ret));
        if (fd >= 0 && !made_fd)
            emit_fd_name(line, fd);
        if (call.address)
            line.text("address", redactor_.text(peer_text(call.address->bytes)));
        if (call.path)
            emit_path_state(line, *call.path);
        if (call.memory)
            emit_memory(line, *call.memory);
        if (compat)
            line.boolean("compat", true);
        line.end();
    }

    void emit_request(const ShownRequest &shown) {
        const Request &request = *shown.request;
        const std::string path = redactor_.text(request.path);
        DecodedCall decoded = decode_request(request, path.empty() ? nullptr : &path);
        if (request.path_is_cut())
            mark_cut(decoded.args, path);
        const bool over = has_result(request), timed = request.duration_ns < NO_DURATION;
        const bool failed = over && request.result < 0 && request.result >= -4095;
        const bool made_fd = decoded.returns_fd && over && request.result >= 0 && decoded.fd < 0;
        const int fd = made_fd ? request.result : decoded.fd;

        JsonObject line(out_);
        line.number("t_ns", request.t_ns);
        line.text("wall", clock_.of(MonotonicTime{request.t_ns}));
        line.number("tid", shown.tid);
        line.text("kind", "request");
        line.text("name", decoded.name);
        line.texts("args", decoded.args);
        over ? line.number("ret", request.result) : line.null("ret");
        failed ? line.text("error", errno_name(-request.result)) : line.null("error");
        timed ? line.number("duration_ns", request.duration_ns) : line.null("duration_ns");
        path.empty() ? line.null("path") : line.text("path", path);
        fd >= 0 ? line.number("fd", fd) : line.null("fd");
        line.boolean("in_flight", shown.in_flight && !shown.in_doubt);
        if (fd >= 0 && !made_fd)
            emit_fd_name(line, fd);
        line.hex("user_data", request.user_data);
        if (shown.completed_by)
            line.number("completed_by", shown.completed_by);
        const std::string note = shown.in_doubt ? "it may have ended: not every end is told" : request_note(request);
        if (!note.empty())
            line.text("note", note);
        line.end();
    }

    DecodedCall decode_call(const Call &call, const std::string *path) {
        if (call.record) {
            std::array<std::uint64_t, SYSCALL_ARGS> args;
            std::ranges::copy(call.record->args, args.begin());
            DecodedCall decoded = decode_syscall(call.nr(), call.compat(), args.data(), path);
            if (call.record->flags & bpf::SYSCALL_ARGS_GONE)
                decoded.args.clear();
            if (call.address)
                show_address(decoded, redactor_.text(socket_address_text(call.address->bytes)));
            if (call.events)
                show_events(decoded, call.events->bytes, call.ret());
            if (call.payload)
                show_payload(decoded, redactor_.text(call.payload->bytes), holds_all(*call.payload, call.ret()));
            // what openat2's structure said, when the programs have read it
            if (decoded.name == "openat2" && call.open_flags() && decoded.args.size() > 2)
                decoded.args[2] = "{flags=" + open_flags_text(call.open_flags()) + "}";
            if (path && call.path->status == bpf::PATH_CUT)
                mark_cut(decoded.args, *path);
            return decoded;
        }
        DecodedCall decoded;
        decoded.name = syscall_name(call.nr(), call.compat());
        return decoded;
    }

    static std::string open_flags_text(std::uint64_t flags) {
        std::string text;
        decode::append_set(text, tables::set_open_flags, flags);
        return text;
    }

    // strace's mark of a string that goes on
    static void mark_cut(std::vector<std::string> &args, const std::string &path) {
        if (const auto it = std::ranges::find(args, capture::quoted(path)); it != args.end())
            *it += "...";
    }

    void emit_fd_name(JsonObject &line, int fd) {
        const FdTable::Name name = fds_.name(fd);
        if (name.path.empty())
            return;
        redactor_.active() ? line.text("fd_path", redactor_.text(name.path)) : line.text("fd_path", name.path);
        line.text("fd_path_from", name.from);
    }

    static void emit_path_state(JsonObject &line, const CallPath &path) {
        if (path.status == bpf::PATH_CUT)
            line.boolean("path_cut", true);
        else if (path.status == bpf::PATH_FAULT)
            line.text("path_error", "not readable");
        else if (path.status == bpf::PATH_PENDING)
            line.text("path_error", "not read yet");
    }

    static void emit_memory(JsonObject &line, const bpf::memory_record &memory) {
        JsonObject object(line.open("memory"));
        object.number("delta", memory.delta);
        object.number("rss", memory.rss_pages * page_size);
        object.number("minor_faults", memory.minor_faults);
        object.number("major_faults", memory.major_faults);
        object.end();
    }

    const RenderContext &context_;
    const Redactor &redactor_;
    WallClock clock_;
    FdTable fds_;
    std::vector<Call> calls_;
    std::vector<ShownRequest> requests_;
    std::deque<bpf::syscall_record> same_calls_; // of requests
    std::vector<FdChange> changes_;
    std::vector<ProcessLine> ready_;
    std::vector<Item> items_;
    ByStart by_start_; // calls with a syscall record, of one thread
    std::string out_, redacted_;
};

} // namespace

std::string timeline_of(const RenderContext &context, const Redactor &redactor) {
    return Timeline(context, redactor).render();
}

} // namespace incident::capture
