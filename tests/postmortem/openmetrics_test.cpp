// The metrics' text; tests/e2e/test_openmetrics.py reads a live daemon's with a strict parser.
#include "postmortem/verbs/openmetrics.h"
#include "state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace incident::postmortem::test {

using testing::HasSubstr;
using testing::Not;

TEST(OpenMetrics, NobodyAnswers) {
    EXPECT_EQ(openmetrics(nullptr, std::nullopt), "# TYPE incidentd_up gauge\n"
                                                  "# HELP incidentd_up Whether incidentd answers.\n"
                                                  "incidentd_up 0\n"
                                                  "# EOF\n");
}

TEST(OpenMetrics, WhatStatusKnows) {
    const Json status = Json::parse(R"({"version": "0.1.0", "started": "2026-11-21T15:00:00Z",
        "rules": [{"name": "crash", "kind": "signal", "state": "active", "matched": 7, "fired": 5, "suppressed": 2,
                   "cost": {"cpu_share": 0.0004}},
                  {"name": "txg", "kind": "txg_sync", "state": "unavailable", "cost": null}],
        "rule_errors": ["x"],
        "recorder": {"threads_used": 12, "threads_max": 4096, "processes_used": 3, "processes_max": 8192,
                     "memory_bytes": 33554432, "cost": {"ns_per_syscall": 350, "cpu_share": 0.01}},
        "probes": [{"name": "sys_enter", "state": "active", "missed": 1, "runs": 1000, "run_ns": 250000000}],
        "losses": [{"where": "slots", "reason": "none free", "count": 3}],
        "incidents": {"committed": 4, "pending": 1, "failed": 0, "suppressed": 2, "recovered": 0, "removed": 3},
        "analyses": {"done": 3, "pending": 1, "failed": 0, "passed_over": 0},
        "hook": {"unit": "incident-hook@.service", "started": 3, "failed": 1, "suppressed": 0},
        "cost": {"budget": 0.01, "measured": "2026-11-21T15:01:00Z", "programs": 0.02, "daemon": 0.001,
                 "steps": [{"what": "a probe"}]},
        "self": {"rss_bytes": 12582912, "cpu_ns": 340000000}})");
    const std::string text = openmetrics(&status, BundleUse{.bundles = 4, .bytes = 8192, .free_bytes = 1 << 30});
    for (const char *line : {"incidentd_up 1",
                             "incidentd_build_info{version=\"0.1.0\"} 1",
                             "incidentd_start_time_seconds 1795273200",
                             "incidentd_bundles 4",
                             "incidentd_bundles_bytes 8192",
                             "incidentd_free_bytes 1073741824",
                             "incidentd_rules{state=\"active\"} 1",
                             "incidentd_rules{state=\"degraded\"} 0",
                             "incidentd_rules{state=\"unavailable\"} 1",
                             "incidentd_rule_errors 1",
                             "incidentd_rule_matches_total{rule=\"crash\",kind=\"signal\"} 7",
                             "incidentd_rule_firings_total{rule=\"crash\",kind=\"signal\"} 5",
                             "incidentd_rule_suppressions_total{rule=\"txg\",kind=\"txg_sync\"} 0",
                             "incidentd_rule_cpu_ratio{rule=\"crash\"} 0.0004",
                             "incidentd_cost_ratio{by=\"programs\"} 0.02",
                             "incidentd_cost_ratio{by=\"daemon\"} 0.001",
                             "incidentd_cost_budget_ratio 0.01",
                             "incidentd_cost_steps 1",
                             "incidentd_incidents_total{outcome=\"committed\"} 4",
                             "incidentd_incidents_total{outcome=\"counted\"} 0",
                             "incidentd_incidents_removed_total 3",
                             "incidentd_incidents_pending 1",
                             "incidentd_hooks_total{outcome=\"failed\"} 1",
                             "incidentd_analyses_total{outcome=\"done\"} 3",
                             "incidentd_recorder_slots{of=\"threads\"} 4096",
                             "incidentd_recorder_slots_used{of=\"processes\"} 3",
                             "incidentd_recorder_memory_bytes 33554432",
                             "incidentd_recorder_syscall_seconds 3.5e-07",
                             "incidentd_recorder_cpu_ratio 0.01",
                             "incidentd_probes{state=\"active\"} 1",
                             "incidentd_probe_missed_runs_total{probe=\"sys_enter\"} 1",
                             "incidentd_probe_measured_seconds_total{probe=\"sys_enter\"} 0.25",
                             "incidentd_losses_total{where=\"slots\",reason=\"none free\"} 3",
                             "incidentd_cpu_seconds_total 0.34",
                             "incidentd_resident_memory_bytes 12582912",
                             "# TYPE incidentd_cpu_seconds counter",
                             "# UNIT incidentd_cpu_seconds seconds"})
        EXPECT_THAT("\n" + text, HasSubstr(std::string("\n") + line + "\n"));
    EXPECT_TRUE(text.ends_with("\n# EOF\n"));
}

