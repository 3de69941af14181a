#include "rules/files/heap_cost.h"
#include "rules/files/parse.h"
#include "rules/files/redaction.h"
#include "rules/text/escape.h"
#include "rules/toml/table_reader.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace incident::rules {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t KiB = 1ull << 10, MiB = 1ull << 20, GiB = 1ull << 30, TiB = 1ull << 40;

class ConfigParser {
public:
    ConfigParser(Report &report, Config &config) : report_(report), config_(config) {}

    void parse(const DocumentPart &part) {
        TableReader file(part.root, "the configuration", part.broken, report_);
        section(file, "record", [this](TableReader &table) { record(table); });
        section(file, "heap", [this](TableReader &table) { heap(table); });
        section(file, "capture", [this](TableReader &table) {
            table.duration("deadline", milliseconds(10), minutes(1), config_.capture.deadline);
            table.duration("core_wait", seconds(0), minutes(10), config_.capture.core_wait);
            table.boolean("analyse", config_.capture.analyse);
            table.integer("journal_lines", 0u, 2000u, config_.capture.journal_lines);
        });
        section(file, "budget", [this](TableReader &table) {
            table.integer<std::uint64_t>("bundles", 1, 1'000'000, config_.budget.bundles);
            table.size("bytes", 1 * MiB, 64 * TiB, config_.budget.bytes);
            table.size("keep_free", 0 * MiB, 64 * TiB, config_.budget.keep_free);
            table.integer<std::uint64_t>("at_least", 0, 1'000'000, config_.budget.at_least);
            table.size("reserve", 0 * MiB, 1024 * MiB, config_.budget.reserve);
            table.size("modules", 0 * MiB, 1 * TiB, config_.budget.modules);
        });
        section(file, "cost", [this](TableReader &table) { cost(table); });
        section(file, "privacy", [this](TableReader &table) { redact(table); });
        section(file, "safety", [this](TableReader &table) { safety(table); });
        section(file, "access", [this](TableReader &table) { access(table); });
        section(file, "hook", [this](TableReader &table) { hook(table); });
        section(file, "storm", [this](TableReader &table) {
            table.integer("full", 1u, 1'000'000u, config_.storm.full);
            table.integer("light", 0u, 1'000'000u, config_.storm.light);
            table.duration("window", seconds(1), hours(24 * 30), config_.storm.window);
        });
        section(file, "log", [this](TableReader &table) {
            table.one_of("level", {"trace", "debug", "info", "warn", "error"}, config_.log_level);
        });
        file.belongs_elsewhere("rule", "rules belong in rules.d/*.toml");
        file.report_unknown();
    }

private:
    template <typename Read> void section(TableReader &file, const std::string &name, Read read) {
        if (const Node *node = file.table(name, fmt::format("write [{}] and its keys below", name))) {
            TableReader table(*node, fmt::format("[{}]", name), file.broken(), report_);
            read(table);
            hint_at_owners(table);
            table.report_unknown();
        }
        hint_at_owners(file);
    }

    // A key that the table itself has is a known one there, and no hint is asked for.
    static void hint_at_owners(TableReader &table) {
        for (const auto &[key, owner] : keys)
            table.belongs_elsewhere(key, fmt::format("'{}' belongs in {}", key, owner));
    }

    template <std::unsigned_integral T>
    void power_of_two(TableReader &table, const std::string &key, T before, T &value) {
        if (std::has_single_bit(value))
            return;
        table.error(
            *table.find(key), fmt::format("'{}' must be a power of two", key),
            fmt::format("the nearest are {} and {}", shown(std::bit_floor(value)), shown(std::bit_ceil(value))));
        value = before;
    }
    static std::string shown(std::uint32_t count) { return std::to_string(count); }
    static std::string shown(std::uint64_t bytes) { return size_text(bytes); }

    void record(TableReader &table) {
        Config::Record &record = config_.record;
        const Config::Record before = record;
        table.integer("threads", 16u, 1048576u, record.threads);
        table.size("calls", 64 * KiB, 4 * GiB, record.calls);
        table.size("facts", 64 * KiB, 1 * GiB, record.facts);
        table.duration("past", seconds(1), hours(24), record.past);
        table.pass_over("syscalls", "'syscalls' has no effect any more: threads share one memory for their calls",
                        "'calls' says how much memory that is");
        table.integer("processes", 64u, 1048576u, record.processes);
        table.size("ring_buffer", 64 * KiB, 256 * MiB, record.ring_buffer);
        power_of_two(table, "ring_buffer", before.ring_buffer, record.ring_buffer);
        table.size("memory_limit", 1 * MiB, 1 * TiB, record.memory_limit);
        std::string paths = record.all_paths ? "all" : "opens";
        table.one_of("paths", {"opens", "all"}, paths);
        record.all_paths = paths == "all";
        table.boolean("durations", record.durations);
        if (record.ring_buffer > record.memory_limit) {
            const Node *limit = table.find("memory_limit");
            table.error(limit != nullptr ? *limit : *table.find("ring_buffer"),
                        fmt::format("'ring_buffer' ({}) alone exceeds 'memory_limit' ({})",
                                    size_text(record.ring_buffer), size_text(record.memory_limit)),
                        "raise 'memory_limit' or lower 'ring_buffer'");
            record.ring_buffer = before.ring_buffer;
            record.memory_limit = before.memory_limit;
        }
    }

