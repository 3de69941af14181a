#include "rules/rule_text.h"

#include "rules/signals.h"
#include "rules/units.h"

#include <fmt/format.h>

namespace incident::rules {
namespace {

std::string toml(const std::string &text) {
    std::string out = "\"";
    for (char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            out += {'\\', c};
        else if (byte < 0x20 || byte == 0x7F)
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(byte));
        else
            out += c;
    }
    return out + "\"";
}
std::string toml(std::uint32_t number) {
    return std::to_string(number);
}

template <typename T> std::string toml(const std::vector<T> &values) {
    std::string out;
    for (const T &value : values)
        out += (out.empty() ? "" : ", ") + toml(value);
    return "[" + out + "]";
}

std::string toml(const std::bitset<65> &signals) {
    std::string out;
    for (int number = 1; number <= last_signal; ++number)
        if (signals.test(static_cast<std::size_t>(number))) {
            const std::string name = signal_name(number);
            out += (out.empty() ? "" : ", ") + (name.starts_with("SIG") ? toml(name) : name);
        }
    return "[" + out + "]";
}

// Collects "key = value" for an inline table.
class InlineTable {
public:
    template <typename T> void list(const char *key, const std::vector<T> &values) {
        if (!values.empty())
            add(key, toml(values));
    }
    void add(const char *key, const std::string &value) {
        text_ += fmt::format("{}{} = {}", text_.empty() ? "" : ", ", key, value);
    }
    bool empty() const { return text_.empty(); }
    std::string text() const { return "{ " + text_ + " }"; }

private:
    std::string text_;
};

std::string condition_text(const SignalCondition &condition) {
    std::string out = fmt::format("signals = {}\nfatal = {}\n", toml(condition.signals), condition.fatal);
    InlineTable sender;
    sender.list("comm", condition.sender.comm);
    sender.list("uid", condition.sender.uid);
    if (condition.sender.self)
        sender.add("self", fmt::format("{}", *condition.sender.self));
    if (!sender.empty())
        out += fmt::format("sender = {}\n", sender.text());
    return out;
}

const char *name_of(LimitBy by) {
    switch (by) {
    case LimitBy::Rule:
        return "rule";
    case LimitBy::Process:
        return "process";
    case LimitBy::Exe:
        break;
    }
    return "exe";
}

} // namespace

std::string rule_text(const Rule &rule) {
    std::string out =
        fmt::format("[[rule]]\nname = {}\non = {}\nenabled = {}\n", toml(rule.name), toml(rule.kind), rule.enabled);
    out += std::visit([](const auto &condition) { return condition_text(condition); }, rule.condition);

    InlineTable match;
    match.list("unit", rule.match.unit);
    match.list("exe", rule.match.exe);
    match.list("comm", rule.match.comm);
    match.list("cgroup", rule.match.cgroup);
    match.list("uid", rule.match.uid);
    if (!match.empty())
        out += fmt::format("match = {}\n", match.text());

    InlineTable limit;
    limit.add("cooldown", toml(duration_text(rule.limit.cooldown)));
    if (rule.limit.per_hour)
        limit.add("per_hour", toml(*rule.limit.per_hour));
    limit.add("by", toml(std::string(name_of(rule.limit.by))));
    out += fmt::format("limit = {}\n", limit.text());

    const Context &context = rule.context;
    out += fmt::format("context = {{ stack = \"{}\", files = {}, memory = {}, host = {}, environ = {} }}\n",
                       size_text(context.stack_bytes), context.files, context.memory, context.host, context.environ);
    return out;
}

} // namespace incident::rules
