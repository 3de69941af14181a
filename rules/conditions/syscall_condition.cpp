// The keys of on = "syscall".
#include "rules/conditions/condition_tables.h"
#include "rules/conditions/syscall_groups.h"
#include "rules/text/errnos.h"
#include "rules/text/escape.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::rules {
namespace {

constexpr std::size_t longest_syscall_name = 64;

// Reads names and groups; what does not exist on this host is left out of a group.
class NameReader {
public:
    NameReader(const ConditionTable &in, std::vector<std::string> &out)
        : table_(in.table), known_(in.lookups.syscall_names ? &in.lookups.syscall_names() : nullptr), out_(out) {}

    void read(const Node &item) {
        if (!table_.expect(item, Node::Kind::String, "syscall", R"(a system call, a group like "@file", or a list)"))
            return;
        if (item.string.starts_with('@'))
            group(item);
        else
            name(item);
    }

private:
    bool has(const std::vector<std::string> &names, std::string_view name) const {
        return std::find(names.begin(), names.end(), name) != names.end();
    }

    void group(const Node &item) {
        const auto members = syscall_group(item.string);
        if (members.empty()) {
            table_.error(item, fmt::format("unknown group of system calls {}", quote(item.string)),
                         suggestion(item.string, syscall_groups(), "groups"));
            return;
        }
        bool any = false;
        for (const std::string_view member : members) {
            if (known_ != nullptr && !has(*known_, member))
                continue;
            any = true;
            if (!has(out_, member))
                out_.emplace_back(member);
        }
        if (!any) // an empty list would mean every call
            table_.error(item, fmt::format("this kernel has no system call of the group {}", quote(item.string)));
    }

    void name(const Node &item) {
        const std::string &name = item.string;
        const bool proper = !name.empty() && name.size() <= longest_syscall_name &&
                            name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
        if (!proper || (known_ != nullptr && !has(*known_, name))) {
            table_.error(item, fmt::format("unknown system call {}", quote(name)), hint(name));
        } else if (name == "exit" || name == "exit_group") {
            table_.error(item, fmt::format("'{}' does not return: it never matches", name),
                         "on = \"exit\" waits for a process to end");
        } else if (has(out_, name)) {
            table_.report().warning(item.at, fmt::format("'{}' is in the list already", name));
        } else {
            out_.push_back(name);
        }
    }

    std::string hint(const std::string &name) const {
        if (syscall_group("@" + name).size() > 0)
            return fmt::format("the group is written \"@{}\"", name);
        if (known_ != nullptr)
            if (const std::string near = nearest(name, *known_); !near.empty())
                return fmt::format("did you mean '{}'?", near);
        return fmt::format("names are those of strace; groups: {}", join(syscall_groups()));
    }

    TableReader &table_;
    const std::vector<std::string> *known_;
    std::vector<std::string> &out_;
};

std::string errno_hint(const Node &item) {
    if (item.kind == Node::Kind::Integer && item.integer != 0) {
        const std::int64_t number = std::abs(std::clamp<std::int64_t>(item.integer, -1000, 1000));
        if (const std::string name = errno_name(static_cast<int>(number)); name.starts_with('E'))
            return fmt::format("write \"{}\"", name);
    }
    return R"(errors are written "ENOENT", or "any")";
}

void read_errnos(TableReader &table, SyscallCondition &out) {
    for (const Node *item : table.values("errno")) {
        if (!table.expect(*item, Node::Kind::String, "errno", errno_hint(*item)))
            continue;
        const auto number = errno_number(item->string);
        if (item->string == "any") {
            out.failed = true;
        } else if (!number) {
            const std::string near = nearest(item->string, errno_names());
            table.error(*item, fmt::format("unknown error {}", quote(item->string)),
                        near.empty() ? errno_hint(*item) : fmt::format("did you mean '{}'?", near));
        } else if (std::find(out.errnos.begin(), out.errnos.end(), *number) != out.errnos.end()) {
            table.report().warning(item->at, fmt::format("{} is in the list already", errno_name(*number)));
        } else {
            out.errnos.push_back(*number);
        }
    }
    if (out.failed && !out.errnos.empty()) {
        table.error(*table.find("errno"), "'errno' names errors beside \"any\"", "\"any\" includes all of them");
        out.errnos.clear();
    }
}

} // namespace

void read_kind(const ConditionTable &in, SyscallCondition &out) {
    TableReader &table = in.table;
    NameReader names(in, out.names);
    for (const Node *item : table.values("syscall"))
        names.read(*item);
    std::sort(out.names.begin(), out.names.end());
    read_errnos(table, out);
    out.slower_than = read_duration(table, "slower_than", std::chrono::microseconds(1), longest_wait);
    table.belongs_elsewhere("syscalls", "write syscall = ...");
    if (table.find("syscall") == nullptr && table.find("errno") == nullptr && table.find("slower_than") == nullptr &&
        !table.broken())
        table.report().error(table.node().at, "every system call would match " + in.where,
                             R"(add syscall = "fsync", errno = "any" or slower_than = "1s")");
}

} // namespace incident::rules
