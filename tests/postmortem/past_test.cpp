// What info and timeline show of the time before an incident: last words, output, other incidents and cores.
#include "state.h"

#include <algorithm>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace incident::postmortem::test {

using testing::HasSubstr;
using testing::Not;

class PastOfAnIncident : public testing::Test {
protected:
    PastOfAnIncident() : record(sample_incident("crash")) { trigger = record["clocks"]["trigger_ns"]; }

    std::string word(std::int64_t after_ns, const std::string &message, bool cut = false) const {
        return Json({{"t_ns", trigger + after_ns},
                     {"identifier", "shop"},
                     {"pid", 4242},
                     {"message", message},
                     {"cut", cut}})
                   .dump() +
               "\n";
    }

    std::string info(const Files &files = {}) {
        Files all{{"incident.json", record.dump()}};
        all.insert(all.end(), files.begin(), files.end());
        const std::string name = state.add_sample("crash", all);
        const Ran ran = state.run({"info", name});
        EXPECT_EQ(ran.code, 0) << ran.err;
        return ran.out;
    }

    State state;
    Json record;
    std::int64_t trigger = 0;
};

TEST_F(PastOfAnIncident, IsNotShownWhereTheBundleHasNone) {
    EXPECT_THAT(info(), Not(HasSubstr("last words")));
}

TEST_F(PastOfAnIncident, LastWordsAreTheNewestUpToTheTriggerAndTheFirstAfterIt) {
    record["last_words"] = {{"state", "read"}};
    std::string journal = "no JSON\n[1]\n";
    for (int i = 0; i < 12; ++i)
        journal += word(-1'000'000 * (12 - i), fmt::format("before {};", i));
    journal += word(1'000'000, "after it", true);
    for (int i = 0; i < 12; ++i)
        journal += word(2'000'000, fmt::format("later {};", i));
    const std::string shown = info({{"journal.jsonl", journal}});
    EXPECT_THAT(shown, HasSubstr("last words  … 2 earlier (incidentctl timeline --kind log)\n"));
    EXPECT_THAT(shown, Not(HasSubstr("before 1;")));
    EXPECT_THAT(shown, HasSubstr("              -10.00 ms  shop[4242]: before 2;\n"));
    EXPECT_THAT(shown, HasSubstr("before 11;\n"));
    EXPECT_THAT(shown, HasSubstr("+1.000 ms  shop[4242]: after it…\n"));
    EXPECT_THAT(shown, HasSubstr("later 8;\n"));
    EXPECT_THAT(shown, HasSubstr("… 3 later\n"));
}

TEST_F(PastOfAnIncident, HostileWordsAreHarmless) {
    record["last_words"] = {{"state", "read"}};
    const std::string shown =
        info({{"journal.jsonl", word(-1, "one\n\x1b[31mred\u202e") + word(-2, std::string(5000, 'x'))},
              {"process/stderr", "\x1b[2J\xff out\nlast\n"}});
    EXPECT_THAT(shown, HasSubstr("one\\n\\x1b[31mred\\u202e"));
    EXPECT_THAT(shown, Not(HasSubstr("\x1b")));
    EXPECT_THAT(shown, Not(HasSubstr(std::string(500, 'x'))));
    EXPECT_THAT(shown, HasSubstr("    stderr  \\x1b[2J\\xff out\n"));
}

TEST_F(PastOfAnIncident, WhyThereAreNoWordsIsSaid) {
    record["last_words"] = {{"state", "failed"}, {"reason", "open the journal: Permission denied"}};
    EXPECT_THAT(info(), HasSubstr("last words  not read: open the journal: Permission denied\n"));
}

TEST_F(PastOfAnIncident, WordsThatAreStillToComeAreSaidToBeSo) {
    record["last_words"] = {{"state", "pending"}, {"reason", "the journal is read when 2 s have passed"}};
    EXPECT_THAT(info(), HasSubstr("last words  pending: the journal is read when 2 s have passed\n"));
}

TEST_F(PastOfAnIncident, NoWordsAreSaidToBeNone) {
    record["last_words"] = {{"state", "read"}};
    EXPECT_THAT(info({{"journal.jsonl", ""}}), HasSubstr("last words  none in the journal\n"));
}

TEST_F(PastOfAnIncident, TheEndOfItsOutputIsShownOnce) {
    std::string text;
    for (int i = 0; i < 9; ++i)
        text += fmt::format("out {};\n", i);
    const std::string shown = info({{"process/stdout", text}, {"process/stderr", text}});
    EXPECT_THAT(shown, HasSubstr("    stdout  out 4;\n"));
    EXPECT_THAT(shown, HasSubstr("            out 8;\n"));
    EXPECT_THAT(shown, Not(HasSubstr("out 3;")));
    EXPECT_THAT(shown, Not(HasSubstr("    stderr")));
}

