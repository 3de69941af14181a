// "pages" of incident.json: the calls that changed the address space, and the curve of resident memory.
#include "tests/capture/render_fixture.h"

#include "capture/render/render_parts.h"

#include <gmock/gmock.h>

namespace incident::capture::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t started = 5 * second;

struct MadePages : Made {
    MadePages() {
        input.process.entry->fork_ns = started;
        input.process.event.rss_anon_pages = 70;
        input.process.event.rss_file_pages = 30;
    }

    void add(int nr, std::uint64_t t_ns, std::int64_t delta, std::uint64_t rss_pages, std::size_t i = 0,
             std::uint64_t faults = 0) {
        bpf::memory_record record{};
        record.t_ns = t_ns;
        record.start_ns = t_ns - 1000;
        record.nr = nr;
        record.delta = delta;
        record.rss_pages = rss_pages;
        record.minor_faults = faults;
        record.major_faults = faults / 10;
        thread(i).rings->memory.push_back(record);
        ++thread(i).rings->slot.memory_events;
    }

    Json pages() const { return pages_json(input); }
};

TEST(RenderPages, AddsUpByCall) {
    MadePages made;
    made.add(SYS_brk, started + 1, 0, 10); // a query
    made.add(SYS_brk, started + 2, 132 << 10, 12);
    made.add(SYS_mmap, started + 4, 8 << 20, 20);
    made.add(SYS_munmap, started + 3, -(2 << 20), 15, 1);
    made.add(SYS_mremap, started + 5, 4096, 15, 1);
    const Json pages = made.pages();
    EXPECT_EQ(pages["by_call"]["brk"], (Json{{"calls", 2}, {"bytes", 132 << 10}}));
    EXPECT_EQ(pages["by_call"]["mmap"], (Json{{"calls", 1}, {"bytes", 8 << 20}}));
    EXPECT_EQ(pages["by_call"]["munmap"], (Json{{"calls", 1}, {"bytes", -(2 << 20)}}));
    EXPECT_EQ(pages["by_call"]["mremap"], (Json{{"calls", 1}, {"bytes", 4096}}));
    EXPECT_EQ(pages["growth_bytes"], (132 << 10) + (6 << 20) + 4096);
    EXPECT_EQ(pages["from_ns"], started);
    EXPECT_TRUE(pages["complete"]);
    EXPECT_EQ(pages["incomplete_because"], Json::array());
}

TEST(RenderPages, CurveIsOfAllSourcesInOrder) {
    MadePages made;
    made.add(SYS_mmap, started + 30, 4096, 30);
    made.add(SYS_mmap, started + 10, 4096, 10, 1);
    made.input.trigger = MemoryTrigger{.rss = 90 * 4096, .samples = {{started + 20, 20 * 4096}, {started + 40, 0}}};
    const Json curve = made.pages()["rss_curve"];
    EXPECT_EQ(curve, (Json{{{"t_ns", started + 10}, {"rss_bytes", 10 * 4096}},
                           {{"t_ns", started + 20}, {"rss_bytes", 20 * 4096}},
                           {{"t_ns", started + 30}, {"rss_bytes", 30 * 4096}},
                           {{"t_ns", trigger_ns}, {"rss_bytes", 100 * 4096}}}));
}

TEST(RenderPages, LongCurveKeepsLowestAndHighest) {
    MadePages made;
    for (std::uint64_t i = 0; i < 5000; ++i)
        made.add(SYS_mmap, started + i, 4096, i == 1234 ? 9999 : i == 4321 ? 1 : 100 + i % 7);
    const Json pages = made.pages();
    EXPECT_EQ(pages["rss_points"], 5001);
    EXPECT_LE(pages["rss_curve"].size(), 512u);
    std::uint64_t low = ~0ull, high = 0, last = 0;
    for (const Json &point : pages["rss_curve"]) {
        low = std::min<std::uint64_t>(low, point["rss_bytes"]);
        high = std::max<std::uint64_t>(high, point["rss_bytes"]);
        EXPECT_GE(point["t_ns"].get<std::uint64_t>(), last);
        last = point["t_ns"];
    }
    EXPECT_EQ(low, 4096u);
    EXPECT_EQ(high, 9999u * 4096);
    EXPECT_EQ(last, trigger_ns);
    EXPECT_EQ(pages["by_call"]["mmap"]["calls"], 5000) << "what is thinned is only shown";
}

