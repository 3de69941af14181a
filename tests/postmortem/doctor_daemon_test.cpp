// incidentctl doctor: incidentd itself, its rules and its state directory; and how it is all shown.
#include "doctor_lab.h"

#include "postmortem/doctor/view.h"
#include "postmortem/terminal/output.h"
#include "state.h"

#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace incident::postmortem::test {

using namespace doctor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(DoctorDaemon, Running) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_daemon)), Is(Grade::Ok, ", pid 1"));
    lab.status["version"] = "0.0.9";
    EXPECT_THAT(only(lab.look(check_daemon)), Is(Grade::Warn, "incidentd 0.0.9", "systemctl restart incidentd"));
    lab.status = nullptr;
    EXPECT_THAT(only(lab.look(check_daemon)), Is(Grade::Bad, "is not running", "systemctl enable --now incidentd"));
    EXPECT_THAT(only(lab.look(check_rule_states)), Is(Grade::Unknown, "only a running incidentd"));
    for (const auto check : {check_rules_loaded, check_room, check_losses, check_probe_states, check_failed_incidents})
        EXPECT_THAT(lab.look(check), IsEmpty());
}

TEST(DoctorDaemon, NoPermissionToAskIsUnknown) {
    Lab lab;
    Host host(lab.root().string());
    lab.root_user = false;
    lab.set_up(host);
    host.ask = [](const std::string &) -> Result<Json> { return fail(Error{"no permission", EACCES}); };
    host.survey(lab.questions);
    EXPECT_THAT(only(check_daemon(host)), Is(Grade::Unknown, "no permission", "run as root"));
}

TEST(DoctorDaemon, StrangeAnswer) {
    Lab lab;
    lab.status = Json::parse(R"([1])");
    EXPECT_THAT(only(lab.look(check_daemon)), Is(Grade::Bad, "not a JSON object"));
    lab.status = Json::parse(R"({"rules": {"a": 1}, "recorder": 3, "losses": "x", "probes": [7], "pid": -1})");
    Host host(lab.root().string());
    lab.set_up(host);
    EXPECT_FALSE(look_at_everything(host).empty());
}

TEST(DoctorDaemon, Gap) {
    Lab lab;
    lab.status["gap"] = Json::parse(R"({"pid": 9, "from": "2026-11-21T03:12:00Z", "until": "2026-11-21T03:20:00Z"})");
    EXPECT_THAT(only(lab.look(check_daemon)), Is(Grade::Warn, "from 2026-11-21T03:12:00Z to 2026-11-21T03:20:00Z",
                                                 "journalctl --since '2026-11-21 03:12:00 UTC'"));
    lab.status["gap"] = nullptr;
    EXPECT_THAT(only(lab.look(check_daemon)), Is(Grade::Ok, ""));
}

TEST(DoctorDaemon, Hook) {
    Lab lab;
    EXPECT_THAT(lab.look(check_hook), IsEmpty());
    lab.write("/etc/incidentd/incidentd.toml", "[hook]\nunit = \"incident-hook@.service\"\n");
    EXPECT_THAT(lab.look(check_hook),
                ElementsAre(Is(Grade::Bad, "no such unit"), Is(Grade::Bad, "on-incident is not there"),
                            Is(Grade::Warn, "has not loaded [hook]")));
    lab.status["hook"] =
        Json::parse(R"({"unit": "incident-hook@.service", "started": 3, "failed": 0, "suppressed": 0})");
    lab.write("/usr/lib/systemd/system/incident-hook@.service", "");
    lab.write("/etc/incidentd/on-incident", "#!/bin/sh\n");
    EXPECT_THAT(only(lab.look(check_hook)), Is(Grade::Bad, "is not executable", "chmod +x /etc/incidentd/on-incident"));
    std::filesystem::permissions(lab.root().string() + "/etc/incidentd/on-incident", std::filesystem::perms::owner_all);
    EXPECT_THAT(only(lab.look(check_hook)), Is(Grade::Ok, "incident-hook@.service"));
    lab.status["hook"]["failed"] = 2;
    lab.status["hook"]["suppressed"] = 5;
    EXPECT_THAT(lab.look(check_hook), ElementsAre(Is(Grade::Warn, "could not be started 2 times"),
                                                  Is(Grade::Warn, "5 incidents were beyond")));
}

