#include "capture/render/merge_words.h"

#include "capture/bundle/json_member.h"
#include "capture/decode/decode_text.h"
#include "capture/decode/syscalls.h"
#include "capture/render/render.h"
#include "capture/render/render_json.h"
#include "capture/render/render_parts.h"
#include "capture/render/render_time.h"

#include <algorithm>
#include <charconv>

namespace incident::capture {

namespace {

constexpr std::string_view time_key = "{\"t_ns\":";

// The time that a line of the timeline begins with; that of the line before, if it has none.
std::uint64_t time_of_line(std::string_view line, std::uint64_t before) {
    std::uint64_t t_ns = before;
    if (line.starts_with(time_key))
        (void)std::from_chars(line.data() + time_key.size(), line.data() + line.size(), t_ns);
    return t_ns;
}

// The redacted text that stays, as LogLine shows it.
void take_text(const Redactor &redactor, Word &word) {
    word.message = redactor.text(word.message);
    word.identifier = redactor.text(word.identifier);
    if (word.message.size() > LogLine::longest) {
        word.message.resize(LogLine::longest);
        word.cut = true;
    }
}

std::string journal_line(const Word &word) {
    std::string text;
    JsonObject line(text);
    line.number("t_ns", word.at.ns);
    line.number("realtime_us", word.shown.ns / 1000);
    line.text("source", name_of(word.source));
    word.pid ? line.number("pid", *word.pid) : line.null("pid");
    word.uid ? line.number("uid", *word.uid) : line.null("uid");
    line.text("identifier", word.identifier);
    word.priority ? line.number("priority", *word.priority) : line.null("priority");
    line.text("transport", word.transport);
    line.text("message", word.message);
    line.boolean("cut", word.cut);
    line.end();
    return text;
}

Json texts_or_null(const Redactor &redactor, std::string_view text) {
    return text_or_null(redactor.text(text));
}

Json nearby_json(const Past &past, const Redactor &redactor) {
    Json incidents = Json::array(), cores = Json::array(), problems = Json::array();
    for (const NearbyIncident &one : past.incidents.incidents) // redacted when they were written
        incidents.push_back({{"id", valid_utf8(one.id)},
                             {"time", text_or_null(one.time)},
                             {"rule", text_or_null(one.rule)},
                             {"kind", text_or_null(one.kind)},
                             {"signal", text_or_null(one.signal)},
                             {"exe", text_or_null(one.exe)},
                             {"pid", one.pid},
                             {"summary", text_or_null(one.summary)}});
    for (const NearbyCore &core : past.cores.cores)
        cores.push_back({{"time", wall_text(core.at)},
                         {"pid", core.pid},
                         {"signal", core.signal ? Json(signal_name(core.signal)) : Json()},
                         {"exe", texts_or_null(redactor, core.exe)},
                         {"comm", texts_or_null(redactor, core.comm)},
                         {"file", texts_or_null(redactor, core.file)}});
    for (const std::string &problem : {past.incidents.problem, past.cores.problem})
        if (!problem.empty())
            problems.push_back(valid_utf8(problem));
    return {{"incidents", std::move(incidents)},
            {"more_incidents", past.incidents.more},
            {"cores", std::move(cores)},
            {"more_cores", past.cores.more},
            {"problems", std::move(problems)}};
}

// As render_quality.cpp makes it of the collectors that are done when the bundle is written.
class QualityOfWords {
public:
    explicit QualityOfWords(Json &quality) : quality_(quality) {}

    void add(const LastWords &words) {
        if (!quality_.is_object() || words.state == LastWords::State::None)
            return;
        const std::string losses = words.losses();
        list("collectors")
            .push_back({{"name", "journal"},
                        {"ok", words.state == LastWords::State::Read},
                        {"error", text_or_null(losses)},
                        {"us", words.took_us}});
        if (words.state != LastWords::State::Read)
            because("collector journal failed");
        loss("older lines, beyond the limit of bytes", words.left_out_before);
        loss("later lines, beyond the limits of lines and bytes", words.left_out_after);
        loss("entries not readable", words.unreadable);
        loss("lines that journald did not take (RateLimitBurst=)", words.suppressed);
        loss("older lines: the deadline passed", words.deadline_passed);
        loss("older lines: too many entries to look at", words.entries_exceeded);
        loss("later lines: incidentd ended", words.ended_early);
        loss("texts left out whole by redaction: matching the patterns took too long", words.redaction_gave_up);
    }

private:
    Json &list(const char *key) {
        Json &found = quality_[key];
        if (!found.is_array())
            found = Json::array();
        return found;
    }
    void because(std::string reason) {
        list("incomplete_because").push_back(std::move(reason));
        quality_["complete"] = false;
    }
    void loss(const std::string &what, std::uint64_t count) {
        if (!count)
            return;
        list("losses").push_back({{"where", "journal"}, {"reason", what}, {"count", count}});
        because("journal: " + what + " (" + std::to_string(count) + ")");
    }

