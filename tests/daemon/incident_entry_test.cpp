#include "daemon/write/incident_entry.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace incident::daemon {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

nlohmann::json crash() {
    return {{"id", "bundle"},
            {"rule", "crash"},
            {"kind", "signal"},
            {"summary", "x[7] was killed"},
            {"verdict", {{"sentence", "null dereference"}}},
            {"signal", {{"number", 11}, {"name", "SIGSEGV"}, {"fatal", true}}},
            {"process", {{"pid", 7}, {"uid", 0}, {"comm", "x"}, {"exe", "/x\nPRIORITY=0"}, {"unit", "x.service"}}},
            {"core", {{"join", "exact"}, {"file", "/core.x"}}},
            {"clocks", {{"trigger_ns", 5000}, {"monotonic_ns", 7000}, {"realtime_ns", 1'000'007'000}}}};
}

TEST(IncidentEntry, OfADeathItHasSystemdCoredumpsFieldsToo) {
    const auto fields = incident_fields(crash(), "/state/incidents/bundle");
    for (const char *field :
         {"INCIDENT_ID=bundle", "INCIDENT_VERDICT=null dereference", "INCIDENT_BUNDLE=/state/incidents/bundle",
          "PRIORITY=2", "COREDUMP_PID=7", "COREDUMP_SIGNAL_NAME=SIGSEGV", "COREDUMP_FILENAME=/core.x",
          "OBJECT_SYSTEMD_UNIT=x.service", "COREDUMP_UNIT=x.service", "COREDUMP_TIMESTAMP=1000005",
          "MESSAGE=x[7] was killed\nnull dereference\nincidentctl info bundle"})
        EXPECT_THAT(fields, Contains(field));
    EXPECT_EQ(fields.front(), std::string("MESSAGE_ID=") + incident_message_id) << "the catalogue goes by the first";
    EXPECT_THAT(fields, Contains(std::string("MESSAGE_ID=") + backtrace_message_id));
}

TEST(IncidentEntry, ADeathBeforeASleepHasTheTimeOfThen) {
    auto incident = crash();
    incident["clocks"]["changes"] = {{{"t_ns", 4000}, {"slept_ns", 100'000}, {"set_by_ns", 100'000}},
                                     {{"t_ns", 6000}, {"slept_ns", 2'000'000}, {"set_by_ns", 0}},
                                     {{"t_ns", 6500}, {"slept_ns", 0}, {"set_by_ns", -1'000'000}}};
    EXPECT_THAT(incident_fields(incident, ""), Contains("COREDUMP_TIMESTAMP=999005"));
}

TEST(IncidentEntry, AValueCannotMakeAField) {
    for (const auto &field : incident_fields(crash(), ""))
        EXPECT_THAT(field, Not(StartsWith("PRIORITY=0")));
    EXPECT_THAT(incident_fields(crash(), ""), Contains("COREDUMP_EXE=/x\nPRIORITY=0")) << "one field, one iovec";
}

TEST(IncidentEntry, WhatIsReadCannotMoveTheCursor) {
    auto incident = crash();
    incident["summary"] = "x\n\033[2J[7] was killed";
    incident["verdict"]["sentence"] = "\033]0;owned\a";
    const auto fields = incident_fields(incident, "");
    for (const auto &field : fields)
        EXPECT_THAT(field, Not(HasSubstr("\033")));
    EXPECT_THAT(fields, Contains("INCIDENT_SUMMARY=x\\n\\x1b[2J[7] was killed"));
}

TEST(IncidentEntry, CoredumpctlIsToldOnlyOfCoresItHas) {
    auto incident = crash();
    incident["core"] = {{"join", "none"}};
    for (const auto &field : incident_fields(incident, "")) {
        EXPECT_THAT(field, Not(HasSubstr(backtrace_message_id)));
        EXPECT_THAT(field, Not(StartsWith("COREDUMP_FILENAME")));
    }
}

TEST(IncidentEntry, WhoLivesOnHasNoCoredumpFields) {
    auto incident = crash();
    incident["kind"] = "latency";
    incident["signal"]["fatal"] = false;
    const auto fields = incident_fields(incident, "");
    EXPECT_THAT(fields, Not(Contains(StartsWith("COREDUMP_"))));
    EXPECT_THAT(fields, Contains("PRIORITY=4"));
    EXPECT_THAT(fields, Contains("INCIDENT_PID=7"));
}

TEST(IncidentEntry, WhatIsMissingIsLeftOut) {
    EXPECT_THAT(incident_fields({{"id", "x"}}, ""), Not(Contains(HasSubstr("null"))));
}

} // namespace
} // namespace incident::daemon
