#include "capture/render/render_accounts.h"

#include "capture/render/render_lines.h"
#include "capture/render/render_tallies.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace incident::capture {

using Json = nlohmann::ordered_json;

std::uint64_t Account::overwritten() const {
    const std::uint64_t others = kept + left_out + cut + unreadable + pending + torn;
    return happened - std::min(happened, others);
}

Account &Account::operator+=(const Account &other) {
    happened += other.happened;
    kept += other.kept;
    left_out += other.left_out;
    cut += other.cut;
    unreadable += other.unreadable;
    pending += other.pending;
    torn += other.torn;
    return *this;
}

// The kernel side counts what was cut and what was unreadable as it happens: those stay counted when
// their records are overwritten.
Account paths_of(const ThreadRings &rings) {
    const auto count = [&](auto test) { return static_cast<std::uint64_t>(std::ranges::count_if(rings.paths, test)); };
    Account account{.happened = rings.slot.opens, .left_out = rings.paths_left_out};
    account.kept = count([](const CallPath &path) { return path.kept(); });
    account.cut = rings.slot.paths_cut;
    account.unreadable = rings.slot.paths_faulted;
    account.pending = count([](const CallPath &path) { return path.status == bpf::PATH_PENDING; });
    return account;
}

Account memory_of(const ThreadRings &rings) {
    return {.happened = rings.slot.memory_events, .kept = rings.memory.size(), .left_out = rings.memory_left_out};
}

Json accounts_json(const IncidentInput &input) {
    const ProcessSnapshot &process = input.process;
    Account paths, memory, signals, lineage;
    for (const ThreadSnapshot &thread : process.threads)
        if (thread.rings) {
            paths += paths_of(*thread.rings);
            memory += memory_of(*thread.rings);
        }
    if (process.entry) {
        signals.happened = process.entry->signals;
        signals.kept = signals_of(*process.entry, &signals.torn).size();
        lineage.happened = process.entry->lineage;
        lineage.kept = lineage_of(*process.entry).size();
    }
    const auto common = [](const Account &account) {
        return Json{{"happened", account.happened}, {"kept", account.kept}, {"overwritten", account.overwritten()}};
    };
    Json json;
    json["paths"] = common(paths);
    json["paths"]["left_out"] = paths.left_out;
    json["paths"]["cut"] = paths.cut;
    json["paths"]["unreadable"] = paths.unreadable;
    json["paths"]["pending"] = paths.pending;
    json["memory"] = common(memory);
    json["memory"]["left_out"] = memory.left_out;
    json["signals"] = common(signals);
    json["signals"]["torn"] = signals.torn;
    json["lineage"] = common(lineage);
    const std::size_t facts = facts_kept(input).size();
    json["facts"] = {{"kept", facts},
                     {"left_out", process.tallies.size() - facts},
                     {"forgotten", process.entry ? Json(process.entry->tallies_forgotten) : Json()}};
    return json;
}

} // namespace incident::capture
