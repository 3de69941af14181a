// `incident explain` and `incident memory` over the recorded heap, out of the bundle's files alone.
#include "gdb_bundle.h"
#include "heap_lab.h"
#include "tests/capture/heap_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>

namespace incident::postmortem::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t gdb_trigger = 1'000'000'000;

class HeapGdb : public testing::Test {
protected:
    void SetUp() override {
        std::string why;
        auto made = GdbBundle::make(state, why);
        if (!made)
            GTEST_SKIP() << why;
        bundle = std::move(*made);
        const auto said = bundle.ask({"print heap", "print main"});
        heap = printed_number(said.at("print heap"));
        main = printed_number(said.at("print main"));
        ASSERT_NE(heap, 0u);
        lab.snapshot.read_ns = gdb_trigger + 1000;
    }

    void store() {
        std::filesystem::create_directories(bundle.path + "/heap");
        for (const auto &[path, bytes] : capture::test::heap_files(lab.snapshot))
            bundle.write(path, bytes);
    }
    // A stack whose caller is main.
    void add_stack(std::uint64_t id) {
        capture::HeapStackRecord &stack = lab.snapshot.stacks.emplace_back();
        stack.id = id;
        stack.length = HEAP_SLICE;
        const std::uint64_t back = main + 8;
        std::memcpy(stack.slice, &back, sizeof back);
    }
    std::vector<std::string> explained(const std::string &what) {
        return labelled(bundle.ask({"incident explain " + what}).at("incident explain " + what), "allocation");
    }

    State state;
    GdbBundle bundle;
    HeapLab lab;
    std::uint64_t heap = 0, main = 0;
};

TEST_F(HeapGdb, SaysWhatInfoSays) {
    lab.malloc(1000, heap, 24, 1, 101).free(2000, heap, 2).realloc(3000, 3100, heap - 0x100, heap, 100, 3);
    lab.free(gdb_trigger - 5000, heap, 2, 101).free(gdb_trigger - 1000, heap, 4);
    for (const std::uint64_t id : {1, 2, 3, 4})
        add_stack(id);
    store();
    const auto lines = explained("heap+8");
    ASSERT_EQ(lines.size(), 5u);
    EXPECT_EQ(lines[0], fmt::format("8 bytes into an allocation of 100 bytes at {:#x}, freed 5.00 µs before", heap));
    EXPECT_THAT(lines[1], AllOf(HasSubstr("resized from 0 bytes at"), HasSubstr("with realloc")));
    // where the analysis has not named a call stack, gdb does
    EXPECT_THAT(lines[2], AllOf(HasSubstr("freed by main (victim.c:"), HasSubstr("in thread 101, 5.00 µs before")));
    EXPECT_THAT(lines[3], HasSubstr("freed again by main"));
    EXPECT_THAT(lines[4], HasSubstr("before that, an allocation of 24 bytes"));
}

TEST_F(HeapGdb, NamesAreTheAnalysisOwnWhereItHasThem) {
    lab.malloc(1000, heap, 100, 0x77);
    add_stack(0x77);
    store();
    bundle.write("heap/frames.json", R"({"frames": [{"symbol": "malloc"}, {"symbol": "operator new"},
        {"symbol": "make_\u001b[31m", "file": "/src/list.c", "line": 12, "symbol_offset": 31}],
        "stacks": {"0x77": {"frames": [0, 1, 2, "x", 99]}}})");
    const auto lines = explained("heap");
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_THAT(lines[1], HasSubstr("allocated by make_\\x1b[31m+0x1f (list.c:12)"));
}

TEST_F(HeapGdb, PastTheEndUnknownAndGarbage) {
    lab.malloc(1000, heap, 100, 1).malloc(1100, heap + 112, 8, 1);
    store();
    EXPECT_THAT(explained("heap+102").at(0), HasSubstr("2 bytes past the end of an allocation of 100 bytes"));
    EXPECT_THAT(explained("heap+102").back(), HasSubstr("just above begins an allocation of 8 bytes"));
    EXPECT_THAT(explained("heap-1").at(0), HasSubstr("1 byte before the start of"));
    EXPECT_THAT(explained("heap+4000").at(0),
                HasSubstr("in no allocation known; recorded since 1.00 s before; the history reaches back to"));
    EXPECT_THAT(explained("main"), IsEmpty());
    bundle.write("heap/history.bin", std::string(12345, '\xa5'));
    bundle.write("heap/frames.json", "[");
    EXPECT_THAT(explained("heap").at(0), HasSubstr("an allocation of 100 bytes")); // live.bin knows it
    bundle.write("heap.json", R"({"layout": 7})");
    EXPECT_THAT(explained("heap").back(), HasSubstr("layout that is not known"));
}

TEST_F(HeapGdb, MemoryShowsTheAccount) {
    lab.malloc(1000, heap, 100, 1);
    lab.snapshot.total = {3, 300, 2, 200};
    lab.snapshot.window = {1, 100, 0, 0};
    lab.snapshot.live_bytes = 100;
    Json incident = bundle.incident;
    incident["heap"] = capture::test::heap_json(lab.snapshot);
    incident["heap"]["growing"] = {{{"stack", "0x1"}, {"bytes", 100}, {"place", "make_node (list.c:12)"}}};
    bundle.write("incident.json", incident.dump());
    const std::string said = bundle.ask({"incident memory"}).at("incident memory");
    EXPECT_THAT(said, HasSubstr("1 allocations alive (100 B); 3 made (300 B), 2 freed (200 B)"));
    EXPECT_THAT(labelled(said, "growing"), ElementsAre("100 B by make_node (list.c:12)"));
}

} // namespace
} // namespace incident::postmortem::test
