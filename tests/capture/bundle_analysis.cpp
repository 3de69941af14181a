#include "capture/render/bundle_analysis.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace incident::capture {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Json = nlohmann::ordered_json;

const Json analysis = {
    {"threads",
     {{{"tid", 7},
       {"how", "CFI"},
       {"truncated", false},
       {"reason", "the outermost frame"},
       {"frames", {{{"ip", "0x10"}, {"module", "/a"}, {"symbol", "main"}}}}}}},
    {"verdict", {{"sentence", "it is so"}, {"claims", {{{"claim", "it is so"}, {"facts", {"for this"}}}}}}},
    {"notes", Json::array()}};

constexpr const char *incident = R"({"id": "x", "summary": "headline", "verdict": null, "mini_core": false})";
constexpr const char *threads = R"([{"tid": 7, "crashed": true, "stack": {"how": "instruction pointer only",
    "bytes": 4096, "frames": [{"ip": "0x10"}]}}, {"tid": 8, "stack": {"how": "none", "frames": []}}])";

BundleAnalysis parsed(const std::string &stream) {
    auto result = parse_analysis_stream(stream);
    EXPECT_TRUE(result) << (result ? "" : result.error().what);
    return result ? std::move(*result) : BundleAnalysis{};
}

std::string error_of(const std::string &stream) {
    const auto result = parse_analysis_stream(stream);
    return result ? "" : result.error().what;
}

std::string file(const BundleFiles &files, const std::string &path) {
    for (const auto &[name, bytes] : files)
        if (name == path)
            return bytes;
    return "(none)";
}

TEST(AnalysisStream, IsReadAsItWasWritten) {
    const BundleFiles files{{"mini.core", std::string("\x7f\0ELF\n", 6)}, {"gdb/open.gdb", "python pass\n"}};
    const BundleAnalysis read = parsed(analysis_stream(analysis, files));
    EXPECT_EQ(read.document, analysis);
    EXPECT_EQ(read.files, files);
}

TEST(AnalysisStream, WhatIsCutOrNoneIsRefused) {
    const std::string whole = analysis_stream(analysis, {{"mini.core", "0123456789"}});
    EXPECT_EQ(error_of(""), "it answered nothing");
    EXPECT_EQ(error_of(whole.substr(0, whole.size() - 1)), "its answer is cut");
    EXPECT_EQ(error_of("{\"format\": 2}\n"), "its answer is not of the format expected");
    EXPECT_EQ(error_of("[]\n"), "its answer is not of the format expected");
    EXPECT_EQ(error_of("{\"format\":1,\"analysis\":{},\"files\":[{\"path\":\"gdb/x\",\"bytes\":-1}]}\n"),
              "its answer is not of the format expected");
}

TEST(AnalysisStream, OnlyItsOwnFilesAreTaken) {
    for (const char *path : {"incident.json", "../mini.core", "gdb/a/b", "process/maps"})
        EXPECT_THAT(error_of(analysis_stream(analysis, {{path, "x"}})), HasSubstr("not for it to write")) << path;
}

TEST(MergeAnalysis, StacksVerdictAndFilesComeIntoTheBundle) {
    const auto merged =
        merge_analysis(incident, threads, "", parsed(analysis_stream(analysis, {{"mini.core", "core"}})));
    ASSERT_TRUE(merged);
    const Json made = Json::parse(file(*merged, "incident.json")), stacks = Json::parse(file(*merged, "threads.json"));
    EXPECT_EQ(made["verdict"]["sentence"], "it is so");
    EXPECT_EQ(made["mini_core"], true);
    EXPECT_EQ(made["analysed"], true);
    EXPECT_EQ(stacks[0]["stack"]["how"], "CFI");
    EXPECT_EQ(stacks[0]["stack"]["bytes"], 4096) << "what was captured stays";
    EXPECT_EQ(stacks[0]["stack"]["frames"][0]["symbol"], "main");
    EXPECT_EQ(stacks[1]["stack"]["how"], "none") << "not analysed";
    EXPECT_EQ(file(*merged, "mini.core"), "core");
    EXPECT_THAT(file(*merged, "summary.txt"), testing::StartsWith("it is so\n  - for this\n\nheadline\n"));
    EXPECT_THAT(file(*merged, "analysis.json"), testing::Not(HasSubstr("frames"))) << "they are in threads.json";
}

