#include "postmortem/show/facts_view.h"

#include "capture/render/timeline_text.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/terminal/times.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace incident::postmortem {

namespace {

constexpr std::size_t shown = 6; // of each kind
constexpr std::size_t longest_line = 200;

// "3.2 s before"; "" if the time is later, or nobody knows when the trigger was.
std::string before(JsonView time, std::optional<std::int64_t> trigger_ns) {
    const auto at = time.integer();
    std::int64_t since = 0;
    if (!at || !trigger_ns || __builtin_sub_overflow(*trigger_ns, *at, &since) || since < 0)
        return "";
    return capture::duration_text(since) + " before";
}

// "12 times, 5 in the last minute, last 3.2 s before"
std::string how_often(JsonView fact, std::optional<std::int64_t> trigger_ns) {
    const std::uint64_t met = fact["met"].count(), minute = fact["minute"].count(), hour = fact["hour"].count();
    std::string text = met == 1 ? "once" : fmt::format("{} times", met);
    if (met > 1 && minute && minute < met)
        text += fmt::format(", {} in the last minute", minute);
    else if (met > 1 && hour && hour < met)
        text += fmt::format(", {} in the last hour", hour);
    if (const std::string last = before(fact["last_ns"], trigger_ns); !last.empty())
        text += (met == 1 ? ", " : ", last ") + last;
    return text;
}

std::string result_of(JsonView fact) {
    const std::uint64_t failed = fact["failed"].count(), met = fact["met"].count();
    if (!failed)
        return "";
    const std::string error = printable(fact["error"].shown());
    const std::string how_many = failed == met ? std::string("failed") : fmt::format("{} failed", failed);
    return ", " + how_many + (error.empty() ? "" : " (" + error + ")");
}

// The facts of one kind that were met last, but those that say little behind all others.
class Newest {
public:
    void add(std::int64_t last_ns, std::string line, bool says_little = false) {
        ++count_;
        lines_.push_back({says_little, last_ns, std::move(line)});
        std::ranges::stable_sort(lines_, [](const Line &a, const Line &b) {
            return a.says_little != b.says_little ? b.says_little : a.last_ns > b.last_ns;
        });
        if (lines_.size() > shown)
            lines_.pop_back();
    }
    std::vector<std::string> take(std::string_view kind) {
        std::vector<std::string> lines;
        lines.reserve(lines_.size() + 1);
        for (const Line &line : lines_)
            lines.push_back(clipped(line.text, longest_line));
        if (count_ > lines.size())
            lines.push_back(fmt::format("… {} more (facts.jsonl, kind {})", count_ - lines.size(), kind));
        return lines;
    }

private:
    struct Line {
        bool says_little;
        std::int64_t last_ns;
        std::string text;
    };
    std::vector<Line> lines_;
    std::size_t count_ = 0;
};

} // namespace

FactLines fact_lines(const capture::Bundle &bundle, std::optional<std::int64_t> trigger_ns) {
    FactLines lines;
    if (!bundle.has("facts.jsonl"))
        return lines;
    Newest peers, failures, slow, files, growth;
    const Status read = bundle.lines("facts.jsonl", [&](std::string_view text) {
        const auto document = parse_json(text);
        if (!document || !document->is_object())
            return true;
        const JsonView fact = *document;
        const std::string kind = printable(fact["kind"].text()), name = printable(fact["name"].shown()),
                          what = printable(fact["what"].shown());
        const std::int64_t last = fact["last_ns"].integer().value_or(0);
        const std::string often = how_often(fact, trigger_ns);
        if (kind == "peer")
            peers.add(last, fmt::format("{}  {}, {}{}", what, name, often, result_of(fact)));
        else if (kind == "failure")
            failures.add(last, fmt::format("{}  {}, {}", name, what, often), what == "EAGAIN"); // event loops
        else if (kind == "slow" && !fact["idle"].flag())
            slow.add(last, fmt::format("{}  over {}, {}, at most {}", name, what, often,
                                       capture::duration_text(fact["longest_ns"].integer().value_or(0))));
        else if (kind == "path")
            files.add(last,
                      fmt::format("{}{}  {}, {}{}", fact["cut"].flag() ? "…" : "", what, name, often, result_of(fact)));
        else if (kind == "memory")
            growth.add(fact["first_ns"].integer().value_or(0),
                       fmt::format("{} resident, first {}", size_text(fact["what"].count()),
                                   before(fact["first_ns"], trigger_ns)));
        return true;
    });
    lines = {peers.take("peer"), failures.take("failure"), slow.take("slow"), files.take("path"),
             growth.take("memory")};
    if (!read)
        lines.failures.push_back("not read: " + printable(read.error().what));
    return lines;
}

} // namespace incident::postmortem
