// Counts what became of the events that are kept beside the calls: paths, growth of memory, signals, lineage.  Each
// event that happened is in exactly one account: kept, overwritten by newer ones, left out by the rule or with its
// call, cut, unreadable … Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"

#include <nlohmann/json_fwd.hpp>

namespace incident::capture {

struct Account {
    std::uint64_t happened = 0, kept = 0, left_out = 0;
    std::uint64_t cut = 0, unreadable = 0, pending = 0; // of paths
    std::uint64_t torn = 0;                             // signals that were being written when they were read
    std::uint64_t overwritten() const;
    Account &operator+=(const Account &other);
};

Account paths_of(const ThreadRings &rings);
Account memory_of(const ThreadRings &rings);

// The accounts of the whole process: {"paths": {…}, "memory": {…}, "signals": {…}, "lineage": {…}, "facts": {…}}.
nlohmann::ordered_json accounts_json(const IncidentInput &input);

} // namespace incident::capture
