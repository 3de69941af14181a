// The parts of a [[rule]]: the tables that do not depend on its kind (match, limit, context and dump), and what it
// waits for: `on` and its condition, or its conditions.  Each reports what is wrong and fills in what is right.
#pragma once

#include "rules/model/source.h"
#include "rules/toml/table_reader.h"

namespace incident::rules {

void read_match(TableReader &rule, const std::string &where, const UidLookup &uid_of, Match &out);
void read_limit(TableReader &rule, const std::string &where, Limit &out);
void read_context(TableReader &rule, const std::string &where, Context &out);
void read_dump(TableReader &rule, const std::string &where, bool allowed, std::optional<Dump> &out);

// `unit`, `exe`, `comm`, `cgroup`, `device` and `logs` patterns that can never match are errors.
void read_patterns(TableReader &table, const std::string &key, std::vector<std::string> &out);
void read_uids(TableReader &table, const std::string &key, const UidLookup &uid_of, std::vector<std::uint32_t> &out);

// Fills in kind, combine, within and conditions. Returns false if the kind is unknown: then the keys that belong to it
// are unknown too.
bool read_conditions(TableReader &rule, const std::string &where, const Lookups &lookups, Rule &out);

// Finds errors that only the whole rule shows: a `dump` or a `match` that its conditions cannot have. Only for rules
// without errors so far. Also sets the defaults that depend on the conditions.
void check_together(TableReader &table, Rule &rule);

} // namespace incident::rules