TEST(DoctorDaemon, OomScore) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_oom_score)), Is(Grade::Ok, "-900"));
    lab.write("/proc/1/oom_score_adj", "0\n");
    EXPECT_THAT(only(lab.look(check_oom_score)), Is(Grade::Warn, "is 0", "choom -n -900 -p 1"));
    lab.write("/proc/1/oom_score_adj", "x\n");
    EXPECT_THAT(only(lab.look(check_oom_score)), Is(Grade::Unknown, "x"));
    lab.remove("/proc/1/oom_score_adj");
    EXPECT_THAT(only(lab.look(check_oom_score)), Is(Grade::Unknown, "oom_score_adj"));
}

TEST(DoctorDaemon, Enabled) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_enabled)), Is(Grade::Ok, ""));
    lab.remove("/etc/systemd/system/multi-user.target.wants");
    EXPECT_THAT(only(lab.look(check_enabled)), Is(Grade::Warn, "not enabled", "systemctl enable incidentd"));
    lab.remove("/run/systemd/system");
    EXPECT_THAT(lab.look(check_enabled), IsEmpty());
}

TEST(DoctorDaemon, FailedUnits) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_failed_units)), Is(Grade::Ok, ""));
    lab.failed_units = std::vector<std::string>{"incidentd.service", "incident-hook@x.service"};
    EXPECT_THAT(lab.look(check_failed_units),
                ElementsAre(Is(Grade::Bad, "incidentd.service has failed", "systemctl status incidentd.service"),
                            Is(Grade::Warn, "incident-hook@x.service has failed")));
    lab.failed_units = fail("systemd does not answer");
    EXPECT_THAT(only(lab.look(check_failed_units)), Is(Grade::Unknown, "systemd does not answer"));
    lab.remove("/run/systemd/system");
    EXPECT_THAT(only(lab.look(check_failed_units)), Is(Grade::Unknown, "systemd does not run this host"));
}

TEST(DoctorDaemon, FailedIncidents) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_failed_incidents)), Is(Grade::Ok, "4 written"));
    lab.status["incidents"]["failed"] = 2;
    lab.status["analyses"]["failed"] = 1;
    EXPECT_THAT(lab.look(check_failed_incidents), ElementsAre(Is(Grade::Warn, "2 incidents", "journalctl -u incidentd"),
                                                              Is(Grade::Warn, "1 incident could not be explained")));
}

TEST(DoctorRules, Files) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_rule_files)), Is(Grade::Ok, "1 rule, 1 enabled"));
    lab.write("/etc/incidentd/rules.d/bad.toml", "[[rule]]\nname = \"b\"\non = \"sginal\"\n");
    lab.write("/etc/incidentd/incidentd.toml", "[record]\nthreads = \"many\"\n");
    EXPECT_THAT(lab.look(check_rule_files), ElementsAre(Is(Grade::Bad, "incidentd.toml:2:", "incidentd --check"),
                                                        Is(Grade::Bad, "bad.toml:3:", "incidentd --check")));
    lab.remove("/etc/incidentd");
    EXPECT_THAT(only(lab.look(check_rule_files)), Is(Grade::Bad, "0 files with no enabled rule"));
}

TEST(DoctorRules, Warnings) {
    Lab lab;
    lab.rule("[[rule]]\nname = \"dumped\"\non = \"syscall\"\nerrno = \"EMFILE\"\ndump = \"SIGABRT\"\n");
    EXPECT_THAT(only(lab.look(check_rule_files)), Is(Grade::Warn, "test.toml:5:", "incidentd --check"));
    lab.write("/etc/incidentd/incidentd.toml", "[safety]\nallow_dump = true\n");
    EXPECT_THAT(only(lab.look(check_rule_files)), Is(Grade::Ok, "1 rule, 1 enabled"));
}

TEST(DoctorRules, FilesThatWereAskedFor) {
    Lab lab;
    lab.questions.rules = {lab.root().string() + "/none"};
    lab.questions.config = lab.root().string() + "/none.toml";
    EXPECT_THAT(lab.look(check_rule_files),
                ElementsAre(Is(Grade::Bad, "none.toml"), Is(Grade::Bad, "/none"), Is(Grade::Bad, "no enabled rule")));
}