// What one thread's ring no longer has leaves a time from which on all is known.
TEST(RenderPages, BeginsWhereNothingIsMissing) {
    MadePages made;
    made.add(SYS_mmap, started + 50, 1 << 20, 10);
    made.add(SYS_mmap, started + 70, 2 << 20, 20);
    made.thread(0).rings->slot.memory_events = 18; // 16 more before these
    made.add(SYS_mmap, started + 40, 4 << 20, 30, 1);
    made.add(SYS_mmap, started + 60, 8 << 20, 40, 1);
    const Json pages = made.pages();
    EXPECT_EQ(pages["from_ns"], started + 50);
    EXPECT_EQ(pages["growth_bytes"], 11 << 20);
    EXPECT_FALSE(pages["complete"]);
    EXPECT_EQ(pages["incomplete_because"],
              Json{"1 thread made more than 16 such calls; the earlier ones are overwritten"});
    EXPECT_EQ(pages["rss_points"], 5) << "resident memory is right at any time";
}

TEST(RenderPages, OfAnotherProgramIsLeftOut) {
    MadePages made;
    made.input.process.entry->exec_ns = started + 55;
    made.add(SYS_mmap, started + 50, 1 << 20, 10);
    made.add(SYS_mmap, started + 70, 2 << 20, 20);
    made.thread(0).rings->slot.memory_events = 18; // of the program before
    const Json pages = made.pages();
    EXPECT_EQ(pages["from_ns"], started + 55);
    EXPECT_EQ(pages["growth_bytes"], 2 << 20);
    EXPECT_TRUE(pages["complete"]);
    EXPECT_EQ(pages["rss_curve"][0]["t_ns"], started + 70);
}

TEST(RenderPages, SaysWhatIsMissing) {
    MadePages made;
    bpf::process_entry &entry = *made.input.process.entry;
    entry.memory_ended = 3;
    entry.memory_ended_ns = started + 20;
    entry.threads_unrecorded = 1;
    made.add(SYS_mmap, started + 10, 1 << 20, 10);
    made.thread(0).rings->slot.since_birth = 0;
    made.thread(0).rings->slot.first_ns = started + 5;
    made.thread(1).rings.reset();
    Json pages = made.pages();
    EXPECT_EQ(pages["from_ns"], started + 20);
    EXPECT_EQ(pages["by_call"]["mmap"]["calls"], 0);
    EXPECT_EQ(pages["incomplete_because"], (Json{"1 thread ran before the recording began", "1 thread left no records",
                                                 "3 threads ended before, and took their records with them",
                                                 "1 thread found no slot and made calls unrecorded"}));
    made.input.process.entry.reset();
    EXPECT_EQ(made.pages()["incomplete_because"].back(), "the process is older than the recording");
}

TEST(RenderPages, ARuleMayKeepNone) {
    MadePages made;
    made.thread(0).rings->slot.memory_events = 5;
    const Json pages = made.pages();
    EXPECT_EQ(pages["from_ns"], trigger_ns);
    EXPECT_EQ(pages["incomplete_because"],
              Json{"1 thread made such calls that the rule does not keep (context.memory)"});
}

TEST(RenderPages, FaultsAreOfTheTimeOfTheCalls) {
    MadePages made;
    made.add(SYS_mmap, started + 10, 4096, 10, 0, 100);
    made.add(SYS_mmap, started + 20, 4096, 20, 0, 300);
    made.thread(0).event->minor_faults = 350;
    made.thread(0).event->major_faults = 31;
    made.add(SYS_mmap, started + 15, 4096, 20, 1, 50);
    made.add(SYS_mmap, started + 16, 4096, 20, 1, 60);
    made.thread(1).event.reset();
    const Json pages = made.pages();
    EXPECT_EQ(pages["minor_faults"], 250 + 10);
    EXPECT_EQ(pages["major_faults"], 21 + 1);
}

TEST(RenderPages, HostileRecordsAreOnlyWrong) {
    MadePages made;
    for (const std::uint64_t word : {0ull, ~0ull, 1ull << 63}) {
        made.add(static_cast<int>(word), word, static_cast<std::int64_t>(word), word, 0, word);
        made.add(SYS_munmap, word, static_cast<std::int64_t>(word), word, 1, word);
    }
    EXPECT_TRUE(made.pages().is_object());
}

} // namespace
} // namespace incident::capture::test
