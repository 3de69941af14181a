// The tables inside a [[rule]]: match, sender, limit, context, and the list of
// signals.  Each reports what is wrong and fills in what is right.
#pragma once

#include "rules/parse.h"
#include "rules/table_reader.h"

namespace incident::rules {

void read_match(TableReader &rule, const std::string &where, const UidLookup &uid_of, Match &out);
void read_limit(TableReader &rule, const std::string &where, Limit &out);
void read_context(TableReader &rule, const std::string &where, Context &out);
// The keys of on = "signal": signals, fatal, sender.
void read_signal_condition(TableReader &rule, const std::string &where, const UidLookup &uid_of, SignalCondition &out);

// `unit`, `exe`, `comm` and `cgroup` patterns that can never match are errors.
void read_patterns(TableReader &table, const std::string &key, std::vector<std::string> &out);
void read_uids(TableReader &table, const std::string &key, const UidLookup &uid_of, std::vector<std::uint32_t> &out);

} // namespace incident::rules
