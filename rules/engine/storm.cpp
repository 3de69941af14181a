#include "rules/engine/storm.h"

#include "rules/engine/keyed_memory.h"

#include <algorithm>
#include <utility>

namespace incident::rules {
namespace {

constexpr std::size_t most_signatures = 1024;

} // namespace

// A window begins with the first of its signature after the window before has ended, so a
// steady storm gets its bundles anew once a window.
struct StormPolicy::Memory {
    struct Signature {
        std::uint64_t begins_ns = 0, last_ns = 0;
        std::uint64_t similar = 0;        // in the window
        std::uint64_t counted_before = 0; // only counted since the last bundle
        std::uint64_t seen = 0, full = 0, light = 0, counted = 0;
    };
    Storm settings;
    KeyedMemory<Signature, most_signatures> signatures;
    KeyedMemory<std::string, most_signatures> last_of_kind;
    std::uint64_t counted = 0;
};

StormPolicy::StormPolicy(Storm settings) : memory_(new Memory{settings, {}, {}, 0}) {}
StormPolicy::~StormPolicy() = default;
StormPolicy::StormPolicy(StormPolicy &&) noexcept = default;
StormPolicy &StormPolicy::operator=(StormPolicy &&) noexcept = default;

StormAnswer StormPolicy::judge(const std::string &its, const std::string &kind, std::uint64_t t_ns) {
    const Storm &settings = memory_->settings;
    std::string &last = memory_->last_of_kind.at(kind);
    if (its != kind || last.empty())
        last = its;
    const std::string signature = last;
    auto &known = memory_->signatures.at(signature);
    known.last_ns = std::max(known.last_ns, t_ns);
    if (known.seen == 0 || known.last_ns - known.begins_ns >= static_cast<std::uint64_t>(settings.window.count())) {
        known.begins_ns = known.last_ns;
        known.similar = 0;
    }
    ++known.seen;
    StormAnswer answer{.similar = ++known.similar, .signature = signature};
    if (known.similar <= settings.full)
        ++known.full;
    else if (known.similar <= std::uint64_t{settings.full} + settings.light)
        answer.keep = Keep::Light, ++known.light;
    else
        answer.keep = Keep::Count, ++known.counted, ++known.counted_before, ++memory_->counted;
    if (answer.keep != Keep::Count)
        answer.counted_before = std::exchange(known.counted_before, 0);
    return answer;
}

std::vector<StormLine> StormPolicy::lines(std::size_t most) const {
    std::vector<StormLine> lines;
    for (const auto &[name, known] : memory_->signatures)
        lines.push_back({name, known.seen, known.full, known.light, known.counted, known.last_ns});
    std::stable_sort(lines.begin(), lines.end(), [](const auto &a, const auto &b) { return a.seen > b.seen; });
    lines.resize(std::min(lines.size(), most));
    return lines;
}

std::uint64_t StormPolicy::counted() const {
    return memory_->counted;
}

} // namespace incident::rules
