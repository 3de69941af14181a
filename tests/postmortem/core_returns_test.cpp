// Return addresses that probes have replaced, in a full core: in incidentctl's copy, and in gdb on a core as it is.
#include "gdb_bundle.h"
#include "postmortem/core/core_returns.h"
#include "postmortem/image/core_file.h"

#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace incident::postmortem::test {

using testing::HasSubstr;
using testing::Not;

namespace {

constexpr std::uint64_t stack = 0x7ffd00001000, trampoline = 0x7fffffffe000;

std::string word_bytes(std::uint64_t word) {
    return {reinterpret_cast<const char *>(&word), sizeof word};
}

Json probe(const Json &address, const Json &at = "0x7fffffffe000", const Json &back = "0x401234") {
    return {{"address", address}, {"trampoline", at}, {"return_address", back}};
}

std::vector<ReplacedReturn> said_of(const Json &probes) {
    const Json threads = Json::array({{{"stack", {{"return_probes", probes}}}}});
    return replaced_returns(threads);
}

} // namespace

class CoreReturns : public testing::Test {
protected:
    Result<std::size_t> put(const std::string &core, const std::vector<ReplacedReturn> &returns) {
        write_file(path, core);
        const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
        auto done = put_returns_right(fd.get(), returns);
        now = read_file(path);
        return done;
    }
    State state;
    std::string path = (state.dir() / "core").string(), now;
};

TEST_F(CoreReturns, AreWrittenWhereTheTrampolineStands) {
    const std::string bytes =
        word_bytes(1) + word_bytes(trampoline) + word_bytes(trampoline) + word_bytes(0x401234) + word_bytes(trampoline);
    const std::string core = write_core_file("", {{0x1000, 4, "code"}, {stack, 6, bytes}});
    const auto done = put(core, {{stack + 8, trampoline, 0x402222}, {stack + 24, trampoline, 5}});
    ASSERT_TRUE(done);
    EXPECT_EQ(*done, 1u);
    std::string expected = core;
    expected.replace(core.find(bytes) + 8, 8, word_bytes(0x402222));
    EXPECT_EQ(now, expected) << "one that is not of the record, and a frame that has been left, stay";
}

TEST_F(CoreReturns, OutsideOfTheMemoryAreNothing) {
    const std::string core = write_core_file("", {{stack, 6, word_bytes(trampoline) + "abc"}});
    std::vector<ReplacedReturn> returns;
    for (const std::uint64_t at : {std::uint64_t{0}, stack - 8, stack + 8, stack + 16, ~std::uint64_t{7}})
        returns.push_back({at, trampoline, 5});
    const auto done = put(core, returns);
    ASSERT_TRUE(done);
    EXPECT_EQ(*done, 0u);
    EXPECT_EQ(now, core);
}

TEST_F(CoreReturns, OfWhatIsNoCoreAreAnError) {
    const std::vector<ReplacedReturn> one{{stack, trampoline, 5}};
    const std::string core = write_core_file("", {{stack, 6, word_bytes(trampoline)}});
    for (const std::string &bad : {std::string(), std::string("\x7f"), std::string("ELF, says it"), core.substr(0, 70)})
        EXPECT_FALSE(put(bad, one));
    EXPECT_TRUE(put("", {})) << "nothing is to be done";
    std::string wild = core;
    const std::uint64_t far = INT64_MAX;
    std::memcpy(wild.data() + sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + offsetof(Elf64_Phdr, p_offset), &far, 8);
    const auto done = put(wild, one);
    ASSERT_TRUE(done);
    EXPECT_EQ(*done, 0u) << "a segment beyond the file";
}

TEST(ReplacedReturns, AreThoseThatCanBeTrue) {
    const auto good = said_of({probe("0x7ffd00001008"), probe("0x7ffd00001010", "0x7fffffffe000", "0x0")});
    ASSERT_EQ(good.size(), 2u);
    EXPECT_EQ(good[0].address, stack + 8);
    EXPECT_EQ(good[0].trampoline, trampoline);
    EXPECT_EQ(good[0].return_address, 0x401234u);
    EXPECT_EQ(good[1].return_address, 0u);
    for (const Json &bad :
         {probe("0x7ffd00001009"), probe(nullptr), probe("stack"), probe(-8), probe("0x7ffd00001008", "0x7fffffffe001"),
          probe("0x7ffd00001008", 0), probe("0x7ffd00001008", "0x7fffffffe000", Json::array()), Json("text"), Json(),
          probe("0x17ffd000010080000000")})
        EXPECT_TRUE(said_of(Json::array({bad})).empty()) << bad;
    EXPECT_TRUE(said_of("many").empty());
    EXPECT_TRUE(said_of(Json::object({{"address", "0x8"}})).empty());
    EXPECT_TRUE(replaced_returns(Json("no threads")).empty());
}

// A core as the kernel writes it, in which gdb has to find the way itself.
TEST(GdbReturns, GdbGoesOnFromTheTrampoline) {
    State state;
    std::string why;
    auto bundle = GdbBundle::make(state, why);
    if (!bundle)
        GTEST_SKIP() << why;
    const Json registers = bundle->threads.at(0)["registers"];
    const std::uint64_t at = JsonView(registers)["rbp"].count() + 8; // use() has a frame pointer
    const std::string known = bundle->ask({"bt", "x/gx $rbp+8"})["x/gx $rbp+8"];
    const std::uint64_t back = std::strtoull(known.substr(known.rfind("0x")).c_str(), nullptr, 16);
    {
        const UniqueFd core(open(bundle->core.c_str(), O_RDWR | O_CLOEXEC));
        const auto poisoned = put_returns_right(core.get(), {{at, back, trampoline}});
        ASSERT_TRUE(poisoned);
        ASSERT_EQ(*poisoned, 1u) << known;
    }
    bundle->incident["core"] = {{"join", "exact"}, {"file", bundle->core}, {"truncated", false}};
    bundle->write("incident.json", bundle->incident.dump());
    EXPECT_THAT(bundle->open({"bt"}), HasSubstr("0x00007fffffffe000 in ?? ()"));

    const auto hex = [](std::uint64_t value) { return fmt::format("{:#x}", value); };
    Json &probes = bundle->threads.at(0)["stack"]["return_probes"];
    probes = {probe("stack"),
              probe(hex(at + 1)),
              probe(nullptr),
              "text",
              probe(hex(~std::uint64_t{7})),
              probe(hex(at), "0x7fffffffe000", "0x" + std::string(100, 'f'))};
    bundle->write("threads.json", bundle->threads.dump());
    const std::string bad = bundle->open({"bt"});
    EXPECT_THAT(bad, HasSubstr("0x00007fffffffe000 in ?? ()"));
    EXPECT_THAT(bad, Not(HasSubstr("Error")));

    probes.push_back(probe(hex(at), "0x7fffffffe000", hex(back)));
    bundle->write("threads.json", bundle->threads.dump());
    const std::string said = bundle->open({"bt", "up", "up", "info locals"});
    EXPECT_THAT(said, HasSubstr("#0  use ("));
    EXPECT_THAT(said, HasSubstr("in main ()"));
    EXPECT_THAT(said.substr(0, said.find("in main ()")), Not(HasSubstr("7fffffffe000")));
    EXPECT_THAT(said, HasSubstr("bad = {value = 7, next = 0x0}")) << "the caller has its registers";
}

} // namespace incident::postmortem::test
