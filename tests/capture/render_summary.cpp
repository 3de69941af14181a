#include "render_fixture.h"

#include "capture/decode/decode_text.h"
#include "capture/render/timeline_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

namespace incident::capture {
namespace {

using test::call;
using test::Made;
using test::second;
using ::testing::HasSubstr;
using ::testing::Not;

std::string timeline_line(std::string_view json, std::int64_t reference) {
    simdjson::dom::parser parser;
    return timeline_text(parser.parse(json.data(), json.size()).value(), reference);
}

std::string body(const char *json, std::int64_t reference = 10'000'000'000) {
    const std::string text = timeline_line(json, reference);
    return text.substr(text.find_first_not_of(' '));
}

TEST(TimelineText, Calls) {
    EXPECT_EQ(body(R"({"t_ns":9998797000,"kind":"open","name":"openat","args":["AT_FDCWD","\"/etc/x\"","O_RDONLY"],
                       "ret":3,"error":null,"duration_ns":12000,"in_flight":false})"),
              "-1.203 ms  openat(AT_FDCWD, \"/etc/x\", O_RDONLY) = 3 <12.0 µs>");
    EXPECT_EQ(body(R"({"t_ns":8000000000,"kind":"syscall","name":"read","args":["3","0x7f","5"],"ret":null,"fd":3,
                       "fd_path":"/etc/x","in_flight":true})"),
              "-2.000 s  read(3</etc/x>, 0x7f, 5) = ? <in flight>");
    EXPECT_EQ(body(R"({"t_ns":10000000000,"kind":"open","name":"open","args":["\"x\""],"ret":-2,"error":"ENOENT",
                       "duration_ns":870})"),
              "+0 ns  open(\"x\") = -1 ENOENT <870 ns>");
    EXPECT_EQ(
        body(R"({"t_ns":0,"kind":"syscall","name":"mmap","args":[],"ret":139637976727552,"ret_text":"0x7f0000000000",
                       "duration_ns":1000,"memory":{"delta":8192,"rss":1048576}})"),
        "-10.00 s  mmap() = 0x7f0000000000 <1.00 µs> {+8.0 KiB, rss 1.0 MiB}");
}

TEST(TimelineText, SignalsAndTheRest) {
    EXPECT_EQ(
        body(R"({"t_ns":10000000000,"kind":"signal","name":"SIGSEGV","phase":"delivered","code_name":"SEGV_MAPERR",
                       "address":"0x10","disposition":"fatal"})"),
        "+0 ns  --- SIGSEGV delivered {SEGV_MAPERR, address 0x10, fatal} ---");
    EXPECT_EQ(body(R"({"t_ns":10000000000,"kind":"signal","name":"SIGTERM","phase":"generated","code_name":"SI_USER",
                       "sender":{"pid":55,"comm":"kill\u001b"},"result":"delivered"})"),
              "+0 ns  --- SIGTERM generated {SI_USER, from kill\\33[55], delivered} ---");
    EXPECT_EQ(body(R"({"t_ns":10000000000,"kind":"exec","name":"exec","path":"/bin/x"})"),
              "+0 ns  *** exec /bin/x ***");
    EXPECT_EQ(body(R"({"t_ns":10000000000,"kind":"exit","name":"child","child":7,"status_text":"exited 1"})"),
              "+0 ns  *** exit child 7: exited 1 ***");
}