TEST(DoctorRules, FilesOfTheRunningDaemon) {
    Lab lab;
    lab.remove("/etc/incidentd");
    lab.write("/elsewhere/mine.toml", "[[rule]]\nname = \"mine\"\non = \"oom\"\n");
    lab.status["rule_directories"] = {lab.root().string() + "/elsewhere"};
    EXPECT_THAT(only(lab.look(check_rule_files)), Is(Grade::Ok, "1 rule, 1 enabled"));
    lab.status["rule_directories"] = {lab.root().string() + "/gone"};
    const auto findings = lab.look(check_rule_files);
    EXPECT_THAT(only(findings), Is(Grade::Bad, "0 files with no enabled rule"));
    EXPECT_EQ(findings.front().why, "incidentd still has 1 rule, until it is told to reload or restarts");
}

TEST(DoctorRules, Loaded) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_rules_loaded)), Is(Grade::Ok, ""));
    lab.write("/etc/incidentd/rules.d/new.toml", "[[rule]]\nname = \"new\"\non = \"oom\"\n"
                                                 "[[rule]]\nname = \"off\"\non = \"oom\"\nenabled = false\n");
    EXPECT_THAT(only(lab.look(check_rules_loaded)),
                Is(Grade::Warn, "has not loaded new", "systemctl reload incidentd"));
    lab.remove("/etc/incidentd/rules.d/new.toml");
    lab.status["rule_errors"] = {"x.toml:1:2: unknown key\n 1 | nam = 1\n   | ^^^"};
    EXPECT_THAT(only(lab.look(check_rules_loaded)), Is(Grade::Bad, "unknown key", "incidentd --check"));
    EXPECT_EQ(lab.look(check_rules_loaded).front().fact, "x.toml:1:2: unknown key");
}

TEST(DoctorRules, States) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_rule_states)), Is(Grade::Ok, "1 rule is active"));
    lab.status["rules"] = Json::parse(R"([
        {"name": "a", "state": "unavailable", "reason": "no such symbol", "source": "/etc/x.toml:7"},
        {"name": "b", "state": "degraded", "reason": "single-stepped", "source": "/etc/x.toml:9"},
        {"name": "c", "state": "disabled", "reason": ""}])");
    EXPECT_THAT(lab.look(check_rule_states),
                ElementsAre(Is(Grade::Bad, "a is unavailable: no such symbol", "edit /etc/x.toml:7"),
                            Is(Grade::Warn, "b is degraded: single-stepped")));
}

TEST(DoctorRules, Room) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_room)), Is(Grade::Ok, "12 of 4096 threads"));
    lab.status["recorder"]["threads_used"] = 4000;
    EXPECT_THAT(only(lab.look(check_room)), Is(Grade::Warn, "4000 of 4096 threads", "threads = 8192"));
}

TEST(DoctorRules, Losses) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_losses)), Is(Grade::Ok, ""));
    lab.status["losses"] = Json::parse(
        R"json([{"where": "slots: no free ring for a thread ([record] threads)", "reason": "none free", "count": 3
},
            {"where": "ring buffer: gone event", "reason": "full", "count": 1},
            {"where": "incidents", "reason": "not written: No space left on device", "count": 2},
            {"where": "paths: not readable", "reason": "x", "count": 0}])json");
    EXPECT_THAT(lab.look(check_losses), ElementsAre(Is(Grade::Warn, "3 slots: ", "threads = 8192"),
                                                    Is(Grade::Warn, "1 ring buffer: ", "ring_buffer")));
}

TEST(DoctorRules, Probes) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_probe_states)), Is(Grade::Ok, "1 program is attached"));
    lab.status["probes"] = Json::parse(R"([{"name": "a", "state": "unavailable", "reason": "no BTF", "missed": 0},
                                           {"name": "b", "state": "active", "missed": 5}])");
    EXPECT_THAT(lab.look(check_probe_states),
                ElementsAre(Is(Grade::Warn, "a is unavailable: no BTF"), Is(Grade::Note, "5 runs")));
}

