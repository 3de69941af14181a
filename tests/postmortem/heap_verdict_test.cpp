// What the recorded heap proves of a fault or an abort, and what it does not.
#include "heap_lab.h"
#include "postmortem/heap/call_stack_names.h"
#include "postmortem/verdict/evidence.h"
#include "state.h"

#include <gmock/gmock.h>

#include <csignal>

namespace incident::postmortem::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::uint64_t code = 0x1000, verdict_trigger = 10'000;

// Thread 100 of process 100 at one instruction, its rdi the pointer in question.
class HeapVerdict : public testing::Test {
protected:
    HeapVerdict() {
        image.pid = 100;
        image.has_siginfo = true;
        image.maps = capture::Maps::parse("00001000-00002000 r-xp 00000000 08:01 7 /bin/x\n"
                                          "00300000-00400000 r-xp 00000000 08:01 8 /lib/libc.so.6\n");
        ImageThread &thread = image.threads.emplace_back();
        thread.tid = 100;
        thread.is_triggers = true;
        thread.comm = "x";
        thread.registers.emplace();
        thread.registers->rip = code;
        thread.registers->orig_rax = ~0ull;
        ThreadStack &stack = analysis.threads.emplace_back();
        stack.tid = 100;
        Frame frame;
        frame.ip = code;
        frame.symbol = "use";
        stack.frames.push_back(frame);
        state.add("20261121T150405.123Z-crash-x-100-9f3c2a", {{"incident.json", "{}"}});
    }

    // rdi is what is given; the instruction reads or writes 8 bytes at displacement from it.
    void faults(std::uint64_t rdi, std::int64_t displacement, bool write = false) {
        image.signal = SIGSEGV;
        image.threads[0].registers->rdi = rdi;
        Instruction &instruction = analysis.instruction.emplace();
        instruction.address = code;
        Instruction::Operand &memory = instruction.memory.emplace();
        memory.read = !write;
        memory.write = write;
        memory.base = "rdi";
        memory.displacement = displacement;
        memory.address = rdi + static_cast<std::uint64_t>(displacement);
        memory.bytes = 8;
        record = Json{{"signal",
                       {{"number", SIGSEGV},
                        {"name", "SIGSEGV"},
                        {"code", 1},
                        {"code_name", "SEGV_MAPERR"},
                        {"address", hex(memory.address)},
                        {"fatal", true}}},
                      {"clocks", {{"trigger_ns", verdict_trigger}}}};
    }

    void aborts(const std::string &message) {
        image.signal = SIGABRT;
        image.abort_message = message;
        for (const char *function : {"free", "_int_free", "malloc_printerr"}) {
            Frame frame;
            frame.symbol = function;
            analysis.threads[0].frames.insert(analysis.threads[0].frames.begin(), frame);
        }
        record = Json{{"signal",
                       {{"number", SIGABRT},
                        {"name", "SIGABRT"},
                        {"code", -6},
                        {"code_name", "SI_TKILL"},
                        {"fatal", true},
                        {"sender", {{"pid", 100}}}}},
                      {"clocks", {{"trigger_ns", verdict_trigger}}}};
    }

    // A call stack of one caller of that name.
    void name(std::uint64_t id, const std::string &symbol, const std::string &module = "/bin/x") {
        CallStack &stack = analysis.call_stacks.emplace_back();
        stack.id = id;
        for (const std::string &function : {std::string("free"), symbol}) {
            Frame &frame = analysis.call_frames.emplace_back();
            frame.symbol = function;
            frame.module = module;
            stack.frames.push_back(static_cast<std::uint32_t>(analysis.call_frames.size() - 1));
        }
        capture::HeapStackRecord record_of_it;
        record_of_it.id = id;
        record_of_it.ip = 0x300100;
        lab.snapshot.stacks.push_back(record_of_it);
    }

    Verdict judged() {
        auto incident = Incident::parse(record.dump(), "x");
        EXPECT_TRUE(incident);
        findings = find_heap(lab.heap(), *incident, image);
        add_names(findings, analysis, image);
        const auto dir = capture::IncidentsDir::open(state.dir(), false);
        const auto bundle = dir->bundle("20261121T150405.123Z-crash-x-100-9f3c2a");
        EXPECT_TRUE(bundle);
        return judge(*incident, image, analysis, *bundle, &findings);
    }
    // The first claim; "" none.
    std::string sentence() {
        const Verdict verdict = judged();
        return verdict.claims.empty() ? "" : verdict.claims.front().text();
    }

