#include "postmortem/show/past_view.h"

#include "capture/render/timeline_text.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/terminal/times.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>

namespace incident::postmortem {

namespace {

constexpr std::size_t words_before = 10, words_after = 10, output_shown = 5, nearby_shown = 8;
constexpr std::size_t longest_word = 400; // columns
constexpr std::uint64_t output_max = 1u << 20;

std::string word_text(JsonView word, std::int64_t trigger_ns) {
    std::int64_t since = 0; // both numbers may come from outside
    if (__builtin_sub_overflow(word["t_ns"].integer().value_or(trigger_ns), trigger_ns, &since))
        since = 0;
    std::string text = capture::relative_time(since) + "  " + printable(word["identifier"].text());
    if (word["pid"].natural())
        text += fmt::format("[{}]", *word["pid"].natural());
    text = clipped(text + ": " + printable(word["message"].text()), longest_word);
    return word["cut"].flag() && !text.ends_with("…") ? text + "…" : text;
}

// " (3 min before)"
std::string how_long_before(JsonView time, std::optional<std::int64_t> trigger_wall_ns) {
    const auto then = parse_iso_time(time.text());
    if (!then || !trigger_wall_ns || *then > *trigger_wall_ns)
        return "";
    return fmt::format(" ({} before)",
                       span_text(static_cast<std::uint64_t>(*trigger_wall_ns) - static_cast<std::uint64_t>(*then)));
}

} // namespace

std::vector<std::string> last_word_lines(JsonView incident, const capture::Bundle &bundle,
                                         std::optional<std::int64_t> trigger_ns) {
    const JsonView words = incident["last_words"];
    if (!words.is_object())
        return {};
    const std::string state = printable(words["state"].text());
    if (state != "read")
        return {(state == "failed" ? "not read" : state) + ": " + printable(words["reason"].shown())};
    const std::int64_t trigger = trigger_ns.value_or(0);
    std::deque<std::string> before;
    std::vector<std::string> after;
    std::size_t earlier = 0, later = 0;
    const Status read = bundle.lines("journal.jsonl", [&](std::string_view line) {
        const auto document = parse_json(line);
        if (!document || !document->is_object())
            return true;
        const JsonView word = *document;
        if (word["t_ns"].integer().value_or(trigger) > trigger) {
            if (after.size() < words_after)
                after.push_back(word_text(word, trigger));
            else
                ++later;
        } else if (before.push_back(word_text(word, trigger)); before.size() > words_before) {
            before.pop_front();
            ++earlier;
        }
        return true;
    });
    if (!read)
        return {"not read: " + printable(read.error().what)};
    std::vector<std::string> lines;
    if (earlier)
        lines.push_back(fmt::format("… {} earlier (incidentctl timeline --kind log)", earlier));
    lines.insert(lines.end(), before.begin(), before.end());
    lines.insert(lines.end(), after.begin(), after.end());
    if (later)
        lines.push_back(fmt::format("… {} later", later));
    if (lines.empty())
        lines.emplace_back("none in the journal");
    return lines;
}

std::vector<std::string> output_lines(const capture::Bundle &bundle, const std::string &name) {
    const auto text = bundle.read("process/" + name, output_max);
    std::deque<std::string> last;
    if (!text)
        return {};
    for (std::size_t begin = 0; begin < text->size();) {
        const std::size_t end = std::min(text->find('\n', begin), text->size());
        last.push_back(clipped(printable(std::string_view(*text).substr(begin, end - begin)), longest_word));
        if (last.size() > output_shown)
            last.pop_front();
        begin = end + 1;
    }
    return {last.begin(), last.end()};
}

std::vector<std::string> nearby_lines(JsonView incident, std::optional<std::int64_t> trigger_wall_ns) {
    const JsonView nearby = incident["nearby"], incidents = nearby["incidents"], cores = nearby["cores"];
    std::vector<std::pair<std::string, std::string>> all; // time, text
    std::set<std::uint64_t> named;
    for (std::size_t i = 0; i < incidents.size(); ++i) {
        const JsonView one = incidents.at(i);
        named.insert(one["pid"].count());
        std::string what = printable(one["signal"].shown());
        for (const char *key : {"kind", "exe"})
            if (const std::string text = printable(one[key].shown()); what.empty() || key == std::string_view("exe"))
                what += (what.empty() || text.empty() ? "" : " ") + text;
        all.emplace_back(printable(one["time"].shown()), fmt::format("{}  {}{}", printable(one["id"].shown()), what,
                                                                     how_long_before(one["time"], trigger_wall_ns)));
    }
    for (std::size_t i = 0; i < cores.size(); ++i) {
        const JsonView one = cores.at(i);
        if (named.contains(one["pid"].count())) // the incident has it
            continue;
        all.emplace_back(printable(one["time"].shown()),
                         fmt::format("core of {}[{}]  {} {}{}", printable(one["comm"].shown()), one["pid"].count(),
                                     printable(one["signal"].shown()), printable(one["exe"].shown()),
                                     how_long_before(one["time"], trigger_wall_ns)));
    }
    std::ranges::stable_sort(all, {}, [](const auto &one) { return one.first; });
    std::vector<std::string> lines;
    const std::uint64_t hidden = all.size() - std::min(all.size(), nearby_shown) + nearby["more_incidents"].count() +
                                 nearby["more_cores"].count();
    if (hidden)
        lines.push_back(fmt::format("… {} earlier", hidden));
    for (std::size_t i = all.size() - std::min(all.size(), nearby_shown); i < all.size(); ++i)
        lines.push_back(all[i].second);
    const JsonView problems = nearby["problems"];
    for (std::size_t i = 0; i < std::min<std::size_t>(problems.size(), 2); ++i)
        lines.push_back("some may be missing: " + printable(problems.at(i).shown()));
    return lines;
}

} // namespace incident::postmortem
