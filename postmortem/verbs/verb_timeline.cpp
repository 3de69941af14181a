// incidentctl timeline: what happened before, strace-like, relative to the trigger.
#include "postmortem/read/incident.h"
#include "postmortem/show/timeline_block.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/terminal/times.h"
#include "postmortem/verbs/verbs.h"

#include <algorithm>
#include <array>
#include <deque>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <future>
#include <thread>

namespace incident::postmortem {

namespace {

constexpr std::size_t thread_names_max = 65536;
constexpr std::size_t block_bytes = 256 * 1024;
constexpr std::size_t workers_max = 8;
// As incident-bundle(5) has them.
constexpr std::array<std::string_view, 8> event_kinds{"syscall", "open", "alloc", "signal",
                                                      "fork",    "exec", "exit",  "trigger"};
constexpr std::int64_t since_ever = INT64_MIN; // no --since; no duration is that long

std::unordered_map<std::uint64_t, std::string> thread_names(const capture::Bundle &bundle) {
    std::unordered_map<std::uint64_t, std::string> names;
    const auto document = read_json(bundle, "threads.json", threads_json_max);
    if (!document)
        return names; // the timeline is worth showing all the same
    JsonView(*document).each([&](JsonView thread) {
        if (const auto tid = thread["tid"].natural(); tid && names.size() < thread_names_max)
            names.emplace(*tid, clipped(printable(thread["comm"].text()), 16));
    });
    return names;
}

// Renders blocks on all CPUs and hands them on in order: 100,000 events take one CPU half a second.
class Pipeline {
public:
    using Sink = std::function<bool(RenderedBlock)>; // false: no more is wanted
    Pipeline(const TimelineQuery &query, const TimelineStyle &style, Sink sink)
        : query_(query), style_(style), sink_(std::move(sink)) {}

    bool add(std::string_view line) {
        block_.append(line) += '\n';
        return block_.size() < block_bytes || dispatch();
    }

    void finish() {
        (void)dispatch();
        while (!running_.empty() && take()) {
        }
    }

private:
    bool dispatch() {
        auto render = [this, lines = std::exchange(block_, {})] { return render_block(lines, query_, style_); };
        running_.push_back(std::async(workers_ > 1 ? std::launch::async : std::launch::deferred, std::move(render)));
        return running_.size() < workers_ || take();
    }

    bool take() {
        RenderedBlock block = running_.front().get();
        running_.pop_front();
        return sink_(std::move(block));
    }

    const TimelineQuery &query_;
    const TimelineStyle &style_;
    Sink sink_;
    std::size_t workers_ = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, workers_max);
    std::string block_;
    std::deque<std::future<RenderedBlock>> running_;
};

class Timeline : public Verb {
public:
    std::string_view name() const override { return "timeline"; }
    std::string_view summary() const override { return "Show the recorded events that led to the incident"; }

    void declare(Options &options) override {
        options.id(id_);
        options.count("-n", "N", last_, "only the last N events");
        options.count("--tid", "TID", query_.tid, "only this thread's");
        options.value("--kind", "KIND", fmt::format("only of this kind: {}", fmt::join(event_kinds, ", ")),
                      [this](const std::string &given) -> Status {
                          if (std::ranges::find(event_kinds, given) == event_kinds.end())
                              return fail(fmt::format("'{}' is none of {}", given, fmt::join(event_kinds, ", ")));
                          query_.kind = given;
                          return {};
                      });
        options.duration("--since", "TIME", since_ns_, "only from this long before the trigger on: -5s");
        options.flag("--errors", query_.errors, "only calls that failed");
        options.notes("Times are relative to the trigger.");
    }

    Result<int> run(Session &session) override {
        const auto opened = open_bundle(session, id_);
        if (!opened)
            return fail(opened.error());
        const auto incident = Incident::read(opened->bundle);
        if (!incident)
            return fail(incident.error());
        style_ = {.json = session.json,
                  .trigger_ns = incident->trigger_ns().value_or(0),
                  .comms = thread_names(opened->bundle),
                  .out = &session.out};
        if (since_ns_ != since_ever) {
            // Both numbers come from outside: the difference may not fit.
            std::int64_t earliest = 0;
            if (__builtin_sub_overflow(style_.trigger_ns, since_ns_ < 0 ? -since_ns_ : since_ns_, &earliest))
                earliest = INT64_MIN;
            query_.earliest_ns = earliest;
        }
        session.out.page();
        std::uint64_t unreadable = 0;
        if (const Status shown = show(opened->bundle, session, unreadable); !shown)
            return fail(Error(shown.error()).in("corrupt bundle"));
        if (unreadable == 0)
            return exit_done;
        session.say(fmt::format("corrupt bundle {}: timeline.jsonl: {} lines are not JSON objects",
                                opened->bundle.name(), unreadable));
        return exit_failed;
    }

private:
    Status show(const capture::Bundle &bundle, Session &session, std::uint64_t &unreadable) const {
        std::uint64_t skip = 0;
        if (last_ && !query_.filters()) { // counting lines is cheap, rendering those not shown is not
            std::uint64_t all = 0;
            if (const Status counted = bundle.lines("timeline.jsonl", [&](std::string_view) { return ++all; });
                !counted)
                return counted;
            skip = all > *last_ ? all - *last_ : 0;
        }
        std::deque<RenderedBlock> kept; // the end, where only the last N are wanted
        std::uint64_t kept_lines = 0;
        Pipeline pipeline(query_, style_, [&](RenderedBlock block) {
            unreadable += block.unreadable;
            if (!last_) {
                session.out.write(block.text);
                return !session.out.closed();
            }
            kept_lines += block.ends.size();
            kept.push_back(std::move(block));
            while (kept_lines - kept.front().ends.size() >= *last_ && kept.size() > 1) {
                kept_lines -= kept.front().ends.size();
                kept.pop_front();
            }
            return true;
        });
        const Status read = bundle.lines("timeline.jsonl", [&](std::string_view line) {
            if (skip > 0) {
                --skip;
                return true;
            }
            return pipeline.add(line);
        });
        pipeline.finish();
        if (last_)
            print_last(kept, kept_lines, session.out);
        return read;
    }

    void print_last(const std::deque<RenderedBlock> &kept, std::uint64_t lines, Output &out) const {
        std::uint64_t skip = lines > *last_ ? lines - *last_ : 0;
        for (const RenderedBlock &block : kept) {
            const std::uint64_t here = std::min<std::uint64_t>(skip, block.ends.size());
            skip -= here;
            out.write(std::string_view(block.text).substr(here ? block.ends[here - 1] : 0));
        }
    }

    std::string id_;
    std::optional<std::uint64_t> last_;
    std::int64_t since_ns_ = since_ever;
    TimelineQuery query_;
    TimelineStyle style_;
};

} // namespace

std::unique_ptr<Verb> make_timeline() {
    return std::make_unique<Timeline>();
}

} // namespace incident::postmortem
