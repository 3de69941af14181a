#include "daemon/write/nearby_incidents.h"

#include "capture/bundle/json_member.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>

namespace incident::daemon {

namespace {

constexpr std::uint64_t incident_json_max = 8u << 20;
constexpr std::size_t summary_max = 256;

std::string text_in(const capture::Json &object, const char *key) {
    const capture::Json &value = capture::member(object, key);
    return value.is_string() ? value.get<std::string>() : std::string();
}

// What the name of an incident of that time begins with.
std::string name_time(capture::WallTime time) {
    const std::string name = capture::bundle_name(time, "", "", 0, "");
    return name.substr(0, name.find('-'));
}

} // namespace

Result<std::string> IncidentsOfUnits::text_of(const std::string &name) const {
    const auto bundle = directory_->bundle(name);
    return bundle ? bundle->read("incident.json", incident_json_max) : fail(bundle.error());
}

const IncidentsOfUnits::Known *IncidentsOfUnits::read(const std::string &name, std::string &problem) {
    auto text = text_of(name);
    if (!text && text.error().code == ENOENT) // it may have been amended between the two steps
        text = text_of(name);
    if (!text) {
        if (text.error().code != ENOENT) // else it was removed for space
            problem = name + ": " + text.error().what;
        return nullptr;
    }
    const auto document = capture::Json::parse(*text, nullptr, false);
    const capture::Json &process = capture::member(document, "process"), &signal = capture::member(document, "signal");
    const capture::Json &pid = capture::member(process, "pid");
    Known known;
    known.unit = text_in(process, "unit");
    known.cgroup = text_in(process, "cgroup");
    known.user = capture::speaker_of("", {}, {}, known.unit, known.cgroup).user;
    known.incident = {.id = name,
                      .time = text_in(document, "time"),
                      .rule = text_in(document, "rule"),
                      .kind = text_in(document, "kind"),
                      .signal = text_in(signal, "name"),
                      .exe = text_in(process, "exe"),
                      .summary = text_in(document, "summary").substr(0, summary_max),
                      .pid = pid.is_number_unsigned() ? pid.get<std::uint32_t>() : 0};
    return &known_.emplace(name, std::move(known)).first->second;
}

capture::NearbyIncidents IncidentsOfUnits::find(const std::string &id, capture::WallTime time,
                                                const capture::Speaker &speaker, std::chrono::nanoseconds within,
                                                std::chrono::milliseconds deadline) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    capture::NearbyIncidents found;
    if (speaker.unit.empty() && !speaker.has_cgroup())
        return found;
    if (!directory_) {
        auto opened = capture::IncidentsDir::open(state_, false);
        if (!opened) {
            found.problem = opened.error().what;
            return found;
        }
        directory_ = std::move(*opened);
    }
    const auto names = directory_->names();
    if (!names) {
        found.problem = names.error().what;
        return found;
    }
    const std::string earliest = name_time(time - static_cast<std::uint64_t>(within.count()));
    known_.erase(known_.begin(), known_.lower_bound(earliest));
    std::size_t read_now = 0;
    for (auto name = names->rbegin(); name != names->rend() && *name >= earliest; ++name) {
        if (*name >= id)
            continue;
        const auto known = known_.find(*name);
        if (known == known_.end() && (read_now++ == most_read || std::chrono::steady_clock::now() >= end)) {
            found.problem = "older incidents were not looked at: there are too many, or the deadline passed";
            break;
        }
        const Known *one = known != known_.end() ? &known->second : read(*name, found.problem);
        const bool same = one && (speaker.unit.empty() ? one->unit.empty() && one->cgroup == speaker.cgroup
                                                       : one->unit == speaker.unit && one->user == speaker.user);
        if (!same)
            continue;
        if (found.incidents.size() < capture::NearbyIncidents::most)
            found.incidents.push_back(one->incident);
        else
            ++found.more;
    }
    std::ranges::reverse(found.incidents);
    return found;
}

} // namespace incident::daemon