TEST(MergeAnalysis, WithoutAVerdictTheSummaryBeginsAsBefore) {
    Json silent = analysis;
    silent["verdict"] = nullptr;
    const auto merged = merge_analysis(incident, threads, "", parsed(analysis_stream(silent, {})));
    ASSERT_TRUE(merged);
    EXPECT_THAT(file(*merged, "summary.txt"), testing::StartsWith("headline\n"));
    EXPECT_EQ(Json::parse(file(*merged, "incident.json"))["mini_core"], false);
}

TEST(MergeAnalysis, AStackThatCouldNotBeUnwoundStaysAsItWas) {
    Json nothing = analysis;
    nothing["threads"][0]["how"] = "instruction pointer only";
    nothing["threads"][0]["frames"] = {{{"ip", "0x10"}, {"module", nullptr}}};
    const std::string before = R"([{"tid": 7, "stack": {"how": "frame pointers", "frames": [{"ip": "0x10"},
        {"ip": "0x20"}]}}])";
    const auto merged = merge_analysis(incident, before, "", parsed(analysis_stream(nothing, {})));
    ASSERT_TRUE(merged);
    EXPECT_EQ(Json::parse(file(*merged, "threads.json"))[0]["stack"]["how"], "frame pointers");
}

TEST(MergeAnalysis, DocumentsOfTheWrongSortAreErrors) {
    EXPECT_FALSE(merge_analysis("[]", threads, "", parsed(analysis_stream(analysis, {}))));
    EXPECT_FALSE(merge_analysis(incident, "{}", "", parsed(analysis_stream(analysis, {}))));
    Json odd = analysis;
    odd["threads"] = {1, "x", {{"tid", "seven"}}};
    EXPECT_TRUE(merge_analysis(incident, R"([1, {"tid": 7, "stack": 3}])", "", parsed(analysis_stream(odd, {}))));
}

TEST(BundleAnalysis, AStackThatGoesOnBeyondWhatWasCapturedIsALoss) {
    const std::string incident = R"({"id": "x", "summary": "", "thread": {"tid": 7}, "quality": {"complete": true}})";
    const auto quality = [&](const std::string &stack, int tid = 7) {
        const std::string threads = R"([{"tid": )" + std::to_string(tid) + R"(, "stack": )" + stack + "}]";
        const auto merged =
            merge_analysis(incident, threads, "", parsed(analysis_stream(Json{{"threads", Json::array()}}, {})));
        return Json::parse(merged->at(2).second)["quality"];
    };
    const std::string cut = R"({"truncated": true, "bytes": 32768, "wanted": 32768})";
    EXPECT_EQ(quality(cut)["complete"], false);
    EXPECT_EQ(quality(cut)["incomplete_because"],
              Json({"its stack goes on beyond the captured 32 KiB (context.stack)"}));
    EXPECT_EQ(quality(cut, 8)["complete"], true) << "of another thread the stack says it";
    for (const char *whole : {R"({"truncated": false, "bytes": 32768, "wanted": 32768})",
                              R"({"truncated": true, "bytes": 512, "wanted": 32768})", R"({"truncated": true})", "3"})
        EXPECT_EQ(quality(whole)["complete"], true) << whole;
}

TEST(MergeAnalysis, TheHeapsPartJoinsWhatTheDaemonWrote) {
    Json with = analysis;
    with["heap"] = {{"pointers", {{{"address", "0x10"}}}}, {"growing", Json::array()}};
    const BundleAnalysis read =
        parsed(analysis_stream(with, {{"heap/frames.json", "{}"}, {"heap/growth.folded", "main 1\n"}}));
    const auto files = merge_analysis(R"({"id": "x", "summary": "", "heap": {"level": "history"}})", threads, "", read);
    ASSERT_TRUE(files);
    const Json merged = Json::parse(file(*files, "incident.json"));
    EXPECT_EQ(merged["heap"]["level"], "history");
    EXPECT_EQ(merged["heap"]["pointers"][0]["address"], "0x10");
    EXPECT_FALSE(Json::parse(file(*files, "analysis.json")).contains("heap"));
    EXPECT_EQ(file(*files, "heap/growth.folded"), "main 1\n");
    // Where none was recorded there is none to be added, and no other file of heap/ is the analysis's to write.
    const auto without = merge_analysis(incident, threads, "", read);
    EXPECT_FALSE(Json::parse(file(*without, "incident.json")).contains("heap"));
    EXPECT_THAT(error_of(analysis_stream(analysis, {{"heap/live.bin", ""}})), HasSubstr("not for it to write"));
}

} // namespace
} // namespace incident::capture
