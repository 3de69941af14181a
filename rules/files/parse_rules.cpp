#include "rules/conditions/kinds.h"
#include "rules/conditions/rule_tables.h"
#include "rules/files/parse.h"
#include "rules/files/rule_text.h"
#include "rules/text/escape.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace incident::rules {
namespace {

constexpr std::size_t longest_rule_name = 64; // it is part of a bundle's directory name

bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

// "My Rule!" → "my-rule"
std::string proper_name(std::string_view text) {
    std::string name;
    for (char c : text) {
        if (c >= 'A' && c <= 'Z')
            c = static_cast<char>(c - 'A' + 'a');
        if (is_name_character(c) && c != '-')
            name += c;
        else if (!name.empty() && name.back() != '-')
            name += '-';
    }
    name.resize(std::min(name.size(), longest_rule_name));
    while (name.ends_with('-'))
        name.pop_back();
    return name;
}

class RulesParser {
public:
    RulesParser(const Lookups &lookups, ParsedRules &out) : lookups_(lookups), out_(out) {}

    void parse(const Source &source) {
        const SourceText text(source);
        Report report(text, out_.diagnostics);
        for (const DocumentPart &part : read_document(report))
            read_part(part, report);
        report.sort();
    }

private:
    void read_part(const DocumentPart &part, Report &report) {
        TableReader file(part.root, "a rule file", part.broken, report);
        if (const Node *rules = file.find("rule"))
            read_list(*rules, part.broken, file);
        file.belongs_elsewhere("rules", "rules are written [[rule]]");
        for (const KindKey &key : kind_keys())
            file.belongs_elsewhere(key.key, fmt::format("'{}' belongs below a [[rule]] line", key.key));
        for (const char *key : {"name", "on", "enabled", "match", "limit", "context", "dump", "condition", "count",
                                "stalled", "window", "by"})
            file.belongs_elsewhere(key, fmt::format("'{}' belongs below a [[rule]] line", key));
        for (const char *key :
             {"record", "capture", "budget", "privacy", "safety", "access", "hook", "heap", "storm", "log"})
            file.belongs_elsewhere(key, fmt::format("[{}] belongs in incidentd.toml", key));
        file.report_unknown();
    }

    void read_list(const Node &rules, bool broken, TableReader &file) {
        if (rules.kind == Node::Kind::Table) {
            file.report().error(rules.key, "'rule' must be a list of tables, found a table",
                                "rules are written [[rule]], with two brackets");
            return;
        }
        if (!file.expect(rules, Node::Kind::Array, "rule", "rules are written [[rule]]"))
            return;
        for (const Node &rule : rules.items)
            if (file.expect(rule, Node::Kind::Table, "rule", "rules are written [[rule]]"))
                read_rule(rule, broken, file.report());
    }

    void read_rule(const Node &node, bool broken, Report &report) {
        const std::size_t errors = report.errors();
        const Node *name = node.find("name");
        const bool named = name != nullptr && name->kind == Node::Kind::String;
        const std::string where = named ? "rule " + quote(name->string) : "this rule";

        TableReader table(node, where, broken, report);
        Rule rule{.at = report.location(node.at)};
        read_name(table, rule);
        table.boolean("enabled", rule.enabled);
        read_match(table, where, lookups_.uid_of, rule.match);
        read_limit(table, where, rule.limit);
        read_context(table, where, rule.context);
        read_dump(table, where, lookups_.allow_dump, rule.dump);
        if (read_conditions(table, where, lookups_, rule)) // else which keys there may be is not known
            table.report_unknown();
        if (broken || report.errors() != errors)
            return;
        check_together(table, rule);
        if (report.errors() != errors)
            return;
        rule.text = rule_text(rule);
        out_.rules.push_back(std::move(rule));
    }

    void read_name(TableReader &table, Rule &rule) {
        const Node *node = table.require("name", R"(add name = "my-rule")");
        if (node == nullptr || !table.expect(*node, Node::Kind::String, "name"))
            return;
        const std::string &name = node->string;
        const std::string proper = proper_name(name);
        const std::string hint = proper.empty() || proper == name ? "" : fmt::format("write \"{}\"", proper);
        if (name.empty()) {
            table.error(*node, "the rule's name is empty");
        } else if (!std::all_of(name.begin(), name.end(), is_name_character)) {
            table.error(*node, fmt::format("rule name {} may only have a-z, 0-9 and '-'", quote(name)), hint);
        } else if (name.size() > longest_rule_name) {
            table.error(*node, fmt::format("the rule's name is longer than {} characters", longest_rule_name), hint);
        } else {
            const auto [first, is_new] = names_.try_emplace(name, table.report().location(node->at));
            const Location &at = first->second;
            if (!is_new)
                table.error(*node, fmt::format("rule name '{}' is taken", name),
                            fmt::format("first used at {}:{}:{}", at.file, at.line, at.column));
        }
        rule.name = name;
    }

    const Lookups &lookups_;
    ParsedRules &out_;
    std::map<std::string, Location> names_; // of good and bad rules, over all sources
};

} // namespace

ParsedRules parse_rules(const std::vector<Source> &sources, const Lookups &lookups) {
    ParsedRules parsed;
    RulesParser parser(lookups, parsed);
    for (const Source &source : sources)
        parser.parse(source);
    return parsed;
}

} // namespace incident::rules
