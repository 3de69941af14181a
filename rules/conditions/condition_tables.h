// Readers of each kind of condition's keys. Each reader reports what is wrong and fills in what is right. Each kind has
// its own file, which says why its ranges are what they are.
#pragma once

#include "rules/conditions/rule_tables.h"

namespace incident::rules {

// A condition that is being read: the only one of its rule, or one of several.
struct ConditionTable {
    TableReader &table;
    const std::string &where; // "rule 'crash'", "condition 2 of rule 'crash'"
    const Lookups &lookups;
};

// Reads the keys of the condition's kind, then count, stalled, window and by. `out.what` holds the kind.
void read_condition(const ConditionTable &in, Condition &out);

void read_kind(const ConditionTable &in, SignalCondition &out);
void read_kind(const ConditionTable &in, LatencyCondition &out);
void read_kind(const ConditionTable &in, OomCondition &out);
void read_kind(const ConditionTable &in, ReclaimCondition &out);
void read_kind(const ConditionTable &in, TxgCondition &out);
void read_kind(const ConditionTable &in, SyscallCondition &out);
void read_kind(const ConditionTable &in, BlockedCondition &out);
void read_kind(const ConditionTable &in, MemoryCondition &out);
void read_kind(const ConditionTable &in, ExitCondition &out);
void read_kind(const ConditionTable &in, BlockIoCondition &out);
void read_kind(const ConditionTable &in, TracepointCondition &out);

void read_tally(TableReader &table, const std::string &where, const ConditionKind &what, Tally &out);

// Reads `when` and `threshold`, which are required. `least_return` is the shortest threshold with when = "return".
void read_threshold(TableReader &table, Nanoseconds least_return, When &when, Nanoseconds &threshold);
constexpr Nanoseconds least_deadline = std::chrono::milliseconds(1); // a shorter wait is over before anybody looks
constexpr Nanoseconds longest_wait = std::chrono::hours(24);

// Reads an optional duration; nullopt if it is missing or wrong.
std::optional<Nanoseconds> read_duration(TableReader &table, const std::string &key, Nanoseconds least,
                                         Nanoseconds most);

// Reads signal names and numbers. A signal that is listed twice gets a warning.
struct ListedSignal {
    const Node *item;
    int number;
};
std::vector<ListedSignal> read_signals(TableReader &table, const std::string &key);
std::optional<int> read_signal(TableReader &table, const Node &item, const std::string &key);

} // namespace incident::rules
