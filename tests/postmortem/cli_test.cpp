#include "postmortem/verbs/cli.h"
#include "state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace incident::postmortem::test {

using testing::HasSubstr;
using testing::Not;

struct Wrong {
    std::vector<std::string> arguments;
    std::string message;
};

class WrongUsage : public testing::TestWithParam<Wrong> {};

TEST_P(WrongUsage, SaysWhatIsWrong) {
    const Ran ran = State().run(GetParam().arguments);
    EXPECT_EQ(ran.code, 2);
    EXPECT_EQ(ran.err, "incidentctl: " + GetParam().message + "\n");
    EXPECT_EQ(ran.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    Cli, WrongUsage,
    testing::Values(
        Wrong{{}, "no verb given (see 'incidentctl --help')"},
        Wrong{{"lst"}, "unknown verb 'lst'; did you mean 'list'? (see 'incidentctl --help')"},
        Wrong{{"frobnicate"}, "unknown verb 'frobnicate' (see 'incidentctl --help')"},
        Wrong{{"--jsn", "list"}, "unknown option '--jsn'; did you mean '--json'? (see 'incidentctl list --help')"},
        Wrong{{"list", "--rul", "x"}, "unknown option '--rul'; did you mean '--rule'? (see 'incidentctl list --help')"},
        Wrong{{"list", "--rule"}, "option '--rule' needs a value (see 'incidentctl list --help')"},
        Wrong{{"list", "-n", "many"}, "-n: 'many' is not a whole number (see 'incidentctl list --help')"},
        Wrong{{"list", "-n", "-3"}, "-n: '-3' is not a whole number (see 'incidentctl list --help')"},
        Wrong{{"list", "--since", "later"},
              "--since: 'later' is neither a time such as \"2026-11-21 15:04\" nor a duration such as 2h "
              "(see 'incidentctl list --help')"},
        Wrong{{"info", "a", "b"}, "'b' is one argument too many (see 'incidentctl info --help')"},
        Wrong{{"info", "--", "-batch"}, "info takes nothing after '--' (see 'incidentctl info --help')"},
        Wrong{{"wait", "--timeout", "soon"},
              "--timeout: 'soon' is not a duration such as 250ms, 30s or 1h30m (see 'incidentctl wait --help')"},
        Wrong{{"timeline", "--since", "x"},
              "--since: 'x' is not a duration such as 250ms, 30s or 1h30m (see 'incidentctl timeline --help')"},
        Wrong{{"timeline", "--kind", "foo"},
              "--kind: 'foo' is none of syscall, request, open, alloc, signal, fork, exec, exit, clock, log, fact, "
              "trigger "
              "(see 'incidentctl timeline --help')"},
        Wrong{{"replay"}, "replay needs --rules DIR (see 'incidentctl replay --help')"},
        Wrong{{"list", "--state"}, "option '--state' needs a value (see 'incidentctl list --help')"}));

TEST(Cli, HelpNamesWhatExistsAndNothingElse) {
    const Ran ran = State().run({"--help"});
    EXPECT_EQ(ran.code, 0);
    for (const auto *verb :
         {"status", "list", "info", "timeline", "threads", "gdb", "core", "replay", "verify", "pin", "wait", "doctor"})
        EXPECT_THAT(ran.out, HasSubstr(std::string("  ") + verb + " ")) << verb;
    for (const auto *later : {"report", "export", "diff", "vacuum", "capture PID"})
        EXPECT_THAT(ran.out, Not(HasSubstr(later)));
}

TEST(Cli, EachVerbHasItsHelp) {
    for (const auto &verb : all_verbs()) {
        const Ran ran = State().run({std::string(verb->name()), "--help"});
        EXPECT_EQ(ran.code, 0) << verb->name();
        EXPECT_THAT(ran.out, HasSubstr("incidentctl " + std::string(verb->name())));
        EXPECT_EQ(ran.err, "");
    }
    EXPECT_THAT(State().run({"gdb", "--help"}).out, HasSubstr("[-- GDB ARGS...]"));
}

TEST(Cli, Version) {
    EXPECT_EQ(State().run({"--version"}).out, "incidentctl " INCIDENTD_VERSION "\n");
}

TEST(Cli, GlobalOptionsStandBeforeOrAfterTheVerb) {
    State state;
    const std::string name = state.add_sample("crash");
    const Ran before = state.run({"--json", "list"}), after = state.run({"list", "--json"});
    EXPECT_EQ(before.code, 0) << before.err;
    EXPECT_EQ(before.out, after.out);
    EXPECT_THAT(before.out, HasSubstr(name));
    const Ran other = State().run({"list", "--state", state.dir().string()});
    EXPECT_EQ(other.code, 0) << other.err;
    EXPECT_THAT(other.out, HasSubstr("shop.service"));
}

TEST(Cli, NothingThere) {
    State state;
    const std::string dir = state.dir().string();
    for (const auto *verb : {"info", "timeline", "threads", "gdb", "core", "verify"}) {
        const Ran ran = state.run({verb});
        EXPECT_EQ(ran.code, 1);
        EXPECT_EQ(ran.err, "incidentctl: no incidents yet: " + dir + "/incidents does not exist\n") << verb;
    }
    std::filesystem::create_directory(state.dir() / "incidents");
    EXPECT_EQ(state.run({"info"}).err, "incidentctl: no incidents yet in " + dir + "/incidents\n");
    const Ran nowhere = state.run({"info", "--state", dir + "/none"});
    EXPECT_EQ(nowhere.code, 1);
    EXPECT_EQ(nowhere.err, "incidentctl: no state directory " + dir +
                               "/none: has incidentd ever run? (--state DIR names another)\n");
}

TEST(Cli, UnknownIdPointsToTheList) {
    State state;
    state.add_sample("crash");
    const Ran ran = state.run({"info", "nosuch"});
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.err, HasSubstr("nosuch"));
    EXPECT_THAT(ran.err, HasSubstr("(see 'incidentctl list')"));
}

} // namespace incident::postmortem::test
