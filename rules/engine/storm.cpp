#include "rules/engine/storm.h"

#include "rules/engine/keyed_memory.h"
#include "rules/model/user.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <utility>

namespace incident::rules {
namespace {

constexpr std::size_t most_signatures = 1024;
constexpr std::size_t most_units = 16; // of a user that have quotas of their own

// What has been kept of one unit's incidents.  A window begins with the first after the window before has ended, so a
// steady storm gets its bundles anew once a window.
struct Quotas {
    std::optional<std::string> unit; // none: of all further units
    std::uint64_t begins_ns = 0, last_ns = 0;
    std::uint64_t similar = 0;        // in the window
    std::uint64_t counted_before = 0; // only counted since the last bundle
    bool over(const Storm &settings, std::uint64_t now_ns) const {
        return similar == 0 ||
               std::max(now_ns, last_ns) - begins_ns >= static_cast<std::uint64_t>(settings.window.count());
    }
};

// One signature of one user.
struct Signature {
    StormLine line;
    std::vector<Quotas> of_units;

    Quotas &quotas(const Storm &settings, const std::string &unit, std::uint64_t now_ns) {
        const auto of = [&](const std::optional<std::string> &name) {
            return std::ranges::find(of_units, name, &Quotas::unit);
        };
        if (const auto known = of(unit); known != of_units.end())
            return *known;
        if (of_units.size() < most_units)
            return of_units.emplace_back(Quotas{unit});
        for (Quotas &other : of_units)
            if (other.unit && other.counted_before == 0 && other.over(settings, now_ns)) {
                other = {unit};
                return other;
            }
        if (const auto shared = of(std::nullopt); shared != of_units.end())
            return *shared;
        return of_units.emplace_back(Quotas{std::nullopt});
    }
};

// A user's unit; also each id of a user who has many, see rules/model/user.h.
std::string unit_of(const ProcessFacts &process) {
    std::string unit = outer_unit(process.cgroup);
    const std::uint32_t uid = uid_of(process);
    return user_of(uid) == uid ? unit : fmt::format("{} {}", uid, unit);
}

} // namespace

struct StormPolicy::Memory {
    Storm settings;
    KeyedMemory<Signature, most_signatures> signatures;
    KeyedMemory<std::string, most_signatures> last_of_kind;
    std::uint64_t counted = 0;
};

StormPolicy::StormPolicy(Storm settings) : memory_(new Memory{settings, {}, {}, 0}) {}
StormPolicy::~StormPolicy() = default;
StormPolicy::StormPolicy(StormPolicy &&) noexcept = default;
StormPolicy &StormPolicy::operator=(StormPolicy &&) noexcept = default;

StormAnswer StormPolicy::judge(const std::string &its, const std::string &kind, const ProcessFacts &process,
                               std::uint64_t t_ns) {
    const Storm &settings = memory_->settings;
    const std::uint32_t user = user_of(process);
    std::string &last = memory_->last_of_kind.at(fmt::format("{} {}", uid_of(process), kind), user);
    if (its != kind || last.empty())
        last = its;
    StormAnswer answer{.signature = last};
    Signature &known = memory_->signatures.at(fmt::format("{} {}", user, answer.signature), user);
    Quotas &quotas = known.quotas(settings, unit_of(process), t_ns);
    StormLine &line = known.line;
    line.signature = answer.signature;
    line.last_ns = std::max(line.last_ns, t_ns);
    quotas.last_ns = std::max(quotas.last_ns, t_ns);
    if (quotas.over(settings, t_ns)) {
        quotas.begins_ns = quotas.last_ns;
        quotas.similar = 0;
    }
    ++line.seen;
    answer.similar = ++quotas.similar;
    if (answer.similar <= settings.full)
        ++line.full;
    else if (answer.similar <= std::uint64_t{settings.full} + settings.light)
        answer.keep = Keep::Light, ++line.light;
    else
        answer.keep = Keep::Count, ++line.counted, ++quotas.counted_before, ++memory_->counted;
    if (answer.keep != Keep::Count)
        answer.counted_before = std::exchange(quotas.counted_before, 0);
    return answer;
}

std::vector<StormLine> StormPolicy::lines(std::size_t most) const {
    std::map<std::string, StormLine> of_all_users;
    memory_->signatures.each([&](const std::string &, const Signature &known) {
        StormLine &line = of_all_users[known.line.signature];
        line.signature = known.line.signature;
        line.seen += known.line.seen;
        line.full += known.line.full;
        line.light += known.line.light;
        line.counted += known.line.counted;
        line.last_ns = std::max(line.last_ns, known.line.last_ns);
        return true;
    });
    std::vector<StormLine> lines;
    lines.reserve(of_all_users.size());
    for (auto &[signature, line] : of_all_users)
        lines.push_back(std::move(line));
    std::stable_sort(lines.begin(), lines.end(), [](const auto &a, const auto &b) { return a.seen > b.seen; });
    lines.resize(std::min(lines.size(), most));
    return lines;
}

std::uint64_t StormPolicy::counted() const {
    return memory_->counted;
}

} // namespace incident::rules
