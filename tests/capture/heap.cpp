#include "heap_files.h"
#include "render_fixture.h"

#include <gmock/gmock.h>

namespace incident::capture::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

HeapSnapshot snapshot() {
    HeapSnapshot heap;
    heap.level = heap.asked = "history";
    heap.exec_ns = second;
    heap.since_ns = 2 * second;
    heap.window_from_ns = 4 * second;
    heap.read_ns = 11 * second;
    heap.history_from_ns = 3 * second;
    heap.history_written = 9;
    heap.functions = {{"malloc", "/lib/libc.so.6", "", true}};
    heap.total = {10, 1000, 7, 600};
    heap.window = {3, 300, 2, 50};
    heap.live = 2;
    heap.live_bytes = 350;
    heap.reused = 1;
    heap.reused_bytes = 50;
    heap.sizes[0] = {1, 0};
    heap.sizes[5] = {4, 80};
    heap.sizes_in_window[5] = {1, 20};
    heap.sizes[HEAP_CLASSES - 1] = {1, 1ull << 50};
    heap.stacks.resize(2);
    heap.stacks[1].length = HEAP_SLICE;
    std::memcpy(heap.stacks[1].slice + 100, "token=secret", 12);
    heap.allocations.push_back({0x1000, 300, 7, 5 * second, 100, bpf::HEAP_MALLOC});
    heap.history.push_back({5 * second, 0x1000, 300, 7, 100, bpf::HEAP_ALLOCATED, bpf::HEAP_MALLOC, 0, 0});
    return heap;
}

const std::string *file(const std::vector<std::pair<std::string, std::string>> &files, std::string_view path) {
    for (const auto &[name, bytes] : files)
        if (name == path)
            return &bytes;
    return nullptr;
}

std::vector<std::string> paths(const std::vector<std::pair<std::string, std::string>> &files) {
    std::vector<std::string> names;
    for (const auto &[name, bytes] : files)
        names.push_back(name);
    return names;
}

TEST(Heap, JsonSaysWhatWasRecorded) {
    const auto json = heap_json(snapshot());
    EXPECT_EQ(json["layout"], HEAP_FILE_LAYOUT);
    EXPECT_EQ(json["window"]["from_ns"], 4 * second);
    EXPECT_EQ(json["window"]["ns"], 7 * second);
    EXPECT_EQ(json["functions"][0]["name"], "malloc");
    EXPECT_EQ(json["account"]["live_bytes"], 350);
    EXPECT_EQ(json["account"]["reused"], 1);
    EXPECT_EQ(json["in_window"]["allocated_bytes"], 300);
    EXPECT_EQ(json["history"]["written"], 9);
    EXPECT_EQ(json["files"]["stacks"], 2);
    ASSERT_EQ(json["sizes"].size(), 3u);
    EXPECT_EQ(json["sizes"][0]["from"], 0);
    EXPECT_EQ(json["sizes"][0]["to"], 0);
    EXPECT_EQ(json["sizes"][1]["from"], 16);
    EXPECT_EQ(json["sizes"][1]["to"], 31);
    EXPECT_EQ(json["sizes"][1]["window_bytes"], 20);
    EXPECT_TRUE(json["sizes"][2]["to"].is_null());
}

TEST(Heap, FilesAreArraysOfRecords) {
    const HeapSnapshot heap = snapshot();
    const auto files = heap_files(heap);
    EXPECT_THAT(paths(files), ElementsAre("heap.json", "heap/stacks.bin", "heap/live.bin", "heap/history.bin"));
    const std::string &live = *file(files, "heap/live.bin");
    ASSERT_EQ(live.size(), sizeof(HeapLiveRecord));
    HeapLiveRecord record;
    std::memcpy(&record, live.data(), sizeof record);
    EXPECT_EQ(record.address, 0x1000u);
    EXPECT_EQ(record.size, 300u);
    EXPECT_EQ(file(files, "heap/stacks.bin")->size(), 2 * sizeof(HeapStackRecord));
    EXPECT_EQ(file(files, "heap/history.bin")->size(), sizeof(HeapHistoryRecord));
}

TEST(Heap, AFileWithoutRecordsIsNotThere) {
    HeapSnapshot heap = snapshot();
    heap.history.clear();
    heap.level = "sizes";
    EXPECT_THAT(paths(heap_files(heap)), ElementsAre("heap.json", "heap/stacks.bin", "heap/live.bin"));
}

