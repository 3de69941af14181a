// The keys of on = "tracepoint".
#include "rules/conditions/condition_tables.h"
#include "rules/text/escape.h"
#include "rules/toml/toml_document.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::rules {
namespace {

constexpr std::size_t longest_tracepoint_name = 128;
constexpr const char *tracepoint_form =
    R"(tracepoints are written "sched:sched_switch"; /sys/kernel/tracing/available_events lists them)";

bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= longest_tracepoint_name &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
               std::string_view::npos;
}

// The tracepoint's format where there is one now.  One that is not there may be a
// module's: its rule waits.  Where its category is there, its name is wrong.
std::optional<TracepointFormat> look_up(const ConditionTable &in, const Node &node, const TracepointCondition &what) {
    if (!in.lookups.tracepoint_format)
        return std::nullopt;
    if (const auto text = in.lookups.tracepoint_format(what.category, what.name))
        return parse_tracepoint_format(*text);
    const auto list = [&](const std::string &category) {
        return in.lookups.tracepoints ? in.lookups.tracepoints(category) : std::vector<std::string>{};
    };
    const std::size_t colon = what.category.size();
    if (const auto names = list(what.category); !names.empty()) {
        const std::string near = nearest(what.name, names);
        in.table.report().error(place_in_string(in.table.report().source(), node, colon + 1, what.name.size()),
                                fmt::format("'{}' has no tracepoint '{}'", what.category, what.name),
                                near.empty() ? "ls /sys/kernel/tracing/events/" + what.category
                                             : fmt::format("did you mean '{}'?", near));
        return std::nullopt;
    }
    const std::string near = nearest(what.category, list(""));
    in.table.report().warning(
        place_in_string(in.table.report().source(), node, 0, colon),
        fmt::format("this kernel has no tracepoints '{}' now", what.category),
        near.empty() ? "the rule waits until a module brings them"
                     : fmt::format("did you mean '{}'? Else the rule waits until a module brings them", near));
    return std::nullopt;
}

void read_filter(const ConditionTable &in, const std::optional<TracepointFormat> &format, TracepointCondition &out) {
    const Node *node = in.table.find("filter");
    if (node == nullptr || !in.table.expect(*node, Node::Kind::String, "filter", R"(filter = "prev_state == 2")"))
        return;
    auto filter = parse_filter(node->string);
    if (filter && format)
        filter = check_filter(std::move(*filter), node->string, *format);
    if (!filter) {
        const FilterError &error = filter.error();
        in.table.report().error(place_in_string(in.table.report().source(), *node, error.at, error.length),
                                error.message, error.hint);
        return;
    }
    out.filter_text = node->string;
    out.filter = std::move(*filter);
}

} // namespace

void read_kind(const ConditionTable &in, TracepointCondition &out) {
    TableReader &table = in.table;
    std::optional<TracepointFormat> format;
    const Node *node = table.require("tracepoint", R"(add tracepoint = "sched:sched_switch")");
    if (node != nullptr && table.expect(*node, Node::Kind::String, "tracepoint", tracepoint_form)) {
        const std::string_view text = node->string;
        const std::size_t colon = text.find(':');
        const std::string_view category = text.substr(0, std::min(colon, text.size()));
        const std::string_view name = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
        if (is_name(category) && is_name(name)) {
            out.category = category;
            out.name = name;
            format = look_up(in, *node, out);
        } else {
            const std::size_t slash = text.find('/');
            const bool path =
                slash != std::string_view::npos && is_name(text.substr(0, slash)) && is_name(text.substr(slash + 1));
            table.error(*node, fmt::format("{} is not a tracepoint's name", quote(text)),
                        path ? fmt::format("write \"{}:{}\"", text.substr(0, slash), text.substr(slash + 1))
                             : std::string(tracepoint_form));
        }
    }
    read_filter(in, format, out);
}

} // namespace incident::rules
