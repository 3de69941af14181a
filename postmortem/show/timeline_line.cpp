#include "postmortem/show/timeline_line.h"

#include "capture/render/timeline_text.h"
#include "postmortem/terminal/escape.h"

#include <fmt/format.h>
#include <simdjson.h>

namespace incident::postmortem {

namespace {

bool has_error(simdjson::dom::element event) {
    simdjson::dom::element error;
    return !event["error"].get(error) && !error.is_null();
}

std::string whose(simdjson::dom::element event, const TimelineStyle &style) {
    std::uint64_t tid = 0;
    const bool known = !event["tid"].get(tid);
    const auto comm = known ? style.comms.find(tid) : style.comms.end();
    return fmt::format("{:>7} {} ", known ? std::to_string(tid) : "-",
                       padded(comm == style.comms.end() ? "" : std::string_view(comm->second), 16));
}

} // namespace

bool TimelineQuery::is_later(simdjson::dom::element event) const {
    std::string_view its_kind;
    std::int64_t at = 0;
    return latest_ns && !event["t_ns"].get(at) && at > *latest_ns && !event["kind"].get(its_kind) &&
           (its_kind == "syscall" || its_kind == "open" || its_kind == "alloc" || its_kind == "request");
}

bool TimelineQuery::wants(simdjson::dom::element event) const {
    std::uint64_t its_tid = 0;
    std::string_view its_kind;
    std::int64_t at = 0;
    return (!tid || (!event["tid"].get(its_tid) && its_tid == *tid)) &&
           (kind.empty() || (!event["kind"].get(its_kind) && its_kind == kind)) &&
           (!earliest_ns || event["t_ns"].get(at) || at >= *earliest_ns) && (!errors || has_error(event));
}

std::string timeline_line(simdjson::dom::element event, const TimelineStyle &style, const Output &out) {
    const std::string text = capture::timeline_text(event, style.trigger_ns);
    return (style.comms.size() > 1 ? whose(event, style) : "") + (has_error(event) ? out.tone(Tone::Warn, text) : text);
}

} // namespace incident::postmortem
