// Puts what the journal and other incidents say of the time before an incident into its bundle.  That becomes known
// only when the bundle is written already, because lines of the time after the trigger belong to it.
#pragma once

#include "capture/core/nearby_cores.h"
#include "capture/journal/last_words.h"
#include "capture/render/bundle_analysis.h"

#include <string>
#include <vector>

namespace incident::capture {

// Another incident of the same unit, as its incident.json says it.
struct NearbyIncident {
    std::string id, time, rule, kind, signal, exe, summary; // "" not known
    std::uint32_t pid = 0;
};

struct NearbyIncidents {
    static constexpr std::size_t most = 32;
    std::vector<NearbyIncident> incidents; // oldest first; the newest of them, if there are more
    std::uint64_t more = 0;                // not named here
    std::string problem;                   // why incidents may be missing; "" none
};

// What there was of the unit before the incident, and shortly after it.
struct Past {
    LastWords words;
    NearbyIncidents incidents;
    NearbyCores cores;
};

// "last_words" of incident.json.
nlohmann::ordered_json last_words_json(const LastWords &words);

// The files of the bundle with the past in them, for IncidentsDir::amend(): journal.jsonl (if the journal was read),
// timeline.jsonl with these lines at their times, incident.json with last_words, nearby and the losses, summary.txt.
// redact: regular expressions (RE2).
Result<BundleFiles> merge_past(const std::string &incident_json, const std::string &threads_json,
                               const std::string &timeline, Past past, const std::vector<std::string> &redact);

// Inserts lines into a timeline.  Both are ordered by time; at the same time the timeline's own come first.
struct TimedLine {
    std::uint64_t t_ns = 0;
    std::string text; // a JSON object without newline
};
std::string merge_lines(std::string_view timeline, const std::vector<TimedLine> &lines);

// The line of timeline.jsonl with what somebody has logged.  A longer text is cut.
struct LogLine {
    static constexpr std::size_t longest = 4096; // bytes of a message
    std::uint64_t t_ns = 0;
    std::string_view wall, source, identifier, message;
    std::optional<std::uint32_t> pid{};
    std::optional<int> priority{};
    bool cut = false;
};
std::string log_line(const LogLine &line);

} // namespace incident::capture