    void heap(TableReader &table) {
        Config::Heap &heap = config_.heap;
        const Config::Heap before = heap;
        table.size("memory", 1 * MiB, 1 * TiB, heap.memory);
        table.integer("live", 1024u, 16777216u, heap.live);
        table.integer("stacks", 64u, 65536u, heap.stacks);
        table.integer("history", 1024u, 4194304u, heap.history);
        power_of_two(table, "history", before.history, heap.history);
        table.duration("window", seconds(1), hours(1), heap.window);
        if (const std::uint64_t one = heap_bytes(heap, Allocations::History); one > heap.memory) {
            const Node *at = nullptr;
            for (const char *key : {"memory", "live", "history", "stacks"})
                at = at != nullptr ? at : table.find(key);
            table.error(*at,
                        fmt::format("one process may take {} KiB, more than 'memory' ({})", (one + KiB - 1) / KiB,
                                    size_text(heap.memory)),
                        "raise 'memory', or lower 'live', 'stacks' or 'history'");
            heap = before;
        }
    }

    void cost(TableReader &table) {
        table.duration("every", seconds(1), hours(1), config_.cost.every);
        const Node *node = table.find("budget");
        const std::string forms = percent_forms + R"(, or "off")";
        if (node == nullptr || !table.expect(*node, Node::Kind::String, "budget", forms))
            return;
        if (node->string == "off")
            config_.cost.budget.reset();
        else if (const auto share = parse_percent(node->string))
            config_.cost.budget = *share;
        else
            table.error(*node, fmt::format("'budget' {}", share.error()), forms);
    }

    void redact(TableReader &table) {
        for (const Node *item : optional_values(table, "redact")) {
            if (!table.expect(*item, Node::Kind::String, "redact", "a regular expression, or a list of them"))
                continue;
            if (const auto problem = redaction_error(item->string))
                table.error(*item, problem->message, problem->hint);
            else
                config_.privacy.redact.push_back(item->string);
        }
    }

    void safety(TableReader &table) {
        table.boolean("allow_dump", config_.safety.allow_dump);
        table.integer("dumps_per_hour", 1u, 1000u, config_.safety.dumps_per_hour);
        for (const Node *item : optional_values(table, "never")) {
            if (!table.expect(*item, Node::Kind::String, "never", "a pattern for comm, exe or unit, or a list of them"))
                continue;
            if (item->string.empty())
                table.error(*item, "'never' holds an empty pattern");
            else
                config_.safety.never.push_back(item->string);
        }
    }

    void access(TableReader &table) {
        const Node *node = table.find("group");
        if (node == nullptr || !table.expect(*node, Node::Kind::String, "group", "the name of a group, or \"\""))
            return;
        if (node->string.find_first_of(" \t:,/") != std::string::npos)
            table.error(*node, fmt::format("{} is not the name of a group", quote(node->string)),
                        "the package makes the group \"incident\"");
        else
            config_.access.group = node->string;
    }

    void hook(TableReader &table) {
        table.integer("per_hour", 1u, 100'000u, config_.hook.per_hour);
        const Node *node = table.find("unit");
        if (node == nullptr || !table.expect(*node, Node::Kind::String, "unit", "a template unit, or \"\""))
            return;
        if (!node->string.empty() && !is_template(node->string))
            table.error(*node, fmt::format("{} is not the name of a template service", quote(node->string)),
                        "write \"NAME@.service\"; the one that is shipped is \"incident-hook@.service\"");
        else
            config_.hook.unit = node->string;
    }

    // systemd.unit(5): letters, digits and ":-_.\"; one "@" before the suffix.
    static bool is_template(std::string_view name) {
        constexpr std::string_view suffix = "@.service";
        if (!name.ends_with(suffix) || name.size() <= suffix.size() || name.size() > 200)
            return false;
        name.remove_suffix(suffix.size());
        return std::ranges::all_of(name, [](unsigned char c) {
            return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                   std::string_view(":-_.\\").contains(static_cast<char>(c));
        });
    }

    // Here an empty list is a plain way to say "none".
    static std::vector<const Node *> optional_values(TableReader &table, const std::string &key) {
        const Node *node = table.find(key);
        const bool empty_list = node != nullptr && node->kind == Node::Kind::Array && node->items.empty();
        return empty_list ? std::vector<const Node *>{} : table.values(key);
    }

    // For the hint when a key stands in the wrong table.
    struct Owned {
        const char *key;
        const char *owner; // "[record]"
    };
    inline static const std::vector<Owned> keys = {
        {"threads", "[record]"},
        {"syscalls", "[record]"},
        {"processes", "[record]"},
        {"ring_buffer", "[record]"},
        {"memory_limit", "[record]"},
        {"paths", "[record]"},
        {"durations", "[record]"},
        {"deadline", "[capture]"},
        {"core_wait", "[capture]"},
        {"analyse", "[capture]"},
        {"journal_lines", "[capture]"},
        {"bundles", "[budget]"},
        {"bytes", "[budget]"},
        {"keep_free", "[budget]"},
        {"at_least", "[budget]"},
        {"reserve", "[budget]"},
        {"modules", "[budget]"},
        {"budget", "[cost]"},
        {"every", "[cost]"},
        {"redact", "[privacy]"},
        {"allow_dump", "[safety]"},
        {"never", "[safety]"},
        {"dumps_per_hour", "[safety]"},
        {"group", "[access]"},
        {"unit", "[hook]"},
        {"per_hour", "[hook]"},
        {"full", "[storm]"},
        {"light", "[storm]"},
        {"window", "[heap] or [storm]"},
        {"level", "[log]"},
        {"memory", "[heap]"},
        {"live", "[heap]"},
        {"stacks", "[heap]"},
        {"history", "[heap]"},
    };

    Report &report_;
    Config &config_;
};

} // namespace

ParsedConfig parse_config(const Source &source) {
    ParsedConfig parsed;
    const SourceText text(source);
    Report report(text, parsed.diagnostics);
    ConfigParser parser(report, parsed.config);
    for (const DocumentPart &part : read_document(report))
        parser.parse(part);
    report.sort();
    return parsed;
}

} // namespace incident::rules