TEST(OpenMetrics, LabelsAreEscapedAndEachIsOneSample) {
    const Json status = Json::parse(R"json({"losses": [
        {"where": "a \"b\" \\ c", "reason": "line\nend \u001b[31m", "count": 1},
        {"where": "a \"b\" \\ c", "reason": "line\nend \u001b[31m", "count": 2}]})json");
    EXPECT_THAT(openmetrics(&status, std::nullopt),
                HasSubstr("\nincidentd_losses_total{where=\"a \\\"b\\\" \\\\ c\",reason=\"line\\\\nend "
                          "\\\\x1b[31m\"} 3\n# EOF\n"));
}

TEST(OpenMetrics, StrangeStatus) {
    for (const char *text : {"{}", R"({"rules": 3, "probes": {}, "recorder": [], "started": "yesterday"})"}) {
        const Json status = Json::parse(text);
        const std::string metrics = openmetrics(&status, std::nullopt);
        EXPECT_THAT(metrics, HasSubstr("\nincidentd_rules{state=\"active\"} 0\n"));
        EXPECT_THAT(metrics, Not(HasSubstr("incidentd_start_time_seconds")));
        EXPECT_TRUE(metrics.ends_with("\n# EOF\n"));
    }
}

TEST(OpenMetrics, DiskUse) {
    State state;
    EXPECT_FALSE(bundle_use(state.dir().string()));
    state.add_sample("crash");
    const auto use = bundle_use(state.dir().string());
    ASSERT_TRUE(use);
    EXPECT_EQ(use->bundles, 1u);
    EXPECT_GT(use->bytes, 0u);
    EXPECT_GT(use->free_bytes, 0u);
}

TEST(OpenMetrics, OutputIsReplacedInOneStep) {
    State state;
    const auto file = state.dir() / "x.prom";
    write_file(file, "before");
    const Ran ran = state.run({"status", "--openmetrics", "--output", file.string()});
    EXPECT_EQ(ran.code, 1); // nobody answers, which is what the file says
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr("incidentd is not running"));
    EXPECT_EQ(read_file(file), openmetrics(nullptr, std::nullopt));
    struct stat st {};
    ASSERT_EQ(stat(file.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777, 0644u);
    for (const auto &entry : std::filesystem::directory_iterator(state.dir()))
        EXPECT_EQ(entry.path(), file) << "a temporary file was left";
    const Ran nowhere = state.run({"status", "--openmetrics", "--output", "/nowhere/x.prom"});
    EXPECT_EQ(nowhere.err, "incidentctl: cannot create /nowhere/x.prom: No such file or directory\n");
}

TEST(OpenMetrics, WrongUsage) {
    EXPECT_EQ(State().run({"status", "--output", "x"}).code, 2);
    EXPECT_EQ(State().run({"status", "--openmetrics", "--json"}).code, 2);
}

} // namespace incident::postmortem::test
