// The past of an incident in its bundle: the timeline, the documents, redaction, and what was lost.
#include "capture/render/merge_words.h"
#include "capture/render/timeline_text.h"
#include "tests/capture/render_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <map>

namespace incident::capture {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Lines = std::vector<nlohmann::json>;

constexpr std::uint64_t at_trigger = 5'000'000'000;

Word word(std::uint64_t t_ns, const std::string &message) {
    Word made;
    made.at = {t_ns};
    made.shown = {1'700'000'000'000'000'000 + t_ns};
    made.pid = 42;
    made.priority = 6;
    made.identifier = "app";
    made.transport = "stdout";
    made.message = message;
    return made;
}

Past past_of(std::vector<Word> words) {
    Past past;
    past.words.state = LastWords::State::Read;
    past.words.instant = {at_trigger};
    past.words.until = {at_trigger + 2'000'000'000};
    past.words.words = std::move(words);
    return past;
}

const std::string written_incident = R"({"id": "x", "clocks": {"trigger_ns": 5000000000}, "thread": {"tid": 7},
    "quality": {"complete": true, "incomplete_because": [], "losses": [], "collectors": []},
    "last_words": {"state": "pending"}, "nearby": null})";
const std::string written_timeline = "{\"t_ns\":4000000000,\"tid\":7,\"kind\":\"syscall\"}\n"
                                     "{\"t_ns\":5000000000,\"tid\":7,\"kind\":\"signal\"}\n";

std::map<std::string, std::string> merged(Past past, const std::vector<std::string> &redact = {}) {
    auto files = merge_past(written_incident, "[]", written_timeline, std::move(past), redact);
    EXPECT_TRUE(files) << files.error().what;
    return {files->begin(), files->end()};
}

Lines json_lines_in(const std::string &text) {
    Lines lines;
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
        lines.push_back(nlohmann::json::parse(text.substr(at, text.find('\n', at) - at)));
    return lines;
}

