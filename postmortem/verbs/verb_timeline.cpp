// incidentctl timeline: shows what happened before the trigger, like strace, with times relative to it.
#include "postmortem/read/incident.h"
#include "postmortem/show/timeline_line.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/verbs/verbs.h"

#include <algorithm>
#include <array>
#include <deque>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

namespace incident::postmortem {

namespace {

constexpr std::size_t thread_names_max = 65536;
// The kinds that incident-bundle(5) lists.
constexpr std::array<std::string_view, 12> event_kinds{"syscall", "request", "open",  "alloc", "signal", "fork",
                                                       "exec",    "exit",    "clock", "log",   "fact",   "trigger"};
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

// As the daemon writes it: a line that is written otherwise counts as an event.
bool is_log(std::string_view line) {
    return line.find("\"kind\":\"log\"") != line.npos;
}

// The last N events, and what was logged since the first of them: there may be much of it after the trigger, and it
// must not take the events' places.  Of very much the newest stays.
class Newest {
public:
    // cut: older events were passed over already.
    Newest(std::size_t most, bool of_logs, bool cut) : most_(most), of_logs_(of_logs), cut_(cut || most == 0) {}
    void add(std::string text, bool log) {
        std::deque<Line> &lines = log && !of_logs_ ? logs_ : events_;
        lines.push_back({next_++, std::move(text)});
        while (events_.size() > most_) {
            events_.pop_front();
            cut_ = true;
        }
        while (!logs_.empty() && cut_ && events_.size() == most_ && (most_ == 0 || logs_.front().number < first()))
            logs_.pop_front();
        while (logs_.size() > most_logs) {
            logs_end_ = logs_.front().number;
            logs_.pop_front();
        }
    }
    template <typename Show> void each(Show show) const {
        auto log = logs_.begin();
        for (const Line &event : events_) {
            for (; log != logs_.end() && log->number < event.number; ++log)
                show(log->text);
            show(event.text);
        }
        for (; log != logs_.end(); ++log)
            show(log->text);
    }
    // Older lines of the log belong here, and are not.
    bool misses_logs() const { return logs_end_ && (events_.size() < most_ || *logs_end_ > first()); }
    static constexpr std::size_t most_logs = 8192;

private:
    struct Line {
        std::uint64_t number;
        std::string text;
    };
    std::uint64_t first() const { return events_.empty() ? next_ : events_.front().number; }

    std::size_t most_;
    bool of_logs_, cut_;
    std::deque<Line> events_, logs_;
    std::uint64_t next_ = 0;
    std::optional<std::uint64_t> logs_end_; // the last that was dropped because there were so many
};

class Timeline : public Verb {
public:
    std::string_view name() const override { return "timeline"; }
    std::string_view summary() const override { return "Show the recorded events that led to the incident"; }

    void declare(Options &options) override {
        options.id(id_);
        options.count("-n", "N", last_, "only the last N events, and what was logged since the first of them");
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
        options.flag("--after", after_, "also calls that began after the trigger");
        options.notes("Times are relative to the trigger.");
    }

    Result<int> run(Session &session) override {
        const auto opened = open_bundle(session, id_);
        if (!opened)
            return fail(opened.error());
        const auto incident = Incident::read(opened->bundle);
        if (!incident)
            return fail(incident.error());
        style_ = {.trigger_ns = incident->trigger_ns().value_or(0), .comms = thread_names(opened->bundle)};
        if (!after_ && !session.json) // a program sees all
            query_.latest_ns = incident->trigger_ns();
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
            const auto count = [&](std::string_view line) {
                all += !is_log(line);
                return true;
            };
            if (const Status counted = bundle.lines("timeline.jsonl", count); !counted)
                return counted;
            skip = all > *last_ ? all - *last_ : 0;
        }
        Newest kept(last_.value_or(0), query_.kind == "log", skip > 0); // where only the last N are wanted
        std::uint64_t later = 0;
        simdjson::dom::parser parser;
        const Status read = bundle.lines("timeline.jsonl", [&](std::string_view line) {
            simdjson::dom::element event;
            if (skip > 0) {
                skip -= !is_log(line);
            } else if (line.empty()) {
            } else if (parser.parse(line.data(), line.size()).get(event) || !event.is_object()) {
                ++unreadable;
            } else if (query_.wants(event) && query_.is_later(event)) {
                ++later;
            } else if (query_.wants(event)) {
                auto text = session.json ? as_json(line, event)
                                         : Result<std::string>(timeline_line(event, style_, session.out));
                if (!text)
                    ++unreadable;
                else if (!last_)
                    session.out.line(*text);
                else
                    kept.add(std::move(*text), is_log(line));
            }
            return !session.out.closed();
        });
        kept.each([&](const std::string &text) { session.out.line(text); });
        if (kept.misses_logs())
            session.say(
                fmt::format("older lines of the log are not shown: of each timeline at most {}", Newest::most_logs));
        if (later)
            session.out.line(fmt::format("… {} calls that began after the trigger: --after shows them", later));
        return read;
    }

    // In ASCII, which most lines are already: a terminal may be what reads it.
    static Result<std::string> as_json(std::string_view line, simdjson::dom::element event) {
        std::string text = simdjson::minify(event);
        if (std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; }))
            return text;
        const auto document = parse_json(line);
        return document ? Result<std::string>(dump_json(*document)) : fail(document.error());
    }

    std::string id_;
    std::optional<std::uint64_t> last_;
    bool after_ = false;
    std::int64_t since_ns_ = since_ever;
    TimelineQuery query_;
    TimelineStyle style_;
};

} // namespace

std::unique_ptr<Verb> make_timeline() {
    return std::make_unique<Timeline>();
}

} // namespace incident::postmortem
