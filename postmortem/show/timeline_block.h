// A run of timeline lines, filtered and written as text or JSON.  Blocks do not depend on
// each other, so several are rendered at once.
#pragma once

#include "postmortem/read/json_view.h"
#include "postmortem/terminal/output.h"

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace incident::postmortem {

struct TimelineQuery {
    std::optional<std::uint64_t> tid;
    std::string kind;                        // "" any
    std::optional<std::int64_t> earliest_ns; // monotonic
    bool errors = false;

    bool filters() const { return tid || !kind.empty() || earliest_ns || errors; }
    bool wants(JsonView event) const;
};

struct TimelineStyle {
    bool json = false;
    std::int64_t trigger_ns = 0;
    std::unordered_map<std::uint64_t, std::string> comms; // by tid, printable; with two or more, a column shows whose
    const Output *out = nullptr;                          // for its colours
};

struct RenderedBlock {
    std::string text;
    std::vector<std::size_t> ends; // of each line, its newline included
    std::uint64_t unreadable = 0;  // lines that are no JSON object
};

// lines: whole lines, each with its newline.  Safe to call from several threads.
RenderedBlock render_block(std::string_view lines, const TimelineQuery &query, const TimelineStyle &style);

} // namespace incident::postmortem
