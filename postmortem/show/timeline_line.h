// Decides whether a line of timeline.jsonl is wanted, and shows it as text.
#pragma once

#include "postmortem/terminal/output.h"

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace simdjson::dom {
class element;
}

namespace incident::postmortem {

struct TimelineQuery {
    std::optional<std::uint64_t> tid;
    std::string kind;                        // "" any
    std::optional<std::int64_t> earliest_ns; // monotonic
    std::optional<std::int64_t> latest_ns;   // of what threads did
    bool errors = false;

    bool filters() const { return tid || !kind.empty() || earliest_ns || latest_ns || errors; }
    bool is_later(simdjson::dom::element event) const; // than latest_ns
    bool wants(simdjson::dom::element event) const;    // an object
};

struct TimelineStyle {
    std::int64_t trigger_ns = 0;
    std::unordered_map<std::uint64_t, std::string>
        comms; // by tid, printable; if there are several, a column shows them
};

std::string timeline_line(simdjson::dom::element event, const TimelineStyle &style, const Output &out);

} // namespace incident::postmortem
