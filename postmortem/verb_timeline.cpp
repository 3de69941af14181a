// incidentctl timeline: what happened before, strace-like, relative to the trigger.
#include "capture/timeline_text.h"
#include "postmortem/escape.h"
#include "postmortem/incident.h"
#include "postmortem/times.h"
#include "postmortem/verbs.h"

#include <deque>
#include <fmt/format.h>
#include <unordered_map>

namespace incident::postmortem {

namespace {

constexpr std::size_t thread_names_max = 65536;

// tid → comm; empty if there is one thread at most, for whom no column is needed.
std::unordered_map<std::uint64_t, std::string> thread_names(const capture::Bundle &bundle) {
    std::unordered_map<std::uint64_t, std::string> names;
    const auto document = read_json(bundle, "threads.json", threads_json_max);
    if (!document)
        return names; // the column then shows the tid alone
    JsonView(*document).each([&](JsonView thread) {
        if (const auto tid = thread["tid"].natural(); tid && names.size() < thread_names_max)
            names.emplace(*tid, clipped(printable(thread["comm"].text()), 16));
    });
    return names;
}

class Timeline : public Verb {
public:
    std::string_view name() const override { return "timeline"; }
    std::string_view summary() const override { return "Show the recorded events that led to the incident"; }

    void declare(Options &options) override {
        options.id(id_);
        options.count("-n", "N", last_, "only the last N events");
        options.count("--tid", "TID", tid_, "only this thread's");
        options.text("--kind", "KIND", kind_, "only of this kind: syscall, open, signal, ...");
        options.value("--since", "TIME", "only from this long before the trigger on: -5s",
                      [this](const auto &given) { return take_since(given); });
        options.flag("--errors", errors_, "only calls that failed");
        options.notes("Times are relative to the trigger.");
    }

    Result<int> run(Session &session) override {
        const auto opened = open_bundle(session, id_);
        if (!opened)
            return fail(opened.error());
        const auto incident = Incident::read(opened->bundle);
        if (!incident)
            return fail(incident.error());
        trigger_ns_ = incident->trigger_ns().value_or(0);
        // Both come from outside: the sum may not fit.
        if (since_ns_ && __builtin_add_overflow(trigger_ns_, *since_ns_, &earliest_ns_))
            earliest_ns_ = INT64_MIN;
        names_ = thread_names(opened->bundle);
        session.out.page();
        std::uint64_t unreadable = 0;
        const Status read = opened->bundle.lines("timeline.jsonl", [&](std::string_view line) {
            show(line, session, unreadable);
            return !session.out.closed();
        });
        if (!read)
            return fail(Error(read.error()).in("corrupt bundle " + opened->bundle.name()));
        for (const std::string &text : kept_)
            session.out.line(text);
        if (unreadable == 0)
            return exit_done;
        session.say(fmt::format("corrupt bundle {}: timeline.jsonl: {} lines are not JSON objects",
                                opened->bundle.name(), unreadable));
        return exit_failed;
    }

private:
    Status take_since(const std::string &given) {
        const auto parsed = parse_duration(given);
        if (!parsed)
            return fail(parsed.error());
        since_ns_ = *parsed < 0 ? *parsed : -*parsed;
        return {};
    }

    void show(std::string_view line, Session &session, std::uint64_t &unreadable) {
        if (line.empty())
            return;
        const auto document = parse_json(line);
        if (!document || !document->is_object()) {
            ++unreadable;
            return;
        }
        if (!wanted(*document))
            return;
        std::string text = session.json ? dump_json(*document) : column(*document) + text_of(*document, session.out);
        if (!last_) {
            session.out.line(text);
            return;
        }
        kept_.push_back(std::move(text));
        if (kept_.size() > *last_)
            kept_.pop_front();
    }

    bool wanted(JsonView event) const {
        if (tid_ && event["tid"].natural() != tid_)
            return false;
        if (!kind_.empty() && event["kind"].text() != kind_)
            return false;
        if (since_ns_ && event["t_ns"].integer().value_or(INT64_MAX) < earliest_ns_)
            return false;
        return !errors_ || !event["error"].shown().empty();
    }

    std::string text_of(const Json &event, const Output &out) const {
        const std::string text = capture::timeline_text(event, trigger_ns_);
        return out.tone(JsonView(event)["error"].shown().empty() ? Tone::Plain : Tone::Warn, text);
    }

    std::string column(JsonView event) const {
        if (names_.size() < 2)
            return "";
        const auto tid = event["tid"].natural();
        const auto known = tid ? names_.find(*tid) : names_.end();
        const std::string comm = known == names_.end() ? "" : known->second;
        return fmt::format("{:>7} {} ", tid ? std::to_string(*tid) : "-", padded(comm, 16));
    }

    std::string id_, kind_;
    std::optional<std::uint64_t> last_, tid_;
    std::optional<std::int64_t> since_ns_;
    bool errors_ = false;
    std::int64_t trigger_ns_ = 0, earliest_ns_ = INT64_MIN;
    std::unordered_map<std::uint64_t, std::string> names_;
    std::deque<std::string> kept_;
};

} // namespace

std::unique_ptr<Verb> make_timeline() {
    return std::make_unique<Timeline>();
}

} // namespace incident::postmortem