TEST(Heap, ABundleHasTheFilesAndASummary) {
    Made made;
    EXPECT_FALSE(made.incident().contains("heap"));
    made.input.process.heap = snapshot();
    const auto files = render_all(made.context());
    EXPECT_NE(file(files, "heap/stacks.bin"), nullptr);
    EXPECT_NE(file(files, "heap.json"), nullptr);
    const auto incident = made.incident();
    EXPECT_EQ(incident["heap"]["level"], "history");
    EXPECT_EQ(incident["heap"]["account"]["allocations"], 10);
    EXPECT_EQ(incident["heap"]["files"]["live"], 1);
    EXPECT_THAT(incident["quality"]["losses"], IsEmpty());
}

TEST(Heap, ALightBundleHasTheAccountOnly) {
    Made made;
    made.input.process.heap = snapshot();
    made.input.light = true;
    const auto files = render_all(made.context());
    EXPECT_EQ(file(files, "heap/stacks.bin"), nullptr);
    EXPECT_EQ(file(files, "heap/live.bin"), nullptr);
    EXPECT_EQ(file(files, "heap/history.bin"), nullptr);
    ASSERT_NE(file(files, "heap.json"), nullptr);
    EXPECT_EQ(nlohmann::json::parse(*file(files, "heap.json"))["files"]["live"], 0);
    EXPECT_EQ(made.incident()["heap"]["files"]["history"], 0);
    EXPECT_EQ(made.incident()["heap"]["account"]["live"], 2);
}

TEST(Heap, StackSlicesAreRedactedInPlace) {
    Made made;
    made.input.process.heap = snapshot();
    made.input.process.heap->functions[0].path = "/srv/secret/lib.so";
    made.redact = {"secret"};
    const auto files = render_all(made.context());
    const std::string &stacks = *file(files, "heap/stacks.bin");
    EXPECT_EQ(stacks.size(), 2 * sizeof(HeapStackRecord));
    EXPECT_EQ(stacks.find("secret"), std::string::npos);
    EXPECT_NE(stacks.find("token=XXXXXX"), std::string::npos);
    EXPECT_THAT(*file(files, "heap.json"), HasSubstr("/srv/[redacted]/lib.so"));
}

TEST(Heap, NothingIsLostInSilence) {
    Made made;
    HeapSnapshot heap = snapshot();
    heap.level = "sizes";
    heap.reason = "no memory left in [heap]";
    heap.lost = 3;
    heap.no_stack = 4;
    heap.no_frame = 5;
    heap.unfinished = 6;
    heap.unentered = 7;
    heap.strangers = 8;
    heap.unknown_frees = 99; // of what is older than the recording: nothing is lost
    heap.functions.push_back({"free", "/opt/alloc.so", "no such symbol", false});
    made.input.process.heap = heap;
    const auto quality = made.incident()["quality"];
    EXPECT_FALSE(quality["complete"]);
    std::vector<std::pair<std::string, std::uint64_t>> heap_losses;
    for (const auto &loss : quality["losses"])
        if (loss["where"] == "heap")
            heap_losses.emplace_back(loss["reason"], loss["count"]);
    EXPECT_THAT(
        heap_losses,
        ElementsAre(Pair("recorded at level \"sizes\", a rule asks for \"history\": no memory left in [heap]", 1),
                    Pair("free of /opt/alloc.so has no probe: no such symbol", 1),
                    Pair("allocations not remembered as live: no room", 3),
                    Pair("allocations and frees whose call stack was not kept", 4),
                    Pair("calls not recorded: no room for the thread's frame", 5),
                    Pair("calls that were never seen to return", 6),
                    Pair("calls that were under way when the recording began", 7),
                    Pair("calls after another program was executed", 8)));
}

TEST(Heap, NotRecordedAtAllIsALoss) {
    Made made;
    HeapSnapshot heap;
    heap.asked = "history";
    heap.reason = "a static program without symbols";
    made.input.process.heap = heap;
    const auto losses = made.incident()["quality"]["losses"];
    ASSERT_EQ(losses.size(), 1u);
    EXPECT_EQ(losses[0]["reason"],
              "not recorded, though a rule asks for \"history\": a static program without symbols");
}

} // namespace
} // namespace incident::capture::test