TEST_F(PastOfAnIncident, OtherIncidentsAndCoresAreNamed) {
    record["time"] = "2026-11-21T15:04:05Z";
    record["nearby"] = {{"incidents",
                         {{{"id", "20261121T150000.000Z-crash-shop-7-aaaaaa"},
                           {"time", "2026-11-21T15:00:00Z"},
                           {"kind", "signal"},
                           {"signal", "SIGABRT"},
                           {"exe", "/usr/bin/shop"},
                           {"pid", 7}}}},
                        {"more_incidents", 3},
                        {"cores",
                         {{{"time", "2026-11-21T15:00:01Z"}, {"pid", 7}, {"signal", "SIGABRT"}, {"comm", "shop"}},
                          {{"time", "2026-11-21T15:04:00Z"},
                           {"pid", 8},
                           {"signal", "SIGSEGV"},
                           {"comm", "sh\x1bop"},
                           {"exe", "/usr/bin/shop"}}}},
                        {"more_cores", 0},
                        {"problems", {"older incidents were not looked at"}}};
    const std::string shown = info();
    EXPECT_THAT(shown, HasSubstr("    nearby  … 3 earlier\n"
                                 "            20261121T150000.000Z-crash-shop-7-aaaaaa  SIGABRT /usr/bin/shop "
                                 "(4m 5s before)\n"
                                 "            core of sh\\x1bop[8]  SIGSEGV /usr/bin/shop (5 s before)\n"
                                 "            some may be missing: older incidents were not looked at\n"));
    EXPECT_THAT(shown, Not(HasSubstr("core of shop[7]"))) << "its incident is named";
}

TEST_F(PastOfAnIncident, TheTimelineShowsLogLines) {
    const std::string line = Json({{"t_ns", trigger - 5},
                                   {"kind", "log"},
                                   {"name", "shop"},
                                   {"tid", nullptr},
                                   {"pid", 4242},
                                   {"message", "cannot go on"},
                                   {"cut", false}})
                                 .dump();
    const std::string name = state.add_sample("crash", {{"timeline.jsonl", line + "\n"}});
    const Ran ran = state.run({"timeline", "--kind", "log", name});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("| shop[4242]: cannot go on\n"));
}

TEST_F(PastOfAnIncident, LogLinesDoNotTakeThePlacesOfEvents) {
    std::string timeline;
    const auto add = [&](const char *kind, int t_ns) {
        timeline += fmt::format(R"({{"t_ns":{},"kind":"{}","name":"e{};","message":"m"}})", trigger + t_ns, kind, t_ns);
        timeline += "\n";
    };
    add("exec", -9);
    add("log", -8);
    add("exec", -7);
    add("log", -6);
    add("exec", -5);
    add("log", 4);
    add("log", 5);
    const std::string name = state.add_sample("crash", {{"timeline.jsonl", timeline}});
    const auto shown = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), "timeline");
        arguments.push_back(name);
        std::string all, text = state.run(std::move(arguments)).out;
        for (const char *each : {"e-9;", "e-8;", "e-7;", "e-6;", "e-5;", "e4;", "e5;"})
            all += text.find(each) != text.npos ? each : "";
        return all;
    };
    EXPECT_EQ(shown({"-n", "1"}), "e-5;e4;e5;");
    EXPECT_EQ(shown({"-n", "2"}), "e-7;e-6;e-5;e4;e5;");
    EXPECT_EQ(shown({"-n", "9"}), "e-9;e-8;e-7;e-6;e-5;e4;e5;");
    EXPECT_EQ(shown({"-n", "2", "--kind", "log"}), "e4;e5;");
    EXPECT_EQ(shown({"-n", "2", "--since", "1s"}), "e-7;e-6;e-5;e4;e5;") << "also where lines are chosen first";
}

// Of a bundle that anybody made.
TEST_F(PastOfAnIncident, OfVeryManyLogLinesBetweenEventsTheNewestAreShown) {
    std::string timeline;
    const auto add = [&](const char *kind, int t_ns) {
        timeline += fmt::format(R"({{"t_ns":{},"kind":"{}","name":"e{};","message":"m"}})", trigger + t_ns, kind, t_ns);
        timeline += "\n";
    };
    add("exec", -20'002);
    for (int t_ns = -20'000; t_ns < -10'000; ++t_ns)
        add("log", t_ns);
    add("exec", -5);
    add("log", -4);
    add("exec", -3);
    const std::string name = state.add_sample("crash", {{"timeline.jsonl", timeline}});
    const Ran all = state.run({"timeline", "-n", "3", name});
    EXPECT_EQ(std::ranges::count(all.out, '\n'), 8192 + 3);
    EXPECT_THAT(all.out, testing::AllOf(HasSubstr("e-20002;"), HasSubstr("e-10001;"), HasSubstr("e-4;"),
                                        Not(HasSubstr("e-20000;"))));
    EXPECT_THAT(all.err, HasSubstr("older lines of the log are not shown"));
    const Ran last = state.run({"timeline", "-n", "2", name});
    EXPECT_EQ(std::ranges::count(last.out, '\n'), 3);
    EXPECT_EQ(last.err, "");
}

} // namespace incident::postmortem::test