TEST(DoctorState, Directory) {
    if (geteuid() != 0)
        GTEST_SKIP() << "the state directory is root's";
    Lab lab;
    const std::string state = lab.questions.state, incidents = state + "/incidents";
    EXPECT_THAT(only(lab.look(check_state_directory)), Is(Grade::Ok, state));
    ASSERT_EQ(chmod(state.c_str(), 0755), 0);
    EXPECT_THAT(only(lab.look(check_state_directory)), Is(Grade::Ok, state)) << "nothing in it can be read";
    ASSERT_EQ(chmod(incidents.c_str(), 0755), 0);
    EXPECT_THAT(only(lab.look(check_state_directory)), Is(Grade::Bad, "mode 0755", "chmod go-rwx " + incidents));
    ASSERT_EQ(chmod(state.c_str(), 0700), 0);
    EXPECT_THAT(only(lab.look(check_state_directory)), Is(Grade::Ok, state)) << "nobody gets as far as that";
    ASSERT_EQ(chmod(incidents.c_str(), 0700), 0);
    ASSERT_EQ(chmod(state.c_str(), 0777), 0);
    EXPECT_THAT(only(lab.look(check_state_directory)), Is(Grade::Bad, "mode 0777", "chmod go-w " + state));
    ASSERT_EQ(chmod(state.c_str(), 0755), 0);
    lab.write("/state/left-over", "of a crash");
    ASSERT_EQ(chmod((state + "/left-over").c_str(), 0644), 0);
    EXPECT_THAT(only(lab.look(check_state_directory)), Is(Grade::Bad, "left-over has mode 0644"));
    lab.remove("/state/left-over");
    ASSERT_EQ(chown(state.c_str(), 1000, 0), 0);
    EXPECT_THAT(only(lab.look(check_state_directory)), Is(Grade::Bad, "belongs to uid 1000", "chown root"));
    lab.remove("/state");
    EXPECT_THAT(only(lab.look(check_state_directory)), Is(Grade::Bad, "is not there"));
    lab.write("/state", "");
    EXPECT_THAT(lab.look(check_state_directory), testing::Contains(Is(Grade::Bad, "is no directory")));
}

TEST(DoctorState, DirectoryForAGroup) {
    if (geteuid() != 0)
        GTEST_SKIP() << "the state directory is root's";
    Lab lab;
    const std::string state = lab.questions.state, incidents = state + "/incidents";
    lab.write("/etc/incidentd/incidentd.toml", "[access]\ngroup = \"incident\"\n");
    EXPECT_THAT(lab.look(check_state_directory),
                ElementsAre(Is(Grade::Bad, state + " has mode 0700", "systemctl restart incidentd"),
                            Is(Grade::Bad, incidents + " has mode 0700", "chgrp 12345 " + incidents)));
    ASSERT_EQ(chmod(state.c_str(), 0755), 0); // lets them in as well
    ASSERT_EQ(chown(incidents.c_str(), 0, 12345), 0);
    EXPECT_THAT(only(lab.look(check_state_directory)), Is(Grade::Bad, incidents + " has mode 0700"));
    ASSERT_EQ(chmod(state.c_str(), 0711), 0);
    ASSERT_EQ(chmod(incidents.c_str(), 02750), 0);
    EXPECT_THAT(only(lab.look(check_state_directory)), Is(Grade::Ok, "for group incident"));
    lab.gid_of_group = 54321; // another one may read
    EXPECT_THAT(only(lab.look(check_state_directory)), Is(Grade::Bad, "mode 2750 and group 12345"));
    lab.gid_of_group = std::nullopt;
    EXPECT_THAT(only(lab.look(check_state_directory)), Is(Grade::Bad, "no such group", "groupadd --system incident"));
    lab.remove("/etc/incidentd/incidentd.toml"); // it was taken back, and incidentd not told
    EXPECT_THAT(lab.look(check_state_directory), ElementsAre(Is(Grade::Bad, "mode 2750")));
}

TEST(DoctorState, Space) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_state_space)), Is(Grade::Ok, "50.0 GiB free, [budget] keeps 1.0 GiB free"));
    lab.space.free = 1200u << 20;
    EXPECT_THAT(only(lab.look(check_state_space)), Is(Grade::Warn, "1.2 GiB free", "du -xh"));
    lab.space.free = 1000u << 20;
    EXPECT_THAT(only(lab.look(check_state_space)), Is(Grade::Bad, "1000.0 MiB free", "du -xh"));
    lab.write("/etc/incidentd/incidentd.toml", "[budget]\nkeep_free = \"100MiB\"\n");
    EXPECT_THAT(only(lab.look(check_state_space)), Is(Grade::Ok, "keeps 100.0 MiB free"));
    lab.space.free_inodes = 999;
    EXPECT_THAT(lab.look(check_state_space),
                ElementsAre(Is(Grade::Bad, "999 inodes are free", "du -x --inodes"), Is(Grade::Ok, "")));
    lab.space.free_inodes = 1000;
    lab.space.in_memory = true;
    EXPECT_THAT(lab.look(check_state_space), ElementsAre(Is(Grade::Warn, "tmpfs"), Is(Grade::Ok, "")));
    lab.space.read_only = true;
    EXPECT_THAT(only(lab.look(check_state_space)), Is(Grade::Bad, "read-only"));
}