    State state;
    HeapLab lab;
    CrashImage image;
    Analysis analysis;
    Json record;
    HeapFindings findings;
};

TEST_F(HeapVerdict, UseAfterFreeByTheInstructionsOwnPointer) {
    lab.malloc(1000, 0x50000, 64).free(4000, 0x50000, 2, 101);
    name(2, "drop");
    faults(0x50000, 16);
    EXPECT_EQ(sentence(),
              "use after free: use() reads 8 bytes at offset 16 of an allocation of 64 bytes, freed 6.00 µs before by "
              "drop (x)");
    const Verdict verdict = judged();
    EXPECT_THAT(verdict.claims[0].facts, Contains(HasSubstr("freed by drop (x), in thread 101")));
}

TEST_F(HeapVerdict, AWriteAfterFreeSaysSo) {
    lab.malloc(1000, 0x50000, 64).free(4000, 0x50000);
    faults(0x50000, 16, true);
    EXPECT_THAT(sentence(), StartsWith("use after free: use() writes 8 bytes at offset 16"));
}

TEST_F(HeapVerdict, OfMemoryGivenOutAgainNothingIsSaid) {
    lab.malloc(1000, 0x50000, 64).free(4000, 0x50000).malloc(5000, 0x50000, 64, 7);
    faults(0x50000, 16);
    EXPECT_THAT(sentence(), Not(HasSubstr("after free")));
    // Overlapped by one that is alive now: the pointer may be meant for that.
    lab.free(6000, 0x50000).malloc(7000, 0x50000 - 16, 40, 7);
    faults(0x50020, 0);
    EXPECT_THAT(sentence(), Not(HasSubstr("after free")));
}

TEST_F(HeapVerdict, FreedAfterTheFaultIsNotBefore) {
    lab.malloc(1000, 0x50000, 64).free(verdict_trigger + 5, 0x50000);
    faults(0x50000, 16);
    EXPECT_THAT(sentence(), Not(HasSubstr("after free")));
}

TEST_F(HeapVerdict, APointerThatStoodInFreedMemory) {
    lab.malloc(1000, 0x50000, 64).free(4000, 0x50000);
    const std::uint64_t words[] = {0x123456789a, 0xdeadbeef12345678};
    image.memory.add(0x50000, {reinterpret_cast<const char *>(words), sizeof words});
    faults(words[1], 0);
    EXPECT_THAT(sentence(), Not(HasSubstr("after free"))); // nothing at hand points there
    image.threads[0].registers->rbx = 0x50000;
    EXPECT_THAT(sentence(),
                StartsWith("use after free: use() followed a pointer that stands at offset 8 of an allocation"));
}

TEST_F(HeapVerdict, OverrunAndUnderrunOfALiveAllocation) {
    lab.malloc(1000, 0x50000, 64);
    faults(0x50000, 72, true);
    EXPECT_EQ(sentence(), "overrun: use() writes 8 bytes 8 bytes past the end of an allocation of 64 bytes");
    faults(0x50000, -8);
    EXPECT_EQ(sentence(), "underrun: use() reads 8 bytes 8 bytes before an allocation of 64 bytes");
    lab.malloc(2000, 0x50040, 64); // where it reached lies another one
    faults(0x50000, 72, true);
    EXPECT_THAT(sentence(), Not(HasSubstr("overrun")));
}

TEST_F(HeapVerdict, DoubleFreeNamesBoth) {
    lab.malloc(1000, 0x50000, 64).free(2000, 0x50000, 2).free(9000, 0x50000, 5);
    name(2, "drop");
    name(5, "cleanup");
    aborts("free(): double free detected in tcache 2");
    EXPECT_EQ(sentence(), "double free: 0x50000, an allocation of 64 bytes, was freed by drop (x) and 7.00 µs later "
                          "again by cleanup (x)");
}

TEST_F(HeapVerdict, ADoubleFreeSaysWhatWasNotRecorded) {
    lab.malloc(1000, 0x50000, 64).free(2000, 0x50000, 2).free(9000, 0x50000, 5);
    lab.snapshot.unfinished = 3;
    aborts("free(): double free detected in tcache 2");
    const Verdict verdict = judged();
    EXPECT_THAT(verdict.claims.at(0).facts, Contains(HasSubstr("3 calls were not recorded")));
}