TEST(TimelineText, NothingInALineCanHurt) {
    for (const char *json : {"{}", "[]", "null", "3", R"({"t_ns":"x","kind":7,"args":[1,{}],"name":[]})",
                             R"({"kind":"syscall","args":{"a":1},"ret":"x","fd":"y","memory":[],"duration_ns":-5})",
                             R"({"t_ns":-9223372036854775808,"kind":"signal","sender":7})",
                             R"({"t_ns":18446744073709551615,"kind":"\u001b[2J"})"}) {
        const std::string text = timeline_line(json, 9223372036854775807);
        EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << json;
        EXPECT_FALSE(text.empty());
    }
    const std::string text = timeline_line(R"({"kind": "syscall", "name": "a\nb\u007f", "args": ["\u009b"]})", 0);
    EXPECT_THAT(text, HasSubstr("a\\nb\\177(\\302\\233)"));
}

TEST(TimelineText, Times) {
    EXPECT_EQ(relative_time(0), "       +0 ns");
    EXPECT_EQ(relative_time(-999), "     -999 ns");
    EXPECT_EQ(relative_time(-1'203'000), "   -1.203 ms");
    EXPECT_EQ(relative_time(999'999'999), "    +1.000 s");
    EXPECT_EQ(relative_time(-123'456), "   -123.5 µs");
    EXPECT_EQ(duration_text(999'600), "1.00 ms");
    EXPECT_EQ(duration_text(75ll * 1'000'000'000), "1.25 min");
    EXPECT_FALSE(relative_time(std::numeric_limits<std::int64_t>::min()).empty());
}

TEST(TerminalText, CutsAndEscapes) {
    EXPECT_EQ(terminal_text("abc", 3), "abc");
    EXPECT_EQ(terminal_text("abcd", 3), "ab…");
    EXPECT_EQ(terminal_text("ab\x1b", 3), "ab…"); // an escape is not cut in the middle
    EXPECT_EQ(terminal_text("é\xff"), "é\\377");
    EXPECT_EQ(terminal_text(""), "");
}

std::vector<std::string> summary_lines(const std::string &text) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find('\n', at);
        lines.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return lines;
}

std::size_t columns(const std::string &line) {
    return static_cast<std::size_t>(std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; }));
}

TEST(RenderSummary, OneScreenWhateverHappened) {
    Made made;
    for (std::uint32_t i = 2; i < 60; ++i)
        made.add_thread(100 + i, "worker\x1b\n");
    made.input.process.threads_expected = 90;
    for (std::uint64_t i = 0; i < 50; ++i)
        made.open_file(second + i * 1000, "/long/" + std::string(300, 'x') + std::to_string(i) + "\x1b[2J", 3 + i);
    made.collected.files["process/cmdline"] = std::string(5000, 'y');
    for (int i = 0; i < 20; ++i)
        made.collected.results.push_back({"c" + std::to_string(i), false, "no", 1});
    const std::string text = made.summary();
    const auto lines = summary_lines(text);
    EXPECT_LE(lines.size(), 50u) << text;
    for (const std::string &line : lines) {
        EXPECT_LE(columns(line), 100u) << line;
        EXPECT_EQ(line.find('\x1b'), std::string::npos);
    }
    EXPECT_THAT(text, HasSubstr("+51 more"));
    EXPECT_THAT(text, HasSubstr("incomplete: "));
}

TEST(RenderSummary, SaysWhatMatters) {
    Made made;
    made.open_file(second, "/etc/app.conf", 3);
    made.add_call(call(SYS_read, test::trigger_ns - 1'500'000, 10, {3, 0x10, 4096}, 12'000));
    made.core.reason = "RLIMIT_CORE is 0";
    const std::string text = made.summary();
    EXPECT_THAT(text, HasSubstr("app[100] (app.service) was killed by SIGSEGV"));
    EXPECT_THAT(text, HasSubstr("-1.500 ms  read(3</etc/app.conf>, 0x10, 4096) = 10 <12.0 µs>"));
    EXPECT_THAT(text, HasSubstr("core  none: RLIMIT_CORE is 0"));
    EXPECT_THAT(text, HasSubstr("opened  /etc/app.conf"));
    EXPECT_THAT(text, HasSubstr("complete: 2 of 2 threads"));
}

TEST(RenderSummary, MadeAgainWithAnotherCore) {
    Made made;
    made.core.pending = true;
    std::map<std::string, std::string> files;
    for (const auto &[path, bytes] : render_all(made.context()))
        files[path] = bytes;
    EXPECT_THAT(files["summary.txt"], HasSubstr("not there yet"));
    CoreLink core{Join::Exact, "", "/core.zst", "cursor", false, false, 99};
    const auto again = rerender_core(files["incident.json"], files["threads.json"], files["timeline.jsonl"], core);
    ASSERT_TRUE(again);
    std::map<std::string, std::string> changed(again->begin(), again->end());
    auto before = nlohmann::ordered_json::parse(files["incident.json"]);
    auto after = nlohmann::ordered_json::parse(changed["incident.json"]);
    EXPECT_EQ(after["core"]["file"], "/core.zst");
    before.erase("core");
    after.erase("core");
    EXPECT_EQ(before, after);
    EXPECT_THAT(changed["summary.txt"], HasSubstr("core  /core.zst (exact)"));
    EXPECT_FALSE(rerender_core("{", "[]", "", core));
    EXPECT_FALSE(rerender_core("{}", "{}", "", core));
    EXPECT_TRUE(rerender_core("{}", "[null,3]", "junk\n{}", core));
}

} // namespace
} // namespace incident::capture
