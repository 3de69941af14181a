#include "postmortem/show/timeline_block.h"

#include "capture/render/timeline_text.h"
#include "postmortem/terminal/escape.h"

#include <fmt/format.h>

namespace incident::postmortem {

namespace {

void append_column(std::string &text, JsonView event, const TimelineStyle &style) {
    const auto tid = event["tid"].natural();
    const auto known = tid ? style.comms.find(*tid) : style.comms.end();
    fmt::format_to(std::back_inserter(text), "{:>7} ", tid ? std::to_string(*tid) : "-");
    text += padded(known == style.comms.end() ? "" : std::string_view(known->second), 16);
    text += ' ';
}

} // namespace

bool TimelineQuery::wants(JsonView event) const {
    if (tid && event["tid"].natural() != tid)
        return false;
    if (!kind.empty() && event["kind"].text() != kind)
        return false;
    if (earliest_ns && event["t_ns"].integer().value_or(INT64_MAX) < *earliest_ns)
        return false;
    return !errors || !event["error"].shown().empty();
}

RenderedBlock render_block(std::string_view lines, const TimelineQuery &query, const TimelineStyle &style) {
    RenderedBlock block;
    block.text.reserve(lines.size() / (style.json ? 1 : 2));
    while (!lines.empty()) {
        const std::string_view line = lines.substr(0, lines.find('\n'));
        lines.remove_prefix(std::min(line.size() + 1, lines.size()));
        if (line.empty())
            continue;
        const auto event = parse_json(line);
        if (!event || !event->is_object()) {
            ++block.unreadable;
            continue;
        }
        if (query.filters() && !query.wants(*event))
            continue;
        if (style.json) {
            block.text += dump_json(*event);
        } else {
            if (style.comms.size() > 1)
                append_column(block.text, *event, style);
            const std::string text = capture::timeline_text(*event, style.trigger_ns);
            const bool failed = JsonView(*event)["error"].present();
            block.text += failed ? style.out->tone(Tone::Warn, text) : text;
        }
        block.text += '\n';
        block.ends.push_back(block.text.size());
    }
    return block;
}

} // namespace incident::postmortem
