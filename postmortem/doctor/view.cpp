#include "postmortem/doctor/view.h"

#include "capture/os/lines.h"
#include "postmortem/terminal/escape.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace incident::postmortem::doctor {

namespace {

struct Word {
    Grade grade;
    const char *key, *shown;
    Tone tone;
};

constexpr std::array words{
    Word{Grade::Bad, "bad", "BAD", Tone::Bad},        Word{Grade::Warn, "warn", "warn", Tone::Warn},
    Word{Grade::Unknown, "unknown", "?", Tone::Warn}, Word{Grade::Note, "note", "note", Tone::Dim},
    Word{Grade::Ok, "ok", "OK", Tone::Good},
};

const Word &word_of(Grade grade) {
    return *std::ranges::find(words, grade, &Word::grade);
}

std::size_t count(const std::vector<Line> &lines, Grade grade) {
    return static_cast<std::size_t>(
        std::ranges::count_if(lines, [&](const Line &line) { return line.finding.grade == grade; }));
}

constexpr std::size_t indent = 9; // of what belongs to a finding

void print_more(const std::string &text, std::string_view before, Output &out, Tone tone) {
    for (const std::string_view line : capture::lines_of(text))
        out.line(std::string(indent, ' ') + std::string(before) + out.tone(tone, printable(line)));
}

} // namespace

std::vector<Line> look_at_everything(const Host &host) {
    std::vector<Line> lines;
    for (const Check &check : all_checks())
        for (Finding &finding : check.look(host))
            lines.push_back({&check, std::move(finding)});
    return lines;
}

bool anything_bad(const std::vector<Line> &lines) {
    return count(lines, Grade::Bad) > 0;
}

void print(const std::vector<Line> &lines, Output &out) {
    std::string_view group;
    for (const Line &line : lines) {
        if (group != line.check->group) {
            if (!group.empty())
                out.line("");
            group = line.check->group;
            out.line(out.tone(Tone::Bold, group));
        }
        const Word &word = word_of(line.finding.grade);
        out.line(fmt::format("  {}{}: {}", out.tone(word.tone, padded(word.shown, indent - 4) + "  "), line.check->name,
                             printable(line.finding.fact)));
        print_more(line.finding.why, "", out, Tone::Plain);
        print_more(line.finding.fix, "fix: ", out, Tone::Bold);
    }
    out.line("");
    std::string sum;
    for (const Word &word : words)
        if (const std::size_t n = count(lines, word.grade); n > 0 && word.grade != Grade::Ok)
            sum += fmt::format("{}{}", sum.empty() ? "" : ", ", out.tone(word.tone, fmt::format("{} {}", n, word.key)));
    out.line(fmt::format("{}{}{} OK", sum, sum.empty() ? "" : ", ", count(lines, Grade::Ok)));
}

nlohmann::ordered_json to_json(const std::vector<Line> &lines) {
    nlohmann::ordered_json document = {
        {"state", "ok"}, {"counts", nlohmann::ordered_json::object()}, {"checks", nlohmann::ordered_json::array()}};
    for (const Word &word : words)
        document["counts"][word.key] = count(lines, word.grade);
    for (const Word &word : words) // the worst first
        if (word.grade != Grade::Note && count(lines, word.grade) > 0) {
            document["state"] = word.key;
            break;
        }
    for (const Line &line : lines)
        document["checks"].push_back({{"group", line.check->group},
                                      {"name", line.check->name},
                                      {"state", word_of(line.finding.grade).key},
                                      {"fact", line.finding.fact},
                                      {"why", line.finding.why},
                                      {"fix", line.finding.fix}});
    return document;
}

} // namespace incident::postmortem::doctor
