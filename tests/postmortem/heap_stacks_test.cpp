// Call stacks of the heap, unwound over the 512 bytes that were kept of each.
#include "postmortem/unwind/analyse.h"
#include "unwind_lab.h"

#include <gmock/gmock.h>

#include <cstring>

namespace incident::postmortem::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const char *calls = R"(
int *volatile nowhere;
__attribute__((noinline)) int leaf(void) { return *nowhere; }
__attribute__((noinline)) int middle(int n) { volatile char room[64]; room[n] = 1; return leaf() + room[n]; }
__attribute__((noinline)) int wide(int n) { volatile char room[2000]; room[n] = 1; return middle(n) + room[n]; }
int main(int argc, char **argv) { (void)argv; return argc > 1 ? wide(argc) : middle(argc); }
)";

// As the recorder would have kept it, had the function that crashed been malloc.
capture::HeapStackRecord record_of(const CrashImage &image, std::uint64_t id) {
    const user_regs_struct &registers = *image.threads.at(0).registers;
    capture::HeapStackRecord record;
    record.id = id;
    record.ip = registers.rip;
    record.sp = registers.rsp;
    record.bp = registers.rbp;
    record.bx = registers.rbx;
    record.r12 = registers.r12;
    record.r13 = registers.r13;
    record.r14 = registers.r14;
    record.r15 = registers.r15;
    char slice[HEAP_SLICE];
    record.length = static_cast<std::uint32_t>(image.memory.read(registers.rsp, slice));
    std::memcpy(record.slice, slice, record.length);
    return record;
}

std::vector<std::string> names(const Analysis &analysis, const CallStack &stack) {
    std::vector<std::string> symbols;
    for (const std::uint32_t frame : stack.frames)
        symbols.push_back(analysis.call_frames.at(frame).symbol);
    return symbols;
}

class HeapStacks : public testing::Test {
protected:
    Analysis analysed(const std::vector<std::string> &arguments, std::size_t copies = 1,
                      std::chrono::milliseconds time = std::chrono::seconds(30)) {
        CrashOptions options;
        options.arguments = arguments;
        crash = lab.crash(lab.compile("calls", calls, "-g -O1"), options);
        records.assign(copies, record_of(crash.image, 1));
        for (std::size_t i = 0; i < copies; ++i)
            records[i].id = i + 1;
        std::vector<const capture::HeapStackRecord *> wanted;
        for (const capture::HeapStackRecord &record : records)
            wanted.push_back(&record);
        AnalyseOptions how;
        how.install_hints = false;
        how.call_stacks_time = time;
        return analyse(crash.image, open_module_files(crash.image), how, nullptr, wanted);
    }
    UnwindLab lab;
    Crash crash;
    std::vector<capture::HeapStackRecord> records;
};

TEST_F(HeapStacks, AreNamedAsTheThreadIs) {
    const Analysis analysis = analysed({});
    ASSERT_EQ(analysis.call_stacks.size(), 1u);
    const auto symbols = names(analysis, analysis.call_stacks[0]);
    ASSERT_GE(symbols.size(), 3u);
    EXPECT_EQ(symbols[0], "leaf");
    EXPECT_EQ(symbols[1], "middle");
    EXPECT_EQ(symbols[2], "main");
    const Frame &caller = analysis.call_frames.at(analysis.call_stacks[0].frames[1]);
    EXPECT_THAT(caller.file, HasSubstr("calls.c"));
    EXPECT_EQ(caller.line, 4u);
}

TEST_F(HeapStacks, EndWhereTheSliceEndsThoughMoreWasCapturedOfTheThread) {
    const Analysis analysis = analysed({"deep"});
    ASSERT_EQ(analysis.call_stacks.size(), 1u);
    const CallStack &stack = analysis.call_stacks[0];
    EXPECT_EQ(names(analysis, stack), (std::vector<std::string>{"leaf", "middle", "wide"}));
    EXPECT_TRUE(stack.truncated);
    EXPECT_EQ(stack.reason, "beyond the captured 512 bytes of stack");
    EXPECT_GT(analysis.threads.at(0).frames.size(), 3u); // the thread's own goes on
}

TEST_F(HeapStacks, AFrameIsAnsweredOnce) {
    const Analysis analysis = analysed({}, 50);
    ASSERT_EQ(analysis.call_stacks.size(), 50u);
    EXPECT_EQ(analysis.call_frames.size(), analysis.call_stacks[0].frames.size());
    EXPECT_EQ(analysis.call_stacks[49].id, 50u);
    EXPECT_EQ(analysis.call_stacks[49].frames, analysis.call_stacks[0].frames);
}

TEST_F(HeapStacks, WithoutTimeTheThreadsAreStillUnwound) {
    const Analysis analysis = analysed({}, 3, std::chrono::milliseconds(0));
    EXPECT_THAT(analysis.call_stacks, IsEmpty());
    EXPECT_GE(analysis.threads.at(0).frames.size(), 3u);
}

TEST_F(HeapStacks, GarbageIsAnswered) {
    analysed({});
    for (capture::HeapStackRecord &record : records) {
        record.length = 0xffffffff;
        record.ip = record.sp = ~0ull - 8;
    }
    const capture::HeapStackRecord *wanted[] = {&records[0]};
    AnalyseOptions how;
    how.install_hints = false;
    const Analysis analysis = analyse(crash.image, open_module_files(crash.image), how, nullptr, wanted);
    ASSERT_EQ(analysis.call_stacks.size(), 1u);
    EXPECT_TRUE(analysis.call_stacks[0].truncated);
    EXPECT_NE(analysis.call_stacks[0].reason, "");
}

} // namespace
} // namespace incident::postmortem::test
