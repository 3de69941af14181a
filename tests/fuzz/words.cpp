// Fields of journal entries, which anybody can send, and what of them comes into a bundle, whose files may be
// anybody's.
#include "capture/render/merge_words.h"
#include "capture/render/timeline_text.h"
#include "tests/fuzz/target.h"

#include <nlohmann/json.hpp>
#include <simdjson.h>

#include <map>

namespace incident::fuzz {
namespace {

using namespace capture;

constexpr const char *boot = "0123456789abcdef0123456789abcdef";

// Lines "NAME=VALUE", as `journalctl -o export` has them.
std::map<std::string, std::string, std::less<>> fields_in(std::string_view text) {
    std::map<std::string, std::string, std::less<>> fields{{"_BOOT_ID", boot}};
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        if (const std::size_t equals = line.find('='); equals != std::string_view::npos)
            fields[std::string(line.substr(0, equals))] = line.substr(equals + 1);
    }
    return fields;
}

void must_be_lines(const std::string &text, std::size_t lines) {
    std::size_t count = 0;
    simdjson::dom::parser parser;
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1, ++count) {
        const simdjson::padded_string line(std::string_view(text).substr(at, text.find('\n', at) - at));
        simdjson::dom::element element;
        must(!parser.parse(line).get(element), "a line of the journal is JSON");
        must_be_harmless(timeline_text(element, 5), "a line of the journal");
    }
    must(count == lines, "each line of the journal is one");
}

} // namespace

// incident.json; timeline.jsonl; then entries.
FUZZ_TARGET(words) {
    const auto parts = parts_of(input);
    const Speaker speaker{.boot_id = boot, .unit = "shop.service", .cgroup = "", .pid = 42, .started = {1000}};
    Past past;
    past.words.state = LastWords::State::Read;
    past.words.instant = {3000};
    for (std::size_t i = 2; i < parts.size(); ++i) {
        const auto fields = fields_in(parts[i]);
        const auto word = word_of(
            [&](const char *name, std::size_t most) {
                const auto found = fields.find(name);
                return found == fields.end() ? std::nullopt : std::optional(found->second.substr(0, most));
            },
            {i * 1000}, {i * 1000}, speaker);
        if (!word)
            continue;
        const auto is = [&](const char *name, std::string_view value) {
            const auto found = fields.find(name);
            return found != fields.end() && found->second == value;
        };
        must(is("_PID", "42") || is("_SYSTEMD_UNIT", "shop.service") || (is("_PID", "1") && is("_UID", "0")) ||
                 is("_TRANSPORT", "driver"),
             "a line counts only by what journald attests");
        past.words.words.push_back(*word);
    }
    const std::size_t words = past.words.words.size();
    std::ranges::stable_sort(past.words.words, {}, &Word::at);
    const std::string incident(parts[0]), timeline(parts.size() > 1 ? parts[1] : "");
    const auto merged = merge_past(incident, "[]", timeline, std::move(past), {"secret\\S*"});
    if (!merged)
        return;
    for (const auto &[file, bytes] : *merged) {
        must(file != "incident.json" || nlohmann::json::accept(bytes), "what is written as JSON is JSON");
        if (file == "journal.jsonl")
            must_be_lines(bytes, words);
    }
}

} // namespace incident::fuzz
