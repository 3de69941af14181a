#include "rules/model/match.h"
#include "rules/model/units.h"
#include "rules/text/escape.h"
#include "rules/text/glob.h"
#include "rules/text/signals.h"
#include "rules/text/suggest.h"

#include <gmock/gmock.h>

#include <csignal>

namespace incident::rules {
namespace {

using namespace std::chrono_literals;

TEST(Units, Durations) {
    const std::pair<const char *, Nanoseconds> good[] = {{"0s", 0s},   {"50us", 50us}, {"900ms", 900ms}, {"5s", 5s},
                                                         {"2m", 2min}, {"1h", 1h},     {"30d", 720h}};
    for (const auto &[text, value] : good)
        EXPECT_EQ(parse_duration(text).value_or(-1ns), value) << text;
    for (const char *text : {"", "5", "s", "5 s", "5S", "-5s", "+5s", "1.5s", "5s ", "1h30m", "0x5s", "200000d"})
        EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(Units, Sizes) {
    EXPECT_EQ(parse_size("0B").value_or(1), 0u);
    EXPECT_EQ(parse_size("512B").value_or(0), 512u);
    EXPECT_EQ(parse_size("16KiB").value_or(0), 16u << 10);
    EXPECT_EQ(parse_size("4MiB").value_or(0), 4u << 20);
    EXPECT_EQ(parse_size("2GiB").value_or(0), 2ull << 30);
    EXPECT_EQ(parse_size("1TiB").value_or(0), 1ull << 40);
    for (const char *text : {"", "5", "16kB", "16KB", "16K", "KiB", "-1B", "1.5MiB", "9999999999TiB"})
        EXPECT_FALSE(parse_size(text)) << text;
}

TEST(Units, Shares) {
    EXPECT_EQ(parse_percent("1%").value_or(0), 0.01);
    EXPECT_EQ(parse_percent("0.05%").value_or(0), 0.0005);
    EXPECT_EQ(parse_percent("100%").value_or(0), 1);
    for (const char *text : {"", "1", "%", "0%", "-1%", "101%", "nan%", "inf%", "1e-1%", "1 %", "1%%", "off"})
        EXPECT_FALSE(parse_percent(text)) << text;
}

TEST(Units, TextIsTheLargestExactUnit) {
    EXPECT_EQ(duration_text(0ns), "0s");
    EXPECT_EQ(duration_text(1500us), "1500us");
    EXPECT_EQ(duration_text(1500ns), "1us");
    EXPECT_EQ(about_text(1500us), "1500us");
    EXPECT_EQ(about_text(10'123us), "10ms");
    EXPECT_EQ(duration_text(1500ms), "1500ms");
    EXPECT_EQ(duration_text(90s), "90s");
    EXPECT_EQ(duration_text(120s), "2m");
    EXPECT_EQ(duration_text(48h), "2d");
    EXPECT_EQ(size_text(0), "0B");
    EXPECT_EQ(size_text(1000), "1000B");
    EXPECT_EQ(size_text(32 * 1024), "32KiB");
    EXPECT_EQ(size_text(3ull << 40), "3TiB");
}

TEST(Signals, NamesAndNumbersAgree) {
    for (int number = 1; number <= last_signal; ++number) {
        const std::string name = signal_name(number);
        if (name.starts_with("SIG")) {
            EXPECT_EQ(signal_number(name), number) << name;
        }
    }
    EXPECT_EQ(signal_number("SEGV"), SIGSEGV);
    EXPECT_EQ(signal_number("SIGIOT"), SIGABRT);
    EXPECT_EQ(signal_number("SIGRTMIN+3"), SIGRTMIN + 3);
    EXPECT_EQ(signal_number("RTMAX-1"), SIGRTMAX - 1);
    for (const char *name :
         {"", "SIG", "segv", "SIGSEGV ", "11", "SIGRTMIN-1", "SIGRTMIN+", "SIGRTMIN+31", "SIGRTMAX+1"})
        EXPECT_EQ(signal_number(name), std::nullopt) << name;
}

TEST(Signals, WhichKill) {
    EXPECT_TRUE(kills_by_default(SIGKILL));
    EXPECT_TRUE(kills_by_default(SIGRTMIN));
    EXPECT_FALSE(kills_by_default(SIGCHLD));
    EXPECT_FALSE(kills_by_default(SIGSTOP));
}

TEST(Suggest, Nearest) {
    const std::vector<std::string> words = {"signals", "enabled", "on", "warn"};
    EXPECT_EQ(nearest("singals", words), "signals");
    EXPECT_EQ(nearest("Signals", words), "signals");
    EXPECT_EQ(nearest("enable", words), "enabled");
    EXPECT_EQ(nearest("warning", words), "warn");
    EXPECT_EQ(nearest("no", words), "on");
    EXPECT_EQ(nearest("colour", words), "");
    EXPECT_EQ(nearest(std::string(10000, 'a'), words), "");
    EXPECT_EQ(nearest("", words), "");
}

TEST(Escape, TerminalSafe) {
    EXPECT_EQ(terminal_safe("plain é → 漢"), "plain é → 漢");
    EXPECT_EQ(terminal_safe("\x1b[31m\t\n\x7f"), "\\x1b[31m\\t\\n\\x7f");
    EXPECT_EQ(terminal_safe("\xC2\x9B"), "\\x9b") << "a C1 control";
    EXPECT_EQ(terminal_safe("\xE2\x80\xAE"), "\\u{202e}") << "right-to-left override";
    EXPECT_EQ(terminal_safe("\xff\xC0\xAF\xED\xA0\x80"), "\\xff\\xc0\\xaf\\xed\\xa0\\x80") << "overlong, surrogate";
    EXPECT_EQ(terminal_safe("\xE2\x80"), "\\xe2\\x80") << "cut short";
    EXPECT_EQ(quote(std::string(1000, 'a')), "'" + std::string(160, 'a') + "...'");
}

TEST(Match, UnitsOfCgroup) {
    using testing::ElementsAre;
    EXPECT_THAT(units_of_cgroup("/system.slice/app.service/worker"), ElementsAre("system.slice", "app.service"));
    EXPECT_THAT(units_of_cgroup("/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope"),
                ElementsAre("user.slice", "user-1000.slice", "user@1000.service", "app.slice", "x.scope"));
    EXPECT_THAT(units_of_cgroup("/system.slice/_cpu.service"), ElementsAre("system.slice", "cpu.service"));
    EXPECT_THAT(units_of_cgroup("/"), ElementsAre());
    EXPECT_THAT(units_of_cgroup(""), ElementsAre());
    EXPECT_THAT(units_of_cgroup("/docker/0123/.service"), ElementsAre());
}

} // namespace
} // namespace incident::rules
