// Lists of globs and of users, as match, sender and context take them.
#include "rules/conditions/rule_tables.h"
#include "rules/model/match.h"
#include "rules/text/escape.h"
#include "rules/text/glob.h"

#include <fmt/format.h>

namespace incident::rules {
namespace {

constexpr std::size_t longest_pattern = 4096;    // PATH_MAX: what exe and cgroup can be at most
constexpr std::size_t longest_comm = 15;         // TASK_COMM_LEN without its NUL
constexpr std::int64_t largest_uid = 4294967294; // (uid_t)-1 means "no user"

struct Complaint {
    std::string message, hint;
};

// The kernel names files without them.
bool has_dots(std::string_view path) {
    return path.find("/./") != path.npos || path.find("/../") != path.npos || path.find("//") != path.npos;
}

std::optional<Complaint> never_matches(const std::string &key, const std::string &pattern) {
    const std::string_view prefix = literal_prefix(pattern);
    const bool literal = !has_wildcard(pattern);
    const bool path = pattern.find('/') != std::string::npos;
    if (key == "comm" && prefix.size() > longest_comm)
        return Complaint{
            fmt::format("comm {} never matches: the kernel keeps {} bytes of it", quote(pattern), longest_comm),
            fmt::format("write \"{}\"", terminal_safe(prefix.substr(0, longest_comm)))};
    if (key == "comm" && prefix.starts_with('/'))
        return Complaint{fmt::format("comm {} never matches: comm is a name, not a path", quote(pattern)),
                         fmt::format("write exe = \"{}\"", terminal_safe(pattern))};
    if (key == "exe" && !prefix.empty() && prefix[0] != '/')
        return Complaint{fmt::format("exe {} never matches: exe is an absolute path", quote(pattern)),
                         fmt::format("write \"*/{}\"", terminal_safe(pattern)) +
                             (path ? "" : fmt::format(", or comm = \"{}\"", terminal_safe(pattern)))};
    if (key == "cgroup" && prefix.starts_with("/sys/fs/cgroup"))
        return Complaint{fmt::format("cgroup {} never matches: paths begin below /sys/fs/cgroup", quote(pattern)),
                         "they are as in /proc/PID/cgroup: \"/system.slice/*\""};
    if (key == "cgroup" && !prefix.empty() && prefix[0] != '/')
        return Complaint{fmt::format("cgroup {} never matches: cgroups are absolute paths", quote(pattern)),
                         "paths are as in /proc/PID/cgroup: \"/system.slice/*\""};
    if (key == "device" && prefix.find('/') != std::string_view::npos)
        return Complaint{fmt::format("device {} never matches: devices are names, not paths", quote(pattern)),
                         prefix.starts_with("/dev/") ? fmt::format("write \"{}\"", terminal_safe(pattern.substr(5)))
                                                     : "they are as in /sys/block: \"sda\", \"nvme*\""};
    if (key == "logs" && !prefix.empty() && prefix[0] != '/')
        return Complaint{fmt::format("logs {} never matches: logs are absolute paths", quote(pattern)),
                         fmt::format("write \"{}{}\"", path ? "/" : "*/", terminal_safe(pattern))};
    if (key == "logs" && ((literal && pattern.ends_with('/')) || has_dots(prefix)))
        return Complaint{fmt::format("logs {} never matches: it is not the path of a file", quote(pattern)),
                         "paths are as the process's root has them, without \".\" and \"..\": \"/var/log/app/*.log\""};
    if (key == "unit" && prefix.find('/') != std::string_view::npos)
        return Complaint{fmt::format("unit {} never matches: units are names, not paths", quote(pattern)),
                         "for a path in the cgroup tree there is 'cgroup'"};
    if (key == "unit" && literal && !is_unit_name(pattern))
        return Complaint{fmt::format("unit {} never matches: it has no unit type", quote(pattern)),
                         fmt::format("write \"{}.service\"", terminal_safe(pattern))};
    return std::nullopt;
}

// fnmatch(3) takes a '[' without its ']' literally.
bool has_open_bracket(std::string_view pattern) {
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] == '\\')
            ++i;
        else if (pattern[i] == '[') {
            std::size_t first = i + 1;
            if (first < pattern.size() && (pattern[first] == '!' || pattern[first] == '^'))
                ++first;
            const std::size_t close = pattern.find(']', first + 1); // "[]…]" begins with a literal ']'
            if (close == std::string_view::npos)
                return true;
            i = close;
        }
    }
    return false;
}

} // namespace

void read_patterns(TableReader &table, const std::string &key, std::vector<std::string> &out) {
    for (const Node *item : table.values(key)) {
        if (!table.expect(*item, Node::Kind::String, key, "a pattern, or a list of patterns"))
            continue;
        const std::string &pattern = item->string;
        if (pattern.empty()) {
            table.error(*item, fmt::format("'{}' holds an empty pattern", key), "\"*\" matches anything");
        } else if (pattern.size() > longest_pattern || pattern.find('\0') != std::string::npos) {
            table.error(*item, fmt::format("'{}' holds a pattern that is too long or has a NUL in it", key));
        } else if (const auto complaint = never_matches(key, pattern)) {
            table.error(*item, complaint->message, complaint->hint);
        } else {
            if (has_open_bracket(pattern))
                table.report().warning(item->at, fmt::format("'[' without ']' in {} stands for itself", quote(pattern)),
                                       "write '[[]' where that is meant");
            out.push_back(pattern);
        }
    }
}

void read_uids(TableReader &table, const std::string &key, const UidLookup &uid_of, std::vector<std::uint32_t> &out) {
    for (const Node *item : table.values(key)) {
        if (item->kind == Node::Kind::Integer) {
            if (item->integer < 0 || item->integer > largest_uid)
                table.error(*item, fmt::format("'{}' must be 0 to {}, found {}", key, largest_uid, item->integer));
            else
                out.push_back(static_cast<std::uint32_t>(item->integer));
        } else if (item->kind != Node::Kind::String) {
            table.error(*item,
                        fmt::format("'{}' must be a user's number or name, found {}", key, kind_text(item->kind)));
        } else if (const auto uid = uid_of ? uid_of(item->string) : std::nullopt) {
            out.push_back(*uid);
        } else {
            const bool number =
                !item->string.empty() && item->string.find_first_not_of("0123456789") == std::string::npos;
            table.error(*item, fmt::format("unknown user {}", quote(item->string)),
                        number ? fmt::format("write {} without quotes", item->string)
                               : "users are looked up on this host; a number works without");
        }
    }
}

} // namespace incident::rules