    Json &quality_;
};

} // namespace

std::string log_line(const LogLine &log) {
    std::string text;
    JsonObject line(text);
    line.number("t_ns", log.t_ns);
    line.text("wall", log.wall);
    line.null("tid");
    line.text("kind", "log");
    line.text("name", log.identifier);
    line.texts("args", std::vector<std::string>{});
    line.null("ret");
    line.null("error");
    line.null("duration_ns");
    line.null("path");
    line.null("fd");
    line.boolean("in_flight", false);
    line.text("source", log.source);
    log.pid ? line.number("pid", *log.pid) : line.null("pid");
    log.priority ? line.number("priority", *log.priority) : line.null("priority");
    line.text("message", log.message.substr(0, LogLine::longest));
    line.boolean("cut", log.cut || log.message.size() > LogLine::longest);
    line.end();
    return text;
}

std::string merge_lines(std::string_view timeline, const std::vector<TimedLine> &lines) {
    std::string merged;
    std::size_t bytes = timeline.size() + 1;
    for (const TimedLine &line : lines)
        bytes += line.text.size() + 1;
    merged.reserve(bytes);
    auto next = lines.begin();
    std::uint64_t at = 0;
    while (!timeline.empty()) {
        const std::size_t end = std::min(timeline.find('\n'), timeline.size());
        at = time_of_line(timeline.substr(0, end), at);
        for (; next != lines.end() && next->t_ns < at; ++next)
            (merged += next->text) += '\n';
        (merged += timeline.substr(0, end)) += '\n';
        timeline.remove_prefix(std::min(end + 1, timeline.size()));
    }
    for (; next != lines.end(); ++next)
        (merged += next->text) += '\n';
    return merged;
}

nlohmann::ordered_json last_words_json(const LastWords &words) {
    const std::size_t before = words.count_before();
    return {{"state", name_of(words.state)},
            {"reason", text_or_null(words.reason)},
            {"before", before},
            {"after", words.words.size() - before},
            {"until_ns", words.until.ns ? Json(words.until.ns) : Json()},
            {"more_before", words.more_before},
            {"cut", words.count_cut()},
            {"left_out_before", words.left_out_before},
            {"left_out_after", words.left_out_after},
            {"unreadable", words.unreadable},
            {"suppressed", words.suppressed},
            {"journal_begins_ns", words.journal_begins.ns ? Json(words.journal_begins.ns) : Json()},
            {"losses", words.state == LastWords::State::Read ? text_or_null(words.losses()) : Json()}};
}

Result<BundleFiles> merge_past(const std::string &incident_json, const std::string &threads_json,
                               const std::string &timeline, Past past, const std::vector<std::string> &redact) {
    Json incident = Json::parse(incident_json, nullptr, false);
    if (!incident.is_object())
        return fail("incident.json: not a JSON object");
    const Json threads = Json::parse(threads_json, nullptr, false);
    if (!threads.is_array())
        return fail("threads.json: not a list of threads");
    const Redactor redactor(redact);
    LastWords &words = past.words;
    std::string journal;
    std::vector<TimedLine> lines;
    for (Word &word : words.words) {
        take_text(redactor, word);
        (journal += journal_line(word)) += '\n';
        lines.push_back({word.at.ns, log_line({.t_ns = word.at.ns,
                                               .wall = wall_text(word.shown),
                                               .source = name_of(word.source),
                                               .identifier = word.identifier,
                                               .message = word.message,
                                               .pid = word.pid,
                                               .priority = word.priority,
                                               .cut = word.cut})});
    }
    incident["nearby"] = nearby_json(past, redactor);
    words.redaction_gave_up = redactor.given_up();
    incident["last_words"] = last_words_json(words);
    QualityOfWords(incident["quality"]).add(words);

    BundleFiles files;
    const std::string merged = lines.empty() ? timeline : merge_lines(timeline, lines);
    if (!lines.empty())
        files.emplace_back("timeline.jsonl", merged);
    if (words.state == LastWords::State::Read)
        files.emplace_back("journal.jsonl", std::move(journal));
    files.emplace_back("summary.txt", render_summary(incident, threads, merged));
    files.emplace_back("incident.json", json_text(incident));
    return files;
}

} // namespace incident::capture
