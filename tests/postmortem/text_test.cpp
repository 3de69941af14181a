// Escaping, times, and the JSON layer.
#include "postmortem/read/json_skim.h"
#include "postmortem/read/json_view.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/terminal/times.h"

#include <cstdlib>
#include <ctime>
#include <gtest/gtest.h>

namespace incident::postmortem {

TEST(Escape, TerminalNeverSeesWhatItWouldActOn) {
    EXPECT_EQ(printable("plain ünïcode → ok \\ back"), "plain ünïcode → ok \\ back");
    EXPECT_EQ(printable("a\nb\tc\rd"), "a\\nb\\tc\\x0dd");
    EXPECT_EQ(printable("\x1b[31m\x7f"), "\\x1b[31m\\x7f");
    EXPECT_EQ(printable("\xc2\x9b"
                        "31m"),
              "\\x9b31m"); // CSI as one C1 character
    EXPECT_EQ(printable("\x9b"
                        "31m"),
              "\\x9b31m"); // and as a bare byte
    EXPECT_EQ(printable("\u202eevil\u2066"), "\\u202eevil\\u2066");
    EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(Escape, InvalidUtf8IsShownByteByByte) {
    EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");          // overlong
    EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80"); // surrogate
    EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
    EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82"); // cut off
    EXPECT_EQ(printable("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80");
}

TEST(Escape, ClippingCountsCodePoints) {
    EXPECT_EQ(clipped("äöü", 3), "äöü");
    EXPECT_EQ(clipped("äöüß", 3), "äö…");
    EXPECT_EQ(padded("äö", 4), "äö  ");
}

TEST(Times, Durations) {
    EXPECT_EQ(*parse_duration("250ms"), 250'000'000);
    EXPECT_EQ(*parse_duration("30"), 30'000'000'000);
    EXPECT_EQ(*parse_duration("1h30m"), 5400'000'000'000);
    EXPECT_EQ(*parse_duration("-1.5s"), -1'500'000'000);
    for (const auto *wrong : {"", "-", "s", "5x", "1e400", "5s3", "--5s", "99999999999999999999d", "nan", "inf"})
        EXPECT_FALSE(parse_duration(wrong)) << wrong;
}

TEST(Times, Moments) {
    setenv("TZ", "UTC", 1);
    tzset();
    const std::int64_t now = 1795273445'000'000'000; // 2026-11-21 15:04:05
    EXPECT_EQ(*parse_time("2026-11-21 15:04:05", now), now);
    EXPECT_EQ(*parse_time("15:04", now), now - 5'000'000'000);
    EXPECT_EQ(*parse_time("today", now), *parse_time("2026-11-21", now));
    EXPECT_EQ(*parse_time("2h", now), now - 7200'000'000'000);
    EXPECT_EQ(*parse_time("-2h", now), now - 7200'000'000'000);
    EXPECT_EQ(*parse_time("2h ago", now), now - 7200'000'000'000);
    EXPECT_FALSE(parse_time(" ago", now));
    EXPECT_EQ(*parse_time("@17", now), 17'000'000'000);
    EXPECT_FALSE(parse_time("2026-13-45", now));
    EXPECT_EQ(parse_name_time("20261121T150405.123Z"), now + 123'000'000);
    EXPECT_EQ(parse_iso_time("2026-11-21T15:04:05Z"), now);
    EXPECT_EQ(parse_iso_time("2026-11-21T16:04:05.5+01:00"), now + 500'000'000);
    EXPECT_EQ(parse_iso_time("2026-11-21T15:04:05.123456789Z"), now + 123'456'789);
    EXPECT_EQ(parse_iso_time("2026-11-21T14:04:05-0100"), now);
    for (const auto *wrong : {"", "2026-11-21", "2026-99-21T15:04:05Z", "2026-11-21T15:04:05", "9999-12-31T00:00:00Z",
                              "2026-11-21T15:04:05Zx", "2026-11-21T15:04:05.1x"})
        EXPECT_FALSE(parse_iso_time(wrong)) << wrong;
}

TEST(JsonView, WhatIsNotThereIsAFallback) {
    const auto document = parse_json(R"({"a": {"b": [1, -2, "0x10", 1.5, null]}, "t": "x"})");
    ASSERT_TRUE(document);
    const JsonView view = *document;
    EXPECT_EQ(view["a"]["b"].at(0).natural(), 1u);
    EXPECT_EQ(view["a"]["b"].at(1).integer(), -2);
    EXPECT_EQ(view["a"]["b"].at(1).natural(), std::nullopt);
    EXPECT_EQ(view["a"]["b"].at(2).natural(), 16u);
    EXPECT_EQ(view["a"]["b"].at(3).integer(), std::nullopt);
    EXPECT_EQ(view["a"]["b"].at(99)["x"]["y"].text(), "");
    EXPECT_EQ(view["t"]["u"].at(0).flag(true), true);
    EXPECT_EQ(view["t"].count(), 0u);
    EXPECT_EQ(view["a"]["b"].shown(), R"([1,-2,"0x10",1.5,null])");
}

TEST(JsonView, ErrorsSayWhere) {
    EXPECT_EQ(parse_json("{\n \"a\": x}").error().what, "not JSON from line 2, column 7 on");
    EXPECT_EQ(parse_json("").error().what, "empty file");
    EXPECT_EQ(parse_json(std::string(100000, '[')).error().what, "JSON nested deeper than 64 levels");
    EXPECT_TRUE(parse_json("\"" + std::string(1000, '[') + "\""));
}

TEST(JsonView, DumpIsSafeForATerminal) {
    const Json hostile{{"k\x1b", "\x1b[31m\xff\x7f\u009b"}};
    for (const char c : dump_json(hostile))
        EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

TEST(JsonSkim, FindsWhatIsAskedFor) {
    const std::vector<std::string_view> paths{"rule", "process.exe", "core.join", "process.pid", "none"};
    std::vector<std::string> values;
    EXPECT_TRUE(skim_json(R"( { "x": [1, {"rule": "no"}, "]"], "rule" : "a\"b\u0041", "process": {"deep": {"exe": "no"},
        "exe": "/bin/x", "pid": 17 }, "core": {"join": "exact"}} )",
                          paths, values));
    EXPECT_EQ(values, (std::vector<std::string>{"a\"bA", "/bin/x", "exact", "17", ""}));
}

TEST(JsonSkim, RefusesWhatIsNoObject) {
    const std::vector<std::string_view> paths{"rule", "process.exe"};
    std::vector<std::string> values;
    for (const auto *wrong : {"", "[]", "{", "{\"a\"", "{\"a\":", "{\"a\":\"", "{\"a\":[1,{\"b\":2}", "{\"rule\":\"x\"",
                              "nonsense", "{\"process\":{\"exe\":", "{\"a\\", "{\"a\":\"\\"})
        EXPECT_FALSE(skim_json(wrong, paths, values)) << wrong;
    EXPECT_TRUE(skim_json(R"({"process": [1], "rule": {"x": 1}})", paths, values));
    EXPECT_EQ(values[1], "");
}

} // namespace incident::postmortem