TEST(DoctorView, AGoodHostHasNothingToMend) {
    Lab lab;
    lab.add({.exe = std::filesystem::read_symlink("/proc/self/exe").string()});
    if (geteuid() != 0)
        GTEST_SKIP() << "the state directory is root's";
    Host host(lab.root().string());
    lab.set_up(host);
    const auto lines = look_at_everything(host);
    std::set<std::string> groups;
    for (const Line &line : lines) {
        EXPECT_EQ(line.finding.grade, Grade::Ok) << line.check->name << ": " << line.finding.fact;
        EXPECT_EQ(line.finding.fix, "") << line.check->name;
        groups.insert(line.check->group);
    }
    EXPECT_EQ(groups.size(), 8u);
    EXPECT_FALSE(anything_bad(lines));
    EXPECT_EQ(doctor::to_json(lines)["state"], "ok");
}

TEST(DoctorView, EachCheckHasANameOfItsOwn) {
    std::set<std::pair<std::string, std::string>> names;
    std::vector<std::string> groups;
    for (const Check &check : all_checks()) {
        EXPECT_TRUE(names.insert({check.group, check.name}).second) << check.name;
        if (groups.empty() || groups.back() != check.group)
            groups.push_back(check.group);
    }
    EXPECT_EQ(std::set(groups.begin(), groups.end()).size(), groups.size()) << "a group's checks stand together";
}

TEST(DoctorView, Page) {
    const Check running{"incidentd", "running", nullptr}, release{"kernel", "release", nullptr};
    const std::vector<Line> lines{{&running, bad("it is\x1b[31m not", "no incidents", "one\ntwo")},
                                  {&running, unknown("hidden", "run as root")},
                                  {&release, ok("6.1")}};
    StringOutput out;
    doctor::print(lines, out);
    EXPECT_EQ(out.text(), "incidentd\n"
                          "  BAD    running: it is\\x1b[31m not\n"
                          "         no incidents\n"
                          "         fix: one\n"
                          "         fix: two\n"
                          "  ?      running: hidden\n"
                          "         fix: run as root\n"
                          "\n"
                          "kernel\n"
                          "  OK     release: 6.1\n"
                          "\n"
                          "1 bad, 1 unknown, 1 OK\n");
    EXPECT_TRUE(anything_bad(lines));
    const auto json = doctor::to_json(lines);
    EXPECT_EQ(json["state"], "bad");
    EXPECT_EQ(json["counts"]["unknown"], 1);
    EXPECT_EQ(json["checks"][0], nlohmann::ordered_json({{"group", "incidentd"},
                                                         {"name", "running"},
                                                         {"state", "bad"},
                                                         {"fact", "it is\x1b[31m not"},
                                                         {"why", "no incidents"},
                                                         {"fix", "one\ntwo"}}));
}

TEST(DoctorView, WordsOfCommands) {
    EXPECT_EQ(shell_word("/etc/x.conf"), "/etc/x.conf");
    EXPECT_EQ(shell_word("a b"), "'a b'");
    EXPECT_EQ(shell_word("$(x)'"), "'$(x)'\\'''");
    EXPECT_EQ(shell_word(""), "''");
}

TEST(DoctorVerb, AnswersOnThisHostWithoutADaemon) {
    State state;
    const Ran ran = state.run({"doctor", "--json"});
    EXPECT_EQ(ran.code, 1) << ran.err; // it does not run: that is bad
    const Json document = Json::parse(ran.out);
    EXPECT_EQ(document["state"], "bad");
    for (const auto &check : document["checks"])
        EXPECT_NE(check["fact"], "") << check.dump();
    EXPECT_THAT(state.run({"doctor"}).out, HasSubstr("  BAD    running: incidentd is not running"));
}

} // namespace incident::postmortem::test
