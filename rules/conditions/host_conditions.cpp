// The keys of on = "oom", "reclaim", "txg_sync" and "block_io": things that the host does to
// processes.
#include "rules/conditions/condition_tables.h"

namespace incident::rules {
namespace {

using std::chrono::microseconds;

} // namespace

void read_kind(const ConditionTable &in, OomCondition &out) {
    in.table.one_of("scope", out.scope_words, out.scope);
}

void read_kind(const ConditionTable &in, ReclaimCondition &out) {
    std::string which = "any";
    in.table.one_of("reclaim", {"any", "direct", "cgroup"}, which);
    out.direct = which != "cgroup";
    out.cgroup = which != "direct";
    in.table.duration("slower_than", microseconds(1), longest_wait, out.slower_than);
}

void read_kind(const ConditionTable &in, TxgCondition &out) {
    read_patterns(in.table, "pool", out.pool);
    read_threshold(in.table, least_deadline, out.when, out.threshold);
}

void read_kind(const ConditionTable &in, BlockIoCondition &out) {
    TableReader &table = in.table;
    out.slower_than = read_duration(table, "slower_than", microseconds(1), longest_wait);
    table.boolean("error", out.error);
    read_patterns(table, "device", out.device);
    std::string io = "any";
    table.one_of("io", {"any", "read", "write"}, io);
    out.reads = io != "write";
    out.writes = io != "read";
    table.belongs_elsewhere("errors", "write error = true");
    if (table.find("slower_than") == nullptr && table.node().find("errors") == nullptr && !out.error && !table.broken())
        table.report().error(table.node().at, "every request to a block device would match " + in.where,
                             R"(add slower_than = "1s", or error = true)");
}

} // namespace incident::rules