TEST(MergeWords, StandInTheTimelineAtTheirTimes) {
    const auto files = merged(
        past_of({word(3'999'999'999, "first"), word(at_trigger, "same time"), word(at_trigger + 1'000'000, "after")}));
    std::vector<std::string> order;
    for (const auto &line : json_lines_in(files.at("timeline.jsonl")))
        order.push_back(line["kind"] == "log" ? line["message"] : line["kind"]);
    EXPECT_THAT(order, ElementsAre("first", "syscall", "signal", "same time", "after"));
    const auto line = json_lines_in(files.at("timeline.jsonl"))[0];
    EXPECT_EQ(line["wall"], "2023-11-14T22:13:23.999999999Z") << "as the clock showed then";
    EXPECT_EQ(line["tid"], nullptr);
    EXPECT_EQ(line["source"], "unit");
    EXPECT_EQ(line["pid"], 42);
}

TEST(MergeWords, StandInAFileOfTheirOwn) {
    Word strange = word(at_trigger - 5, std::string("\x1b[31m\xff\n\0", 8));
    strange.pid.reset();
    strange.priority.reset();
    strange.source = WordSource::Manager;
    const auto files = merged(past_of({strange, word(at_trigger + 1, std::string(9000, 'x'))}));
    const Lines lines = json_lines_in(files.at("journal.jsonl"));
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_EQ(lines[0]["t_ns"], at_trigger - 5);
    EXPECT_EQ(lines[0]["realtime_us"], 1'700'000'004'999'999);
    EXPECT_EQ(lines[0]["source"], "manager");
    EXPECT_EQ(lines[0]["pid"], nullptr);
    EXPECT_EQ(lines[0]["priority"], nullptr);
    EXPECT_EQ(lines[0]["message"], std::string("\x1b[31m\ufffd\n\0", 10));
    EXPECT_EQ(lines[0]["cut"], false);
    EXPECT_EQ(lines[1]["cut"], true);
    EXPECT_EQ(std::string(lines[1]["message"]).size(), LogLine::longest);
    const auto document = nlohmann::json::parse(files.at("incident.json"));
    EXPECT_EQ(document["last_words"]["state"], "read");
    EXPECT_EQ(document["last_words"]["before"], 1);
    EXPECT_EQ(document["last_words"]["after"], 1);
    EXPECT_EQ(document["last_words"]["cut"], 1);
    EXPECT_EQ(document["quality"]["complete"], true);
    EXPECT_EQ(document["quality"]["collectors"][0]["name"], "journal");
    EXPECT_EQ(document["quality"]["collectors"][0]["ok"], true);
}

TEST(MergeWords, AreRedactedBeforeTheyAreCut) {
    Word long_one =
        word(at_trigger - 1, std::string(LogLine::longest - 10, '.') + " token=abcdefghijklmnopqrstuvwxyz;");
    Word named = word(at_trigger - 2, "the password=hunter2 was taken");
    named.identifier = "token=1;";
    const auto files = merged(past_of({named, long_one}), {"password=\\S+", "token=[^;]*;"});
    for (const char *file : {"journal.jsonl", "timeline.jsonl", "summary.txt"}) {
        EXPECT_THAT(files.at(file), Not(HasSubstr("hunter2"))) << file;
        EXPECT_THAT(files.at(file), Not(HasSubstr("token="))) << file;
    }
    EXPECT_EQ(json_lines_in(files.at("journal.jsonl"))[0]["message"], "the [redacted] was taken");
    EXPECT_EQ(json_lines_in(files.at("journal.jsonl"))[0]["identifier"], "[redacted]");
}

TEST(MergeWords, WhatWasLostIsCounted) {
    Past past = past_of({word(at_trigger - 1, "x")});
    past.words.left_out_after = 7;
    past.words.suppressed = 30;
    past.words.deadline_passed = true;
    const auto document = nlohmann::json::parse(merged(std::move(past)).at("incident.json"));
    const auto &quality = document["quality"];
    EXPECT_EQ(quality["complete"], false);
    EXPECT_EQ(quality["losses"].size(), 3u);
    EXPECT_EQ(quality["losses"][0]["where"], "journal");
    EXPECT_EQ(quality["losses"][0]["count"], 7);
    EXPECT_EQ(quality["losses"][1]["count"], 30);
    EXPECT_EQ(quality["incomplete_because"].size(), 3u);
    EXPECT_THAT(std::string(quality["collectors"][0]["error"]), HasSubstr("7 later lines left out"));
    EXPECT_EQ(document["last_words"]["left_out_after"], 7);
}

TEST(MergeWords, OfAJournalThatCannotBeReadTheReasonIsTold) {
    Past past;
    past.words.state = LastWords::State::Failed;
    past.words.reason = "open the journal: Permission denied";
    const auto files = merged(std::move(past));
    EXPECT_FALSE(files.contains("journal.jsonl"));
    EXPECT_FALSE(files.contains("timeline.jsonl")) << "it stays as it is";
    const auto document = nlohmann::json::parse(files.at("incident.json"));
    EXPECT_EQ(document["last_words"]["state"], "failed");
    EXPECT_EQ(document["last_words"]["reason"], "open the journal: Permission denied");
    EXPECT_EQ(document["quality"]["complete"], false);
    EXPECT_EQ(document["quality"]["collectors"][0]["ok"], false);
    // Where there is none, nothing is amiss.
    Past none;
    none.words.reason = "there is no journal on this host";
    const auto other = nlohmann::json::parse(merged(std::move(none)).at("incident.json"));
    EXPECT_EQ(other["last_words"]["state"], "none");
    EXPECT_EQ(other["quality"]["complete"], true);
}

TEST(MergeWords, OtherIncidentsAndCoresAreNamed) {
    Past past = past_of({});
    past.incidents.incidents.push_back({.id = "20231114T221300.000Z-crash-app-41-aaaaaa",
                                        .time = "2023-11-14T22:13:00.000000000Z",
                                        .rule = "crash",
                                        .kind = "signal",
                                        .signal = "SIGSEGV",
                                        .exe = "/usr/bin/app",
                                        .summary = "app[41] was killed",
                                        .pid = 41});
    past.incidents.more = 2;
    past.cores.cores.push_back(
        {.at = {1'700'000'000'000'000'000}, .pid = 40, .signal = 6, .exe = "/secret/app", .comm = "app", .file = ""});
    const auto nearby = nlohmann::json::parse(merged(std::move(past), {"/secret"}).at("incident.json"))["nearby"];
    EXPECT_EQ(nearby["incidents"][0]["id"], "20231114T221300.000Z-crash-app-41-aaaaaa");
    EXPECT_EQ(nearby["incidents"][0]["signal"], "SIGSEGV");
    EXPECT_EQ(nearby["more_incidents"], 2);
    EXPECT_EQ(nearby["cores"][0]["signal"], "SIGABRT");
    EXPECT_EQ(nearby["cores"][0]["exe"], "[redacted]/app");
    EXPECT_EQ(nearby["cores"][0]["file"], nullptr);
    EXPECT_EQ(nearby["problems"], nlohmann::json::array());
}

TEST(MergeWords, TheSummaryHasTheLastOnes) {
    std::vector<Word> words;
    for (std::uint64_t i = 0; i < 9; ++i)
        words.push_back(word(at_trigger - 100 + i, "line " + std::to_string(i)));
    words.push_back(word(at_trigger + 5, "after"));
    const std::string summary = merged(past_of(std::move(words))).at("summary.txt");
    EXPECT_THAT(summary, HasSubstr("Its last words in the journal:\n"));
    EXPECT_THAT(summary, HasSubstr("| app[42]: line 8\n"));
    EXPECT_THAT(summary, HasSubstr("line 5"));
    EXPECT_THAT(summary, Not(HasSubstr("line 4")));
    EXPECT_THAT(summary, Not(HasSubstr("after")));
}

TEST(MergeWords, BrokenBundlesAreRefusedAndStrangeOnesSurvived) {
    EXPECT_FALSE(merge_past("[]", "[]", "", {}, {}));
    EXPECT_FALSE(merge_past("{}", "{}", "", {}, {}));
    EXPECT_TRUE(merge_past("{}", "[]", "no json\n{\"t_ns\":-5}\n\n{\"t_ns\":99999999999999999999999}",
                           past_of({word(1, "x")}), {}));
    EXPECT_TRUE(merge_past(R"({"quality": {"collectors": 3, "losses": "x"}})", "[]", "", past_of({}), {}));
}

TEST(MergeLines, KeepsEveryLine) {
    EXPECT_EQ(merge_lines("", {{5, "a"}}), "a\n");
    EXPECT_EQ(merge_lines("{\"t_ns\":1}\n{\"t_ns\":3}", {}), "{\"t_ns\":1}\n{\"t_ns\":3}\n");
    EXPECT_EQ(merge_lines("{\"t_ns\":1}\nodd\n{\"t_ns\":3}\n", {{0, "a"}, {2, "b"}, {9, "c"}}),
              "a\n{\"t_ns\":1}\nodd\nb\n{\"t_ns\":3}\nc\n");
}

TEST(LogLine, IsShownOnOneLineThatIsHarmless) {
    simdjson::dom::parser parser;
    const std::string line = log_line({.t_ns = at_trigger - 1'000'000,
                                       .wall = "w",
                                       .source = "unit",
                                       .identifier = "a\x1b",
                                       .message = "one\ntwo\x1b[31m\xff",
                                       .pid = 9,
                                       .cut = true});
    EXPECT_EQ(timeline_text(parser.parse(line), at_trigger), "   -1.000 ms  | a\\33[9]: one\\ntwo\\33[31m\ufffd…");
}

TEST(KernelLines, StandInTheTimeline) {
    test::Made made;
    made.collected.files["host/kernel_log"] = "[99.000001] <4> app[100]: segfault at 0\n[x] <4> odd\n[5] <\n";
    const auto lines = made.timeline("log");
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0]["t_ns"], 99'000'001'000);
    EXPECT_EQ(lines[0]["source"], "kernel");
    EXPECT_EQ(lines[0]["priority"], 4);
    EXPECT_EQ(lines[0]["message"], "app[100]: segfault at 0");
    EXPECT_EQ(made.incident()["last_words"]["state"], "none");
    EXPECT_TRUE(made.incident().contains("nearby"));
}

} // namespace
} // namespace incident::capture
