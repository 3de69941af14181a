// For any file the parser neither throws nor crashes, the rules that it keeps are complete, and its messages can be
// printed.

#include "rules/engine/engine.h"
#include "tests/rules/fakes.h"

#include <random>

namespace incident::rules {
namespace {

const std::vector<std::string> snippets = {
    "[",
    "]",
    "[[rule]]\n",
    "{",
    "}",
    "\"",
    "'",
    "\"\"\"",
    "'''",
    "=",
    ",",
    ".",
    "\n",
    "\r\n",
    "#",
    "\\",
    "\\u12",
    "1__2",
    "0x",
    "-",
    "5s",
    "true",
    "yes",
    "\xff",
    "\x00\x01",
    "\xE2\x80\xAE",
    "1e999",
    "-inf",
    "1979-05-27",
    "[rule]",
    "[[a.b]]",
    "a.b.",
    "name",
    "= {\n",
    "99999999999999999999",
    "\t",
    "count = 3\n",
    "window = \"1m\"\n",
    "stalled = \"1s\"\n",
    "by = \"host\"\n",
    "dump = \"SIGABRT\"\n",
    "match.exe = \"/usr/*\"\n",
    "on = \"all\"\n",
    "on = \"syscall\"\n",
    "[[rule.condition]]\n",
    "within = \"1m\"\n",
    "when = \"deadline\"\n",
    "probe = \"usdt:a:b:c\"\n",
    "filter = \"a & 1\"\n",
};

class Mutator {
public:
    explicit Mutator(std::uint32_t seed) : random_(seed) {}

    std::string mutate(std::string text) {
        for (std::size_t count = 1 + below(4); count > 0; --count)
            mutate_once(text);
        return text;
    }

private:
    std::size_t below(std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_); }

    void mutate_once(std::string &text) {
        const std::size_t at = below(text.size() + 1);
        const std::size_t length = below(std::min<std::size_t>(text.size() - at, 40) + 1);
        switch (below(5)) {
        case 0:
            text.erase(at, length);
            break;
        case 1:
            text.insert(at, snippets[below(snippets.size())]);
            break;
        case 2:
            text.insert(below(text.size() + 1), text.substr(at, length));
            break;
        case 3:
            if (at < text.size())
                text[at] = static_cast<char>(below(256));
            break;
        default:
            text.resize(at); // as a full disk leaves it
            break;
        }
    }

    std::mt19937 random_;
};

void check_text(const std::vector<Diagnostic> &diagnostics, const std::string &input) {
    for (const Diagnostic &d : diagnostics)
        for (const char c : d.text())
            ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') << input;
}

// An event of each kind, for every rule there may be.
void decide_everything(std::vector<Rule> rules) {
    Engine engine(std::move(rules));
    const std::vector<EventKind> events = {
        SignalEvent{.number = 11, .fatal = true},
        OomEvent{},
        ReclaimEvent{.stalled_ns = 1 << 30},
        TxgEvent{"tank", 1ull << 34, true},
        SyscallEvent{"openat", -2, 1 << 30},
        BlockedEvent{1ull << 34},
        MemoryEvent{1ull << 33},
        ExitEvent{1},
        BlockIoEvent{"sda", 1ull << 32, 5},
    };
    for (const Answers answers : {Answers::All, Answers::Firings})
        for (const EventKind &what : events)
            engine.decide({.t_ns = 1, .process = {.pid = 5, .exe = "/usr/bin/x"}, .what = what}, answers);
    for (const Rule &rule : engine.rules())
        for (std::size_t i = 0; i < 3; ++i) {
            engine.decide({.t_ns = 2, .process = {.pid = 5}, .what = LatencyEvent{rule.name, i, 1ull << 40}});
            engine.decide({.t_ns = 2, .process = {.pid = 5}, .what = TracepointEvent{rule.name, i, {1, 2, 3}}});
        }
}

class MutatedRules : public testing::TestWithParam<std::string> {};

TEST_P(MutatedRules, NeverCrashTheParser) {
    const std::string good = read(TEST_DATA "/rules/" + GetParam() + ".toml");
    std::size_t kept = 0, complaints = 0;
    for (std::uint32_t seed = 0; seed < 160; ++seed) {
        const std::string text = Mutator(seed).mutate(good);
        const Lookups lookups = seed % 2 == 0 ? fake_lookups() : Lookups{};
        ParsedRules parsed;
        ASSERT_NO_THROW(parsed = parse_rules({{"m.toml", text}}, lookups)) << text;
        check_text(parsed.diagnostics, text);
        complaints += parsed.diagnostics.size();
        for (const Rule &rule : parsed.rules) {
            EXPECT_FALSE(rule.name.empty()) << text;
            ASSERT_FALSE(rule.conditions.empty()) << text;
            const auto again = parse_rules({{"text.toml", rule.text}}, lookups);
            ASSERT_EQ(again.rules.size(), 1u) << rule.text;
            EXPECT_TRUE(same(again.rules[0], rule)) << rule.text << again.rules[0].text;
            ++kept;
        }
        decide_everything(std::move(parsed.rules));
    }
    EXPECT_GT(kept, 40u);
    EXPECT_GT(complaints, 40u);
}

INSTANTIATE_TEST_SUITE_P(Files, MutatedRules,
                         testing::Values("good-everything", "good-design", "good-latency", "good-host", "good-process",
                                         "good-tracepoint", "good-composite"),
                         [](const auto &file) { return file.param.substr(5); });

TEST(Mutation, ConfigurationsNeverCrashTheParser) {
    const std::string good = read(TEST_DATA "/rules/config-good.toml");
    for (std::uint32_t seed = 0; seed < 800; ++seed) {
        const std::string text = Mutator(seed).mutate(good);
        ParsedConfig parsed;
        ASSERT_NO_THROW(parsed = parse_config({"m.toml", text})) << text;
        check_text(parsed.diagnostics, text);
    }
}

// Inputs made to hurt: deep nesting (toml11 recurses), long lines, many tables.
TEST(Mutation, ExtremeFilesAreRefusedQuickly) {
    const auto times = [](const std::string &text, std::size_t count) {
        std::string out;
        for (std::size_t i = 0; i < count; ++i)
            out += text;
        return out;
    };
    const std::vector<std::string> extremes = {
        "a = " + times("[", 60000),
        "a = " + times("{a=", 40000),
        "a = [\n" + times("[\n", 50000),
        "a = [\n" + times("[[[", 10000) + "a",
        times("a.", 60000) + "a = 1",
        "[" + times("a.", 60000) + "a]",
        "a = { " + times("b.", 50000) + "b = 1 }",
        "a = \"" + times("x", 120000),
        times("[[rule]]\n", 14000),
        times("[[rule]]\nx\n", 10000),
        times("a", 130000),
        times("#\n", 60000),
        times("[[rule]]\nname=\"a\"\non=\"signal\"\n", 4000),
        "signals = [\n" + times("\"x\",\n", 10000) + "]\n",
        "a = \"\"\"" + times("[\n", 60000),
        "x = [\n" + times("\"a\",\n", 20000),
    };
    for (const std::string &text : extremes)
        EXPECT_FALSE(parse_rules({{"x.toml", text}}, {}).ok() && text[0] != '#') << text.substr(0, 40);
}

} // namespace
} // namespace incident::rules
