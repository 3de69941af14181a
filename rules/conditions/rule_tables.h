// The tables inside a [[rule]] that do not depend on its kind: match, limit, context and
// dump.  Each reports what is wrong and fills in what is right.
#pragma once

#include "rules/model/source.h"
#include "rules/toml/table_reader.h"

namespace incident::rules {

void read_match(TableReader &rule, const std::string &where, const UidLookup &uid_of, Match &out);
void read_limit(TableReader &rule, const std::string &where, Limit &out);
void read_context(TableReader &rule, const std::string &where, Context &out);
void read_dump(TableReader &rule, const std::string &where, bool allowed, std::optional<Dump> &out);

// `unit`, `exe`, `comm`, `cgroup` and `device` patterns that can never match are errors.
void read_patterns(TableReader &table, const std::string &key, std::vector<std::string> &out);
void read_uids(TableReader &table, const std::string &key, const UidLookup &uid_of, std::vector<std::uint32_t> &out);

} // namespace incident::rules
