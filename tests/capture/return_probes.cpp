#include "capture/collect/return_probes.h"

#include "render_fixture.h"

#include <gmock/gmock.h>

#include <cstddef>
#include <cstring>

namespace incident::capture {
namespace {

using test::Made;

constexpr std::uint64_t trampoline = 0x7fffffffe000, stack = 0x7ffd00001000;

class ReturnsOf : public ::testing::Test {
protected:
    ReturnsOf() { made.input.process.threads.resize(1); }

    ThreadSnapshot &thread() { return made.thread(0); }
    void put(std::uint64_t address, std::uint64_t word) {
        std::memcpy(thread().stack.front().bytes.data() + (address - stack), &word, sizeof word);
    }
    std::uint64_t word(std::uint64_t address) {
        std::uint64_t word;
        std::memcpy(&word, thread().stack.front().bytes.data() + (address - stack), sizeof word);
        return word;
    }
    void pending(std::vector<PendingReturn> returns) { thread().returns = {trampoline, std::move(returns), false}; }
    void put_back() { put_return_addresses_back(made.input.process); }

    Made made;
};

TEST_F(ReturnsOf, ProbedFunctionsStandOnTheStackAgain) {
    put(stack + 8, trampoline);
    put(stack + 48, trampoline);
    pending({{stack + 8, 0x401111}, {stack + 48, 0x402222}});
    put_back();
    EXPECT_EQ(word(stack + 8), 0x401111u);
    EXPECT_EQ(word(stack + 48), 0x402222u);
    const std::vector<StackPiece> before = thread().stack;
    put_back();
    EXPECT_EQ(thread().stack, before);
}

TEST_F(ReturnsOf, Of32BitThreadsTheyAre32BitsWide) {
    thread().event->regs.cs = 0x23;
    const std::uint32_t words[] = {0xffffe000, 0x1234, 0xffffe000, 0x5678};
    std::memcpy(thread().stack.front().bytes.data(), words, sizeof words);
    thread().returns = {0xffffe000, {{stack, 0x8041111}, {stack + 8, 0x8042222}}, false};
    put_back();
    EXPECT_EQ(word(stack), 0x1234'08041111u);
    EXPECT_EQ(word(stack + 8), 0x5678'08042222u);
}

TEST_F(ReturnsOf, FramesThatLongjmpLeftAreNothing) {
    put(stack + 8, 0x1234); // written over since
    put(stack + 16, trampoline);
    pending({{stack + 8, 0x401111}, {stack + 16, 0x402222}, {stack + 16, 0x403333}});
    put_back();
    EXPECT_EQ(word(stack + 8), 0x1234u);
    EXPECT_EQ(word(stack + 16), 0x402222u) << "of one place the innermost";
}

TEST_F(ReturnsOf, PlacesOutsideOfWhatWasCopiedAreNothing) {
    const std::vector<StackPiece> before = thread().stack;
    for (const std::uint64_t place : {std::uint64_t{0}, std::uint64_t{7}, stack - 8, stack - 7, stack + 57, stack + 64,
                                      ~std::uint64_t{0}, ~std::uint64_t{0} - 7})
        pending({{place, 0x401111}}), put_back();
    EXPECT_EQ(thread().stack, before);
    const auto bytes = before.front().bytes;
    for (const std::uint64_t address : {~std::uint64_t{0} - 3 /* where no stack can be */, std::uint64_t{0}}) {
        thread().stack.front().address = address;
        put_back();
        EXPECT_EQ(thread().stack.front().bytes, bytes);
    }
    thread().event.reset();
    put_back();
}

TEST_F(ReturnsOf, CopiesThatBeginOrEndWithinTheWordArePutRightToo) {
    pending({{stack + 8, 0x1122334455667788}});
    auto window = [&](std::size_t i, std::uint64_t address, std::size_t from, std::size_t count, std::size_t at) {
        bpf::memory_window &made_window = thread().event->window[i];
        made_window.address = address;
        made_window.length = WINDOW_LEN;
        made_window.status = bpf::WINDOW_READ;
        std::memcpy(made_window.bytes + at, reinterpret_cast<const char *>(&trampoline) + from, count);
        return made_window.bytes + at;
    };
    const std::uint8_t *rest = window(0, stack + 11, 3, 5, 0), *beginning = window(1, stack + 8 - 254, 0, 2, 254);
    put_back();
    const std::uint64_t whole = 0x1122334455667788;
    EXPECT_EQ(std::memcmp(rest, reinterpret_cast<const char *>(&whole) + 3, 5), 0);
    EXPECT_EQ(std::memcmp(beginning, &whole, 2), 0);
}

TEST_F(ReturnsOf, MemoryTheStackPointsAtIsPutRightAndSoIsAnotherThreadsView) {
    pending({{stack + 128, 0x401111}});
    bpf::memory_window &pointed = made.input.process.pointers.emplace_back();
    pointed.address = stack;
    pointed.length = WINDOW_LEN;
    pointed.status = bpf::WINDOW_PARTIAL;
    std::memcpy(pointed.bytes + 128, &trampoline, sizeof trampoline);
    ThreadSnapshot &other = made.add_thread(102, "other");
    other.event->window[3] = pointed;
    put_back();
    for (const std::uint8_t *bytes : {made.input.process.pointers[0].bytes, other.event->window[3].bytes})
        EXPECT_EQ(std::memcmp(bytes + 128, "\x11\x11\x40\0\0\0\0\0", 8), 0);
}

TEST_F(ReturnsOf, TheBundleSaysWhatStoodThere) {
    EXPECT_FALSE(made.threads()[0]["stack"].contains("return_probes"));
    pending({{stack + 8, 0x401111}});
    const auto said = made.threads()[0]["stack"];
    EXPECT_EQ(said["return_probes"].dump(),
              R"([{"address":"0x7ffd00001008","trampoline":"0x7fffffffe000","return_address":"0x401111"}])");
    EXPECT_EQ(said["return_probes_cut"], false);
}

TEST_F(ReturnsOf, TheSignatureIsThatOfTheStackWithoutThem) {
    thread().event->regs.ip = 0x7f0000000000; // a library's
    put(stack + 8, 0x401234);
    const std::string without = incident_signature(made.input);
    put(stack + 8, trampoline);
    pending({{stack + 8, 0x401234}});
    EXPECT_NE(incident_signature(made.input), without);
    put_back();
    EXPECT_EQ(incident_signature(made.input), without);
}

// As the ring buffer has it.
std::span<const std::uint8_t> bytes_of(const bpf::returns_event &event, std::size_t size = sizeof(bpf::returns_event)) {
    return {reinterpret_cast<const std::uint8_t *>(&event), size};
}

TEST(ReturnsEvent, IsReadAsFarAsItGoes) {
    bpf::returns_event event{};
    event.trampoline = trampoline;
    event.count = 3;
    event.pending[0] = {stack, 0x401111};
    event.pending[1] = {stack, 0x401111}; // two rules about one function
    event.pending[2] = {stack + 64, 0x402222};
    const ReturnProbes probes = return_probes_of(bytes_of(event));
    EXPECT_EQ(probes.trampoline, trampoline);
    ASSERT_EQ(probes.pending.size(), 2u);
    EXPECT_EQ(probes.pending[1].place, stack + 64);
    EXPECT_FALSE(probes.cut);
    const std::size_t second = offsetof(bpf::returns_event, pending) + sizeof(bpf::pending_return);
    EXPECT_EQ(return_probes_of(bytes_of(event, second + 15)).pending.size(), 1u);
    EXPECT_TRUE(return_probes_of(bytes_of(event, 10)).pending.empty());
    EXPECT_TRUE(return_probes_of({}).pending.empty());
}

TEST(ReturnsEvent, SaysThatItWasCut) {
    bpf::returns_event event{};
    event.cut = 1;
    EXPECT_TRUE(return_probes_of(bytes_of(event)).cut);
    event.cut = 0;
    event.count = ~0u; // of a kernel side that is not ours
    for (std::size_t i = 0; i < PENDING_RETURNS; ++i)
        event.pending[i].place = stack + 8 * i;
    const ReturnProbes probes = return_probes_of(bytes_of(event));
    EXPECT_TRUE(probes.cut);
    EXPECT_EQ(probes.pending.size(), static_cast<std::size_t>(PENDING_RETURNS));
}

} // namespace
} // namespace incident::capture
