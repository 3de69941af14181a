// Filters of tracepoints: their errors, the records they hold for, and the part that the kernel can check.

#include "rules/filter/filter.h"
#include "tests/rules/fakes.h"

#include <gmock/gmock.h>

#include <cstring>
#include <random>

namespace incident::rules {
namespace {

const TracepointFormat &format_of(const std::string &category, const std::string &name) {
    static std::map<std::string, TracepointFormat> known;
    auto &format = known[category + name];
    if (format.fields.empty())
        format = parse_tracepoint_format(fake_tracepoint_format(category, name).value_or(""));
    return format;
}
const TracepointFormat &sched_switch() {
    return format_of("sched", "sched_switch");
}

template <typename T> void put(std::vector<std::uint8_t> &record, std::size_t offset, const T &value) {
    record.resize(std::max(record.size(), offset + sizeof value));
    std::memcpy(record.data() + offset, &value, sizeof value);
}

// prev_comm at 8, prev_pid 24, prev_prio 28, prev_state 32 (signed long), next_comm 40, next_pid 56, next_prio 60
std::vector<std::uint8_t> switched(const std::string &prev_comm, std::int32_t prev_pid, std::int64_t prev_state) {
    std::vector<std::uint8_t> record(64);
    std::memcpy(record.data() + 8, prev_comm.data(), prev_comm.size());
    put(record, 24, prev_pid);
    put(record, 28, std::int32_t{120});
    put(record, 32, prev_state);
    std::memcpy(record.data() + 40, "next", 4);
    return record;
}

std::expected<Filter, FilterError> checked(const std::string &text, const TracepointFormat &format = sched_switch()) {
    auto filter = parse_filter(text);
    return filter ? check_filter(std::move(*filter), text, format) : filter;
}

bool holds_for(const std::string &text, const std::vector<std::uint8_t> &record) {
    const auto filter = checked(text);
    EXPECT_TRUE(filter.has_value()) << text << ": " << (filter ? "" : filter.error().message);
    return filter && holds(*filter, record);
}

TEST(Filter, Holds) {
    const auto record = switched("postgres", 42, 2);
    for (const char *text : {"prev_state == 2",
                             "prev_state != 1",
                             "prev_pid < 43",
                             "prev_pid <= 42",
                             "prev_pid > 41",
                             "prev_pid >= 42",
                             "prev_pid == 0x2a",
                             "prev_pid == 052",
                             "prev_pid > -1",
                             "prev_state & 3",
                             "prev_comm == 'postgres'",
                             "prev_comm == \"postgres\"",
                             "prev_comm ~ 'pg*' || prev_comm ~ 'post*'",
                             "prev_comm != 'pg'",
                             "!(prev_pid == 1)",
                             "!prev_pid == 1",
                             "!!(prev_pid == 42)",
                             "prev_state == 2 && (prev_comm ~ \"pg*\" || prev_prio == 120)",
                             "prev_pid == 1 && prev_pid == 2 || prev_pid == 42",
                             "prev_pid == 42 || prev_pid == 1 && prev_pid == 2",
                             "  prev_pid==42&&prev_state==2  ",
                             "((prev_pid == 42))",
                             "next_comm ~ 'nex?'",
                             "common_pid == 0"})
        EXPECT_TRUE(holds_for(text, record)) << text;
    for (const char *text : {"prev_state == 1", "prev_state != 2", "prev_pid < 42", "prev_pid <= 41", "prev_pid > 42",
                             "prev_pid >= 43", "prev_pid == -42", "prev_state & 1", "prev_comm == 'postgre'",
                             "prev_comm == 'postgresq'", "prev_comm ~ 'pg*'", "prev_comm ~ 'post'", "!(prev_pid == 42)",
                             "(prev_pid == 42 || prev_pid == 1) && prev_pid == 2"})
        EXPECT_FALSE(holds_for(text, record)) << text;
}

TEST(Filter, SignedAndUnsigned) {
    EXPECT_TRUE(holds_for("prev_pid == -1 && prev_state < 0", switched("x", -1, -5)));
    EXPECT_FALSE(holds_for("prev_pid > 0", switched("x", -1, 0)));
    // skbaddr at 8, location 16, rx_sk 24: pointers; protocol 32: unsigned short; reason 36: enum, unsigned
    const TracepointFormat &skb = format_of("skb", "kfree_skb");
    std::vector<std::uint8_t> record(40);
    put(record, 8, std::uint64_t{0xffff888012345678});
    put(record, 32, std::uint16_t{0xffff});
    put(record, 36, std::uint32_t{0x80000001});
    for (const char *text : {"skbaddr == 0xffff888012345678", "skbaddr > 0x7fffffffffffffff", "protocol == 65535",
                             "reason > 5", "reason & 0x80000000", "skbaddr & 0x8000000000000000"}) {
        const auto filter = checked(text, skb);
        ASSERT_TRUE(filter.has_value()) << text << ": " << filter.error().message;
        EXPECT_TRUE(holds(*filter, record)) << text;
    }
}

TEST(Filter, TextElsewhereInTheRecord) {
    const TracepointFormat &format = format_of("sched", "sched_process_exec");
    const std::string path = "/usr/bin/env";
    std::vector<std::uint8_t> record(20);
    put(record, 8, static_cast<std::uint32_t>(20 | (path.size() + 1) << 16));
    record.insert(record.end(), path.c_str(), path.c_str() + path.size() + 1);
    EXPECT_TRUE(holds(*checked("filename == '/usr/bin/env'", format), record));
    EXPECT_TRUE(holds(*checked("filename ~ '/usr/*' && pid == 0", format), record));
    record.resize(record.size() - 3); // it promises more than there is
    EXPECT_FALSE(holds(*checked("filename ~ '*'", format), record));
    EXPECT_FALSE(holds(*checked("filename != 'x'", format), record));
    EXPECT_FALSE(holds(*checked("!(filename == 'x')", format), record))
        << "what cannot be read does not hold, negated or not";
    EXPECT_TRUE(holds(*checked("filename == 'x' || pid == 0", format), record));
    EXPECT_FALSE(holds(*checked("filename == 'x' && pid == 0", format), record));
}

TEST(Filter, RelativeTextCountsFromBehindTheField) {
    const TracepointFormat format =
        parse_tracepoint_format("\tfield:__rel_loc char[] text;\toffset:8;\tsize:4;\tsigned:0;\n");
    std::vector<std::uint8_t> record(12);
    put(record, 8, std::uint32_t{4u << 16});
    record.insert(record.end(), {'a', 'b', 'c', 0});
    EXPECT_TRUE(holds(*checked("text == 'abc'", format), record));
    EXPECT_EQ(describe_record(format, record), "text=abc");
}

TEST(Filter, ShortRecordsHoldForNothing) {
    const auto whole = switched("postgres", 42, 2);
    for (std::size_t size = 0; size < 40; ++size) {
        const std::vector<std::uint8_t> record(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_FALSE(holds_for("prev_state == 2", record));
        EXPECT_FALSE(holds_for("!(prev_state == 1)", record));
        EXPECT_TRUE(size < 24 || holds_for("prev_comm ~ 'post*'", record));
    }
    EXPECT_TRUE(holds_for("prev_state == 2", whole));
}

TEST(Filter, EmptyPassesUncheckedDoesNot) {
    EXPECT_TRUE(holds(Filter{}, {}));
    EXPECT_FALSE(holds(*parse_filter("prev_state == 2"), switched("x", 1, 2)));
    EXPECT_TRUE(necessary_clauses(*parse_filter("prev_state == 2"), 8).empty());
}

struct Wrong {
    const char *text;
    const char *marked; // the caret's piece of the text; "" at the end
    const char *message;
    const char *hint;
};

class WrongFilter : public testing::TestWithParam<Wrong> {};

TEST_P(WrongFilter, SaysWhereAndWhat) {
    const Wrong &w = GetParam();
    const auto filter = checked(w.text);
    ASSERT_FALSE(filter.has_value());
    const FilterError &error = filter.error();
    EXPECT_EQ(error.message, w.message);
    EXPECT_EQ(error.hint, w.hint);
    const std::string text = w.text;
    ASSERT_LE(error.at, text.size());
    EXPECT_EQ(text.substr(error.at, error.at == text.size() ? 0 : error.length), w.marked);
}

INSTANTIATE_TEST_SUITE_P(
    Filters, WrongFilter,
    testing::Values(Wrong{"", "", "the filter is empty", "leave 'filter' out: every hit counts"},
                    Wrong{"prev_state = 2", "=", "'=' is no operator", "write =="},
                    Wrong{"prev_state === 2", "===", "'===' is no operator", "write =="},
                    Wrong{"prev_state <> 2", "<>", "'<>' is no operator", "write !="},
                    Wrong{"prev_comm =~ 'a*'", "=~", "'=~' is no operator", "write ~"},
                    Wrong{"prev_comm !~ 'a*'", "!~", "'!~' is no operator", "write !(field ~ \"pattern\")"},
                    Wrong{"prev_pid == 1 and prev_state == 2", "and", "'and' is no operator", "write &&"},
                    Wrong{"prev_pid == 1 | prev_state == 2", "|", "'|' is no operator", "write ||"},
                    Wrong{"prev_pid == 1 prev_state == 2", "prev_state", "expected && or || here", ""},
                    Wrong{"prev_pid == 1)", ")", "')' without '('", ""},
                    Wrong{"(prev_pid == 1", "(", "'(' is not closed", ""},
                    Wrong{"(prev_pid == 1 prev_prio == 2)", "prev_prio", "expected && or || or ')' here", ""},
                    Wrong{"prev_pid == 1 &&", "", "the filter ends where a field should stand", ""},
                    Wrong{"&& prev_pid == 1", "&&", "expected a field here", ""},
                    Wrong{"100 > prev_prio", "100", "a comparison begins with a field",
                          "write prev_prio < 100, not 100 > prev_prio"},
                    Wrong{"prev_pid", "", "the field 'prev_pid' is not compared with anything", "write prev_pid != 0"},
                    Wrong{"prev_pid && prev_prio", "&&", "the field 'prev_pid' is not compared with anything",
                          "write prev_pid != 0"},
                    Wrong{"prev_pid == next_pid", "next_pid", "'next_pid' is not a value",
                          "fields are compared with numbers and text; text needs quotes: 'next_pid'"},
                    Wrong{"prev_pid ==", "", "a value is missing here", "a number, or \"text\""},
                    Wrong{"prev_comm < 'a'", "'a'", "this operator compares numbers, found text",
                          "text is compared with ==, != and ~"},
                    Wrong{"prev_pid ~ 1", "1", "'~' compares text, found a number", "write the pattern in quotes"},
                    Wrong{"prev_comm == 'a", "'a", "the text is not closed: ' is missing", ""},
                    Wrong{"prev_pid == 12x", "12x", "'12x' is not a number",
                          "numbers are written 12, 0x1f or 0644; text needs quotes"},
                    Wrong{"prev_pid == 08", "08", "'08' is not a number",
                          "numbers are written 12, 0x1f or 0644; text needs quotes"},
                    Wrong{"prev_pid == 0x10000000000000000", "0x10000000000000000",
                          "'0x10000000000000000' does not fit into 64 bits", ""},
                    Wrong{"prev_pid == $1", "$", "unexpected '$' in the filter",
                          "it is made of fields, numbers, \"text\" and == != < <= > >= & ~ && || ! ( )"},
                    Wrong{"prev_pid == 1 && \xE2\x80\xAE", "\xE2\x80\xAE", "unexpected '\\u{202e}' in the filter",
                          "it is made of fields, numbers, \"text\" and == != < <= > >= & ~ && || ! ( )"},
                    Wrong{"prev_sate == 2", "prev_sate", "unknown field 'prev_sate'", "did you mean 'prev_state'?"},
                    Wrong{"prev_pid == 1 && moon == 2", "moon", "unknown field 'moon'",
                          "its fields: prev_comm, prev_pid, prev_prio, prev_state, next_comm, next_pid, next_prio"},
                    Wrong{"prev_comm == 5", "5", "'prev_comm' is text, found a number", "write the value in quotes"},
                    Wrong{"prev_pid == 'x'", "'x'", "'prev_pid' is a number, found text", ""},
                    Wrong{"prev_pid == 2147483648", "2147483648", "'prev_pid' is -2147483648 to 2147483647", ""},
                    Wrong{"prev_pid == 0xffffffff", "0xffffffff", "'prev_pid' is -2147483648 to 2147483647", ""},
                    Wrong{"prev_state == 0xffffffffffffffff", "0xffffffffffffffff",
                          "'prev_state' is -9223372036854775808 to 9223372036854775807", ""},
                    Wrong{"common_flags == 256", "256", "'common_flags' is 0 to 255", ""},
                    Wrong{"common_flags == -1", "-1", "'common_flags' is 0 to 255", ""},
                    Wrong{"prev_comm == '12345678901234567'", "'12345678901234567'",
                          "'prev_comm' has 16 bytes, this text has 17", ""}));

TEST(Filter, BytesCannotBeCompared) {
    const auto filter = checked("args == 1", format_of("raw_syscalls", "sys_enter"));
    ASSERT_FALSE(filter.has_value());
    EXPECT_EQ(filter.error().message, "'args' is neither a number nor text: it cannot be compared");
}

TEST(Filter, IsBounded) {
    std::string nested, wide = "prev_pid == 1";
    for (int i = 0; i < 100; ++i)
        nested += "(";
    EXPECT_EQ(checked(nested + "prev_pid == 1").error().message, "nested deeper than 32 levels");
    for (int i = 0; i < 200; ++i)
        wide += "||prev_pid==1";
    EXPECT_EQ(checked(wide).error().message, "the filter has more than 256 parts");
    EXPECT_EQ(checked(std::string(5000, ' ')).error().message, "the filter is longer than 4096 bytes");
    EXPECT_EQ(checked("prev_comm == '" + std::string(300, 'a') + "'").error().message,
              "the text is too long or has a NUL in it");
    EXPECT_EQ(checked(std::string("prev_comm == 'a\0'", 17)).error().message,
              "the text is too long or has a NUL in it");
}

// The clauses as text: "32/8 == 2", "8/2 pg".
std::vector<std::string> clauses(const std::string &text, std::size_t at_most = 8,
                                 const TracepointFormat &format = sched_switch()) {
    const auto filter = checked(text, format);
    EXPECT_TRUE(filter.has_value()) << text;
    std::vector<std::string> out;
    for (const FilterClause &c : necessary_clauses(*filter, at_most)) {
        const char *ops[] = {"&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "&", "~"};
        std::string line = std::to_string(c.offset) + "/" + std::to_string(c.size) + (c.is_signed ? " s " : " ");
        line += c.is_prefix ? c.prefix : ops[static_cast<std::size_t>(c.op)] + (" " + std::to_string(c.number));
        out.push_back(line);
    }
    return out;
}

TEST(Filter, NecessaryClauses) {
    using testing::ElementsAre;
    using testing::IsEmpty;
    EXPECT_THAT(clauses("prev_state == 2 && prev_comm ~ 'pg*'"), ElementsAre("32/8 s == 2", "8/2 pg"));
    EXPECT_THAT(clauses("prev_state == 2 && (prev_pid == 1 || prev_pid == 2)"), ElementsAre("32/8 s == 2"));
    EXPECT_THAT(clauses("prev_state == 2 || prev_pid == 1"), IsEmpty());
    EXPECT_THAT(clauses("!(prev_state == 2)"), IsEmpty());
    EXPECT_THAT(clauses("prev_pid > 1 && (prev_prio <= 9 && prev_state & 3)"),
                ElementsAre("24/4 s > 1", "28/4 s <= 9", "32/8 s & 3"));
    EXPECT_THAT(clauses("prev_pid > 1 && prev_prio <= 9 && prev_state & 3", 2),
                ElementsAre("24/4 s > 1", "28/4 s <= 9"));
    EXPECT_THAT(clauses("common_type == 5"), ElementsAre("0/2 == 5"));
    EXPECT_THAT(clauses("prev_comm ~ '*pg'"), IsEmpty());
    EXPECT_THAT(clauses("prev_comm != 'pg'"), IsEmpty());
    // A whole text ends with its NUL, where there is room.
    EXPECT_THAT(clauses("prev_comm == 'pg'"), ElementsAre(std::string("8/3 pg\0", 7)));
    EXPECT_THAT(clauses("prev_comm ~ 'pg'"), ElementsAre(std::string("8/3 pg\0", 7)));
    EXPECT_THAT(clauses("prev_comm == ''"), ElementsAre(std::string("8/1 \0", 5)));
    EXPECT_THAT(clauses("prev_comm == '1234567890123456'"), ElementsAre("8/16 1234567890123456"));
    EXPECT_THAT(clauses("filename == 'x'", 8, format_of("sched", "sched_process_exec")), IsEmpty());
}

// What the kernel does with clauses, in few words.
bool passes(const std::vector<FilterClause> &all, const std::vector<std::uint8_t> &record) {
    for (const FilterClause &c : all) {
        if (c.is_prefix) {
            if (std::memcmp(record.data() + c.offset, c.prefix.data(), c.size) != 0)
                return false;
            continue;
        }
        std::int64_t value = 0;
        if (c.size == 4) {
            std::int32_t narrow;
            std::memcpy(&narrow, record.data() + c.offset, 4);
            value = narrow;
        } else {
            std::memcpy(&value, record.data() + c.offset, 8);
        }
        using Op = Filter::Op;
        const bool held = c.op == Op::Equal          ? value == c.number
                          : c.op == Op::NotEqual     ? value != c.number
                          : c.op == Op::Less         ? value < c.number
                          : c.op == Op::LessEqual    ? value <= c.number
                          : c.op == Op::Greater      ? value > c.number
                          : c.op == Op::GreaterEqual ? value >= c.number
                                                     : (value & c.number) != 0;
        if (!held)
            return false;
    }
    return true;
}

class Maker {
public:
    explicit Maker(std::uint32_t seed) : random_(seed) {}
    std::size_t below(std::size_t end) { return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_); }

    std::string filter(int depth) {
        switch (depth == 0 ? 4 : below(6)) {
        case 0:
            return "!(" + filter(depth - 1) + ")";
        case 1:
            return "(" + filter(depth - 1) + " || " + filter(depth - 1) + ")";
        case 2:
        case 3:
            return filter(depth - 1) + " && " + filter(depth - 1);
        default:
            return comparison();
        }
    }
    std::vector<std::uint8_t> record() {
        const char *comms[] = {"pg", "postgres", "p", ""};
        return switched(comms[below(4)], static_cast<std::int32_t>(below(4)) - 1,
                        static_cast<std::int64_t>(below(4)) - 1);
    }

private:
    std::string comparison() {
        const char *ops[] = {" == ", " != ", " < ", " <= ", " > ", " >= ", " & "};
        const char *texts[] = {"prev_comm == 'pg'", "prev_comm ~ 'p*'", "prev_comm != 'p'", "prev_comm ~ 'pg'",
                               "prev_comm ~ '*g'"};
        if (below(3) == 0)
            return texts[below(5)];
        const std::string field = below(2) == 0 ? "prev_pid" : "prev_state";
        return field + ops[below(7)] + std::to_string(static_cast<int>(below(4)) - 1);
    }
    std::mt19937 random_;
};

TEST(Filter, ClausesNeverDropWhatTheFilterHoldsFor) {
    std::size_t held = 0, dropped = 0;
    for (std::uint32_t seed = 0; seed < 2000; ++seed) {
        Maker maker(seed);
        const std::string text = maker.filter(4);
        const auto filter = checked(text);
        ASSERT_TRUE(filter.has_value()) << text << filter.error().message;
        const auto all = necessary_clauses(*filter, 8);
        for (int i = 0; i < 16; ++i) {
            const auto record = maker.record();
            const bool holds_here = holds(*filter, record), passed = passes(all, record);
            EXPECT_TRUE(passed || !holds_here) << text;
            held += holds_here;
            dropped += !passed;
        }
    }
    EXPECT_GT(held, 1000u);
    EXPECT_GT(dropped, 1000u) << "the clauses do some of the work";
}

TEST(Filter, MutatedTextNeverCrashes) {
    const std::string good = "prev_state == 2 && (prev_comm ~ \"pg*\" || !(prev_prio < 0x64)) && next_pid & 017";
    std::size_t kept = 0;
    for (std::uint32_t seed = 0; seed < 3000; ++seed) {
        std::mt19937 random(seed);
        std::string text = good;
        for (int i = 0; i < 3; ++i) {
            const std::size_t at = random() % text.size();
            if (random() % 2 == 0)
                text[at] = static_cast<char>(random() % 256);
            else
                text.erase(at, random() % 8);
            text += "(";
            text.pop_back();
        }
        const auto filter = checked(text);
        if (filter) {
            holds(*filter, switched("pg", 1, 2));
            ++kept;
        } else {
            EXPECT_LE(filter.error().at, text.size()) << text;
            EXPECT_FALSE(filter.error().message.empty());
        }
    }
    EXPECT_GT(kept, 0u);
}

} // namespace
} // namespace incident::rules
