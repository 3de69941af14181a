// Bundles with a heap, whole and otherwise, as info and threads show them.
#include "heap_lab.h"
#include "postmortem/heap/findings.h"
#include "state.h"
#include "tests/capture/heap_files.h"

#include <gmock/gmock.h>

namespace incident::postmortem::test {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t trigger = 1'000'000'000; // of the sample

// The sample's rax is 0x10, also its fault address: an allocation is put there.
HeapLab lab() {
    HeapLab lab;
    lab.snapshot.read_ns = trigger + 1'000'000;
    lab.snapshot.window_from_ns = 500'000'000;
    lab.malloc(900'000'000, 0x10, 64, 7, 4242).free(950'000'000, 0x10, 8, 4243).malloc(960'000'000, 0x9000, 100, 7);
    lab.snapshot.total = {2, 164, 1, 64};
    lab.snapshot.window = {2, 164, 1, 64};
    lab.snapshot.live_bytes = 100;
    for (const std::uint64_t id : {7u, 8u}) {
        capture::HeapStackRecord &stack = lab.snapshot.stacks.emplace_back();
        stack.id = id;
        stack.total = stack.window = id == 7 ? capture::HeapSums{2, 164, 1, 64} : capture::HeapSums{};
        stack.function = id == 7 ? bpf::HEAP_MALLOC : bpf::HEAP_FREE;
        stack.length = HEAP_SLICE;
    }
    return lab;
}

// The sample with the files of a heap, and "heap" of incident.json as the daemon writes it.
std::string add(State &state, const capture::HeapSnapshot &snapshot, const Files &replace = {},
                const std::string &fault = "0x10") {
    Json incident = sample_incident("crash");
    incident["signal"]["address"] = fault;
    incident["heap"] = capture::test::heap_json(snapshot);
    Files files = capture::test::heap_files(snapshot);
    files.emplace_back("incident.json", incident.dump());
    files.insert(files.end(), replace.begin(), replace.end());
    return state.add_sample("crash", files);
}

std::optional<Heap> read(const State &state, const std::string &name) {
    const auto dir = capture::IncidentsDir::open(state.dir(), false);
    const auto bundle = dir->bundle(name);
    return bundle ? read_heap(*bundle) : std::nullopt;
}

TEST(HeapBundle, IsReadBackAsItWasWritten) {
    State state;
    const capture::HeapSnapshot snapshot = lab().snapshot;
    const auto heap = read(state, add(state, snapshot));
    ASSERT_TRUE(heap.has_value());
    EXPECT_THAT(heap->notes, IsEmpty());
    EXPECT_TRUE(heap->live_read);
    EXPECT_EQ(heap->known.history.size(), 3u);
    EXPECT_EQ(heap->known.allocations.at(0).address, 0x9000u);
    EXPECT_EQ(heap->known.total, snapshot.total);
    EXPECT_EQ(heap->known.level, "history");
    ASSERT_NE(heap->stack(7), nullptr);
    EXPECT_EQ(heap->stack(7)->window.allocated_bytes, 164u);
    EXPECT_EQ(heap->stack(9), nullptr);
    EXPECT_EQ(heap->stack(0), nullptr);
}

TEST(HeapBundle, WithoutAHeapThereIsNone) {
    State state;
    EXPECT_FALSE(read(state, state.add_sample("crash")).has_value());
    EXPECT_THAT(state.run({"info"}).out, Not(HasSubstr("  pointers  ")));
}

TEST(HeapBundle, FilesThatAreCutMissingOrLieAreReadAsFarAsTheyGo) {
    State state;
    const capture::HeapSnapshot snapshot = lab().snapshot;
    std::string history;
    for (const auto &[path, bytes] : capture::test::heap_files(snapshot))
        if (path == "heap/history.bin")
            history = bytes;
    const std::string cut = add(state, snapshot, {{"heap/history.bin", history.substr(0, history.size() - 7)}});
    const auto heap = read(state, cut);
    EXPECT_EQ(heap->known.history.size(), 2u);
    EXPECT_THAT(heap->notes, Contains("heap/history.bin ends within a record"));
    EXPECT_THAT(heap->notes, Contains("heap/history.bin has 2 records, heap.json speaks of 3"));

    State lying;
    Json json = capture::test::heap_json(snapshot);
    json["files"] = {{"stacks", 1ull << 60}, {"live", -5}, {"history", "many"}};
    const auto lied = read(lying, add(lying, snapshot, {{"heap.json", json.dump()}}));
    EXPECT_EQ(lied->known.stacks.size(), 2u);
    EXPECT_EQ(lied->known.history.size(), 3u);
    EXPECT_EQ(lied->notes.size(), 3u);

    State missing;
    capture::HeapSnapshot without = snapshot;
    without.allocations.clear();
    Files files;
    for (const auto &[path, bytes] : capture::test::heap_files(without))
        files.emplace_back(path, bytes);
    Json incident = sample_incident("crash");
    json = capture::test::heap_json(snapshot);
    files.emplace_back("heap.json", json.dump());
    const auto half = read(missing, missing.add_sample("crash", files));
    EXPECT_FALSE(half->live_read);
    EXPECT_THAT(half->notes, Contains(HasSubstr("heap/live.bin is missing")));
}

TEST(HeapBundle, AnotherLayoutOrGarbageIsNotRead) {
    State state;
    const capture::HeapSnapshot snapshot = lab().snapshot;
    Json json = capture::test::heap_json(snapshot);
    json["layout"] = 99;
    const auto other = read(state, add(state, snapshot, {{"heap.json", json.dump()}}));
    EXPECT_THAT(other->known.history, IsEmpty());
    EXPECT_THAT(other->notes, Contains(HasSubstr("their layout is 99")));
    State garbage;
    const auto none = read(garbage, add(garbage, snapshot, {{"heap.json", "{"}}));
    EXPECT_THAT(none->notes, Contains(HasSubstr("heap.json")));
    EXPECT_EQ(garbage.run({"info"}).code, 0);
    EXPECT_EQ(garbage.run({"threads"}).code, 0);
}

TEST(HeapBundle, RandomRecordsAreAnswered) {
    State state;
    capture::HeapSnapshot snapshot = lab().snapshot;
    std::string noise(664 * 40, '\0');
    std::uint32_t seed = 12345;
    for (char &c : noise)
        c = static_cast<char>((seed = seed * 1664525 + 1013904223) >> 24);
    add(state, snapshot, {{"heap/history.bin", noise}, {"heap/live.bin", noise}, {"heap/stacks.bin", noise}});
    EXPECT_EQ(state.run({"info"}).code, 0);
    EXPECT_EQ(state.run({"--json", "threads"}).code, 0);
}

TEST(HeapBundle, InfoTellsTheAccountAndTheBiographies) {
    State state;
    add(state, lab().snapshot);
    const std::string out = state.run({"info"}).out;
    EXPECT_THAT(out, HasSubstr("heap  history, recorded for 1 s"));
    EXPECT_THAT(out, HasSubstr("1 allocation alive (100 B); 2 made in all (164 B), 1 freed (64 B)"));
    EXPECT_THAT(out, HasSubstr("growing  +100 B, 100 B in 1 allocation alive by malloc"));
    EXPECT_THAT(out, HasSubstr("pointers  fault address, rax 0x10: the start of an allocation of 64 bytes, freed 50.0 "
                               "ms before"));
    EXPECT_THAT(out, HasSubstr("freed by an unknown caller, in worker[4243], 50.0 ms before"));
}

TEST(HeapBundle, ThreadsTellOfTheRegistersOfTheCrashedThread) {
    State state;
    add(state, lab().snapshot);
    EXPECT_THAT(state.run({"threads"}).out,
                HasSubstr("fault address, rax 0x10: the start of an allocation of 64 bytes, freed 50.0 ms before"));
    const Json threads = Json::parse(state.run({"--json", "threads"}).out);
    ASSERT_EQ(threads.at(0)["pointers"].size(), 1u);
    EXPECT_EQ(threads[0]["pointers"][0]["allocation"]["state"], "freed");
    EXPECT_FALSE(threads.at(1).contains("pointers"));
    const Json info = Json::parse(state.run({"--json", "info"}).out);
    EXPECT_EQ(info["heap"]["pointers"][0]["at"], (Json{"fault address", "rax"}));
    EXPECT_EQ(info["heap"]["growing"][0]["bytes"], 100);
    EXPECT_EQ(info["heap"]["unwound"]["stacks"], 2);
}

TEST(HeapBundle, OfAnUnknownAddressItSaysHowFarItKnows) {
    State state;
    HeapLab other = lab();
    other.forget(955'000'000);
    add(state, other.snapshot, {}, "0x555000");
    EXPECT_THAT(state.run({"info"}).out,
                HasSubstr("0x555000: in no allocation known; recorded since 1.00 s before; the history reaches back to "
                          "45.0 ms before"));
}

TEST(HeapBundle, ANullPointerIsNotLookedForInVain) {
    State state;
    HeapLab other = lab();
    other.forget(955'000'000);
    add(state, other.snapshot);
    EXPECT_THAT(state.run({"info"}).out, Not(HasSubstr("in no allocation known")));
}

TEST(HeapBundle, NotRecordedSaysWhy) {
    State state;
    capture::HeapSnapshot snapshot;
    snapshot.asked = "history";
    snapshot.reason = "static, without symbols \x1b[31m";
    add(state, snapshot);
    const std::string out = state.run({"info"}).out;
    EXPECT_THAT(out, HasSubstr("heap  not recorded, though history is asked for: static, without symbols \\x1b[31m"));
}

TEST(HeapBundle, TheFoldedFileHasWhatGrewAndNothingElse) {
    HeapLab grown = lab();
    grown.snapshot.stacks[1].window = {1, 10, 2, 90}; // shrunk
    auto incident = Incident::parse(R"({"clocks": {"trigger_ns": 1000000000}})", "x");
    const CrashImage image;
    HeapFindings findings = find_heap(grown.heap(), *incident, image);
    Analysis analysis;
    for (const char *symbol : {"malloc", "make;node\n", "main"})
        analysis.call_frames.emplace_back().symbol = symbol;
    CallStack &stack = analysis.call_stacks.emplace_back();
    stack.id = 7;
    stack.frames = {0, 1, 2};
    add_names(findings, analysis, image);
    const auto files = heap_analysis_files(findings, analysis);
    ASSERT_EQ(files.size(), 2u);
    EXPECT_EQ(files[1].first, "heap/growth.folded");
    EXPECT_EQ(files[1].second, "main;make:node\\n;malloc 100\n");
    const Json frames = Json::parse(files[0].second);
    EXPECT_EQ(frames["stacks"]["0x7"]["frames"], (Json{0, 1, 2}));
    EXPECT_EQ(frames["not_unwound"], 1);
    stack.truncated = true;
    EXPECT_EQ(heap_analysis_files(findings, analysis)[1].second, "[cut];main;make:node\\n;malloc 100\n");
    analysis.call_stacks.clear();
    EXPECT_EQ(heap_analysis_files(findings, analysis)[1].second, "[call stack 0x7 not unwound] 100\n");
}

TEST(HeapBundle, CallStacksThatPointersNeedComeFirst) {
    HeapLab many = lab();
    for (std::uint64_t id = 100; id < 200; ++id) {
        capture::HeapStackRecord &stack = many.snapshot.stacks.emplace_back();
        stack.id = id;
        stack.window = {1, id * 1000, 0, 0};
    }
    auto incident = Incident::parse(R"({"clocks": {"trigger_ns": 1000000000},
        "signal": {"address": "0x10", "fatal": true}})",
                                    "x");
    const CrashImage image;
    const HeapFindings findings = find_heap(many.heap(), *incident, image);
    const auto ordered = stacks_by_need(findings);
    ASSERT_EQ(ordered.size(), 102u);
    EXPECT_EQ(ordered[0]->id, 7u); // allocated by
    EXPECT_EQ(ordered[1]->id, 8u); // freed by
    EXPECT_EQ(ordered[2]->id, 199u);
    EXPECT_EQ(ordered[3]->id, 198u);
}

} // namespace
} // namespace incident::postmortem::test
