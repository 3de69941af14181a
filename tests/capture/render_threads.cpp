#include "render_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace incident::capture {
namespace {

using test::call;
using test::Made;
using test::second;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char *maps = "00400000-00500000 r-xp 00001000 08:01 77 /usr/bin/app\n"
                             "7f0000000000-7f0000010000 r-xp 00002000 08:01 88 /usr/lib/libx.so\n"
                             "7ffd00000000-7ffd00100000 rw-p 00000000 00:00 0 [stack]\n";

void put(ThreadSnapshot &thread, std::uint64_t address, std::uint64_t word) {
    for (StackPiece &piece : thread.stack)
        if (address >= piece.address && address + sizeof word <= piece.address + piece.bytes.size())
            std::memcpy(piece.bytes.data() + (address - piece.address), &word, sizeof word);
}

TEST(RenderThreads, RegistersAndPlace) {
    Made made;
    made.collected.files["process/maps"] = maps;
    RenderContext context = made.context();
    context.build_id_of = [](const std::string &path, std::uint64_t inode) {
        return path == "/usr/bin/app" && inode == 77 ? "aabbccdd" : "";
    };
    const auto thread = threads_of(context, made.redactor())[0];
    EXPECT_EQ(thread["crashed"], true);
    EXPECT_EQ(thread["registers"]["rip"], "0x401234");
    EXPECT_EQ(thread["registers"]["rsp"], "0x7ffd00001000");
    const auto &stack = thread["stack"];
    EXPECT_EQ(stack["how"], "instruction pointer only");
    EXPECT_EQ(stack["truncated"], true);
    ASSERT_EQ(stack["frames"].size(), 1u);
    EXPECT_EQ(
        stack["frames"][0].dump(),
        R"({"ip":"0x401234","module":"/usr/bin/app","build_id":"aabbccdd","offset":"0x2234","symbol":null,"file":null,"line":null,"inline":false})");
}

// __USER32_CS: a thread in 32-bit code.
TEST(RenderThreads, A32BitThreadHasItsOwnRegistersAndWords) {
    Made made;
    made.collected.files["process/maps"] = "00400000-00500000 r-xp 00001000 08:01 77 /usr/bin/app\n";
    ThreadSnapshot &thread = made.thread(0);
    bpf::user_registers &regs = thread.event->regs;
    regs.cs = 0x23;
    regs.ax = 0xffffffffffffffda; // as the kernel keeps -ENOSYS
    regs.r8 = 7;
    regs.gs_base = 0xf7d00000;
    regs.sp = 0xffffd000;
    regs.bp = 0xffffd004;
    thread.stack = {{0xffffd000, std::vector<std::uint8_t>(64)}};
    const std::uint32_t words[] = {0, 0,
                                   0x402000}; // at bp the caller's, which is the outermost, and the return address
    std::memcpy(thread.stack.front().bytes.data(), words, sizeof words);
    made.input.process.event.auxv[0] = 0xf7fc4550'00000020; // AT_SYSINFO, in words of 32 bits
    thread.event->window[10] = {.address = 0x1000, .length = 8, .status = bpf::WINDOW_READ, .which = 10};
    thread.event->window[9] = {.address = 0x2000, .length = 8, .status = bpf::WINDOW_READ, .which = 9};
    const auto json = made.threads()[0];
    EXPECT_EQ(json["registers"]["eip"], "0x401234");
    EXPECT_EQ(json["registers"]["esp"], "0xffffd000");
    EXPECT_EQ(json["registers"]["eax"], "0xffffffda");
    EXPECT_EQ(json["registers"]["gs_base"], "0xf7d00000");
    EXPECT_FALSE(json["registers"].contains("rip"));
    EXPECT_FALSE(json["registers"].contains("r8"));
    ASSERT_EQ(json["stack"]["frames"].size(), 2u);
    EXPECT_EQ(json["stack"]["frames"][1]["ip"], "0x402000");
    const std::string index = memory_of(made.context(), made.redactor()).index;
    EXPECT_THAT(index, HasSubstr("window eax"));
    EXPECT_THAT(index, testing::Not(HasSubstr("r8")));
    made.thread(1).event->regs.cs = 0x23;
    EXPECT_EQ(made.incident()["process"]["isa"], "i386");
    EXPECT_EQ(made.incident()["quality"]["complete"], true);
    EXPECT_THAT(made.summary(), HasSubstr("eip 0x401234"));
}

TEST(RenderThreads, CodeThatNobodyUnwindsIsSaid) {
    Made made;
    const auto reasons = [&] { return made.incident()["quality"]["incomplete_because"].dump(); };
    made.thread(0).event->regs.cs = 0x33;
    made.thread(1).event->regs.cs = 0x33;
    made.input.process.event.auxv[0] = 33; // AT_SYSINFO_EHDR
    made.input.process.event.auxv[1] = 0x7ffff7fc1000;
    EXPECT_EQ(made.incident()["process"]["isa"], "x86-64");
    EXPECT_EQ(reasons(), "[]");
    made.thread(1).event->regs.cs = 0x23;
    EXPECT_THAT(reasons(), HasSubstr("threads of the x86-64 program were in 32-bit code"));
    made.input.process.event.auxv[0] = 0xf7fc4550'00000020;
    EXPECT_EQ(made.incident()["process"]["isa"], "i386");
    EXPECT_THAT(reasons(), HasSubstr("threads of the i386 program were in 64-bit code"));
    made.thread(1).event->regs.cs = 0x33;
    EXPECT_EQ(made.incident()["process"]["isa"], "x32");
    EXPECT_THAT(reasons(), HasSubstr("the x32 ABI"));
}

// Where a thread sent no page, what its event says of their places is another's, who came before it.
TEST(RenderThreads, OfAStackThatWasNotSentNoAddressIsSaid) {
    Made made;
    made.thread(0).event->stack_address = 0x7ffdeadbe000;
    made.thread(0).stack.clear();
    const auto stack = made.threads()[0]["stack"];
    EXPECT_EQ(stack["address"], "0x0");
    EXPECT_EQ(stack["bytes"], 0);
    EXPECT_EQ(stack["absent"], 0);
}

TEST(RenderThreads, FramePointersWhilePlausible) {
    Made made;
    made.collected.files["process/maps"] = maps;
    ThreadSnapshot &thread = made.thread(0);
    thread.stack.front().bytes.assign(256, 0);
    thread.event->regs.bp = 0x7ffd00001010;
    put(thread, 0x7ffd00001010, 0x7ffd00001040);
    put(thread, 0x7ffd00001018, 0x7f0000000500);
    put(thread, 0x7ffd00001040, 0x7ffd00001080);
    put(thread, 0x7ffd00001048, 0x400777);
    put(thread, 0x7ffd00001080, 0x7ffd00001040); // back down: not a chain
    put(thread, 0x7ffd00001088, 0x400888);
    const auto stack = made.threads()[0]["stack"];
    EXPECT_EQ(stack["how"], "frame pointers (may be incomplete)");
    ASSERT_EQ(stack["frames"].size(), 4u);
    EXPECT_EQ(stack["frames"][1]["offset"], "0x2500");
    EXPECT_EQ(stack["frames"][3]["ip"], "0x400888");
    EXPECT_EQ(stack["reason"], "the frame pointers do not rise");
}

TEST(RenderThreads, AFramePointerThatIsDataIsNotFollowed) {
    Made made;
    made.collected.files["process/maps"] = maps;
    ThreadSnapshot &thread = made.thread(0);
    for (const std::uint64_t bp : {0x7ffd00001011ull, 0x10ull, ~0ull, 0x7ffd00001040ull - 8, 0x7ffd00001010ull}) {
        thread.event->regs.bp = bp; // the last one: words that are no code
        EXPECT_EQ(made.threads()[0]["stack"]["frames"].size(), 1u) << bp;
    }
}

TEST(RenderThreads, ACallIntoNowhereShowsItsCaller) {
    Made made;
    made.collected.files["process/maps"] = maps;
    ThreadSnapshot &thread = made.thread(0);
    thread.event->regs.ip = 0;
    put(thread, thread.event->regs.sp, 0x400999);
    const auto stack = made.threads()[0]["stack"];
    ASSERT_EQ(stack["frames"].size(), 2u);
    EXPECT_TRUE(stack["frames"][0]["module"].is_null());
    EXPECT_EQ(stack["frames"][1]["module"], "/usr/bin/app");
}

TEST(RenderThreads, WithoutMapsTheKernelsMappingsServe) {
    Made made;
    const auto frame = made.threads()[0]["stack"]["frames"][0];
    EXPECT_EQ(frame["module"], "app");
    EXPECT_EQ(frame["offset"], "0x2234"); // 0x401234 - 0x400000 + one page
}

TEST(RenderThreads, TheCallItIsIn) {
    Made made;
    made.add_call(call(SYS_read, 9 * second, 0, {3, 0x10, 5}, IN_FLIGHT), 0);
    made.add_call(call(SYS_futex, 8 * second, -512, {0x10, 128, 0, 0}, second), 1);
    const auto threads = made.threads();
    EXPECT_EQ(threads[0]["syscall"]["name"], "read");
    EXPECT_EQ(threads[0]["syscall"]["in_flight"], true);
    EXPECT_EQ(threads[0]["syscall"]["elapsed_ns"], second);
    EXPECT_EQ(threads[1]["syscall"]["interrupted"], true);
    EXPECT_EQ(threads[1]["syscall"]["error"], "ERESTARTSYS");
    EXPECT_EQ(threads[1]["syscall"]["duration_ns"], second);
}

TEST(RenderThreads, ACallWhoseEntryWasNotRecordedIsToldByTheRegisters) {
    Made made;
    made.add_call(call(SYS_getpid, 9 * second, 7, {}, NO_DURATION), 0);
    ThreadSnapshot &thread = made.thread(0);
    thread.event->regs.orig_ax = SYS_read;
    thread.event->regs.cs = 0x33;
    thread.event->regs.ax = static_cast<std::uint64_t>(-ENOSYS); // not returned yet
    EXPECT_EQ(made.threads()[0]["syscall"]["name"], "getpid");   // it runs: these are of its last call
    thread.event->state = 1;
    const auto waiting = made.threads()[0]["syscall"];
    EXPECT_EQ(waiting["name"], "read");
    EXPECT_EQ(waiting["in_flight"], true);
    thread.event->regs.ax = 7; // stopped on its way back
    const auto stopped = made.threads()[0]["syscall"];
    EXPECT_EQ(stopped["name"], "getpid");
    EXPECT_EQ(stopped["in_flight"], false);
    EXPECT_TRUE(stopped["duration_ns"].is_null());
}

TEST(RenderThreads, WithoutARingTheRegistersTellTheCall) {
    Made made;
    ThreadSnapshot &thread = made.thread(0);
    thread.rings.reset();
    thread.missing = "no free slot";
    EXPECT_TRUE(made.threads()[0]["syscall"].is_null()); // orig_rax is -1: a fault
    thread.event->regs.orig_ax = SYS_read;
    thread.event->regs.di = 5;
    thread.event->regs.cs = 0x33;
    const auto json = made.threads()[0];
    EXPECT_EQ(json["syscall"]["name"], "read");
    EXPECT_EQ(json["syscall"]["fd"], 5);
    EXPECT_EQ(json["syscall"]["from"], "registers");
    EXPECT_EQ(json["missing"], "no free slot");
    EXPECT_TRUE(json["accounting"].is_null());
}

TEST(RenderThreads, KernelStack) {
    Made made;
    made.thread(0).event->kernel_frames = 2;
    made.thread(0).event->kernel_stack[0] = 0xffffffff81000010;
    RenderContext context = made.context();
    context.kernel_symbol = [](std::uint64_t ip) { return ip ? "do_exit+0x10" : ""; };
    const auto frames = threads_of(context, made.redactor())[0]["kernel_stack"];
    ASSERT_EQ(frames.size(), 2u);
    EXPECT_EQ(frames[0]["symbol"], "do_exit+0x10");
    EXPECT_TRUE(frames[1]["symbol"].is_null());
}

TEST(RenderMemory, StacksAndWindows) {
    Made made;
    bpf::memory_window &window = made.thread(0).event->window[10];
    window.status = bpf::WINDOW_READ;
    window.which = 10;
    window.address = 0x5000;
    window.length = 65535; // hostile
    made.thread(0).event->window[11].status = bpf::WINDOW_ABSENT;
    made.thread(1).stack.clear();
    const MemoryImage image = memory_of(made.context(), made.redactor());
    const auto index = nlohmann::json::parse(image.index);
    ASSERT_EQ(index.size(), 2u);
    EXPECT_EQ(index[0]["what"], "stack");
    EXPECT_EQ(index[0]["length"], 64);
    EXPECT_EQ(index[1]["what"], "window rax");
    EXPECT_EQ(index[1]["length"], WINDOW_LEN);
    EXPECT_EQ(index[1]["offset"], 64);
    EXPECT_EQ(image.bytes.size(), 64u + WINDOW_LEN);
}

} // namespace
} // namespace incident::capture
