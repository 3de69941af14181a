// Finds the other incidents of a unit in the state directory.
#pragma once

#include "capture/bundle/bundle.h"
#include "capture/journal/last_words.h"
#include "capture/render/merge_words.h"

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace incident::daemon {

class IncidentsOfUnits {
public:
    static constexpr std::size_t most_read = 512; // incidents at a time, beside those known from earlier

    explicit IncidentsOfUnits(std::string state) : state_(std::move(state)) {}

    // Those of the speaker's unit (or control group, if it is in no unit) in this time before the incident `id`, which
    // was at `time`.
    capture::NearbyIncidents find(const std::string &id, capture::WallTime time, const capture::Speaker &speaker,
                                  std::chrono::nanoseconds within,
                                  std::chrono::milliseconds deadline = std::chrono::milliseconds(500));

private:
    struct Known {
        std::string unit, cgroup;
        std::optional<std::uint32_t> user;
        capture::NearbyIncident incident;
    };
    Result<std::string> text_of(const std::string &name) const; // its incident.json
    const Known *read(const std::string &name, std::string &problem);

    std::string state_;
    std::optional<capture::IncidentsDir> directory_; // opened at the first need
    std::map<std::string, Known> known_;             // what was read of those of the last hour: it does not change
};

} // namespace incident::daemon