TEST_F(HeapVerdict, AnEndingThreadsCacheIsNoSecondFree) {
    lab.malloc(1000, 0x50000, 64).free(2000, 0x50000, 2, 101).free(3000, 0x50000, 5, 101);
    name(5, "tcache_thread_shutdown");
    faults(0x50000, 8);
    judged();
    EXPECT_EQ(findings.allocators_own, std::vector<std::uint64_t>{5});
    ASSERT_NE(findings.of(0x50000), nullptr);
    EXPECT_TRUE(findings.of(0x50000)->life->freed_again.empty());
    EXPECT_EQ(findings.of(0x50000)->life->freed->t_ns, 2000u);
}

TEST_F(HeapVerdict, ANamelessCallerInTheAllocatorsOwnFileIsTakenForTheAllocator) {
    lab.malloc(1000, 0x50000, 64).free(2000, 0x50000, 2, 101).free(3000, 0x50000, 5, 101);
    name(5, "");
    capture::HeapStackRecord &stack = lab.snapshot.stacks.back();
    const std::uint64_t inside = 0x300200, outside = 0x1100;
    stack.length = sizeof inside;
    std::memcpy(stack.slice, &outside, sizeof outside);
    faults(0x50000, 8);
    judged();
    EXPECT_EQ(findings.of(0x50000)->life->freed_again.size(), 1u);
    std::memcpy(stack.slice, &inside, sizeof inside);
    judged();
    EXPECT_TRUE(findings.of(0x50000)->life->freed_again.empty());
}

TEST_F(HeapVerdict, FreedInTheMiddle) {
    lab.malloc(1000, 0x50000, 64).free(9000, 0x50010, 5);
    name(5, "confused");
    aborts("free(): invalid pointer");
    EXPECT_EQ(sentence(), "free of a pointer into the middle of an allocation: 0x50010 is 16 bytes into an allocation "
                          "of 64 bytes at 0x50000, alive");
    EXPECT_THAT(judged().claims.at(0).facts, Contains(HasSubstr("freed by confused (x)")));
}

TEST_F(HeapVerdict, CorruptionNamesWhatWasFreedAndWhatLiesBelow) {
    lab.malloc(1000, 0x50000, 24, 3).malloc(1100, 0x50020, 24, 4).free(9000, 0x50020, 5);
    name(3, "make_small");
    aborts("double free or corruption (out)");
    const Verdict verdict = judged();
    ASSERT_EQ(verdict.claims.size(), 2u);
    EXPECT_EQ(verdict.claims[0].text(), "heap corrupted, found by glibc's allocator: double free or corruption (out)");
    EXPECT_THAT(verdict.claims[1].text(), StartsWith("it was about to free 0x50020"));
    EXPECT_THAT(verdict.claims[1].facts, Contains(HasSubstr("just below, of 24 bytes at 0x50000 alive, allocated by "
                                                            "make_small (x)")));
}

TEST_F(HeapVerdict, AnAllocatorsCrashIsTracedToAnEarlierDoubleFree) {
    lab.malloc(1000, 0x50000, 64).free(2000, 0x50000, 2).free(3000, 0x50000, 5).malloc(4000, 0x60000, 8);
    analysis.threads[0].frames[0].symbol = "_int_malloc";
    faults(0x123456000, 8);
    EXPECT_THAT(sentence(), StartsWith("double free: 0x50000"));
    lab.snapshot.unfinished = 1; // an allocation in between may have gone by
    EXPECT_THAT(sentence(), Not(HasSubstr("double free")));
    lab.snapshot.unfinished = 0;
    lab.snapshot.functions = {{"aligned_alloc", "/lib/x", "no symbol", false}};
    EXPECT_THAT(sentence(), Not(HasSubstr("double free")));
}

TEST_F(HeapVerdict, WithoutAHeapAllIsAsBefore) {
    faults(0x50000, 16);
    auto incident = Incident::parse(record.dump(), "x");
    const auto dir = capture::IncidentsDir::open(state.dir(), false);
    const auto bundle = dir->bundle("20261121T150405.123Z-crash-x-100-9f3c2a");
    for (const Claim &claim : judge(*incident, image, analysis, *bundle).claims)
        EXPECT_THAT(claim.text(), Not(HasSubstr("free")));
}

} // namespace
} // namespace incident::postmortem::test
