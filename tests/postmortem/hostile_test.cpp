// Bundles as an attacker would make them: no verb may crash, hang, throw, or hand a terminal
// anything to act upon.
#include "postmortem/image/crash_image.h"
#include "state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace incident::postmortem::test {

using testing::HasSubstr;

namespace {

const std::vector<std::vector<std::string>> readers{{"list"},
                                                    {"info"},
                                                    {"timeline"},
                                                    {"threads", "--registers"},
                                                    {"verify"},
                                                    {"core", "--wait", "0s"},
                                                    {"gdb", "--wait", "0s"},
                                                    {"wait", "--pid", "666", "--timeout", "0s"}};

bool harmless(const std::string &text) {
    return std::ranges::all_of(text, [](unsigned char c) { return c == '\n' || (c >= 0x20 && c != 0x7f); }) &&
           text.find("\xc2\x9b") == std::string::npos && text.find("\u202e") == std::string::npos;
}

void all_verbs_survive(const State &state) {
    for (std::vector<std::string> arguments : readers) {
        for (const bool json : {false, true}) {
            if (json)
                arguments.push_back("--json");
            const Ran ran = state.run(arguments);
            EXPECT_TRUE(ran.code >= 0 && ran.code <= 2) << arguments[0];
            EXPECT_TRUE(harmless(ran.out)) << arguments[0] << "\n" << ran.out;
            EXPECT_TRUE(harmless(ran.err)) << arguments[0] << "\n" << ran.err;
            EXPECT_THAT(ran.err, testing::Not(HasSubstr("json.exception"))) << arguments[0];
        }
    }
}

} // namespace

TEST(Hostile, EscapeSequencesEverywhere) {
    State state;
    state.add_sample("hostile");
    all_verbs_survive(state);
    EXPECT_THAT(state.run({"info"}).out, HasSubstr("\\x1b]0;pwned\\x07"));
    EXPECT_EQ(state.run({"info"}).code, 0);
}

TEST(Hostile, LinesOfATimelineThatAreNoneAreCountedAndTheOthersShown) {
    const std::string deep = std::string(5000, '[') + std::string(5000, ']');
    State state;
    state.add_sample("crash", {{"timeline.jsonl", R"({"kind":"exit","name":"one"})"
                                                  "\n{\"name\":\"\xff\"}\n{\"name\":\"" +
                                                      std::string(1, '\0') + "\"}\n" + deep + "\n{\"a\":" + deep +
                                                      "}\n{\"ret\":1e999}\n[]\n{\"name\"\n\n" +
                                                      R"({"kind":"exit","name":"two\u202e","args":[[[{}]]]})"
                                                      "\n"}});
    all_verbs_survive(state);
    for (const bool json : {false, true}) {
        const Ran ran =
            state.run(json ? std::vector<std::string>{"--json", "timeline"} : std::vector<std::string>{"timeline"});
        EXPECT_EQ(ran.code, 1);
        EXPECT_EQ(std::ranges::count(ran.out, '\n'), 2) << ran.out;
        EXPECT_THAT(ran.out, testing::AllOf(HasSubstr("one"), HasSubstr("two")));
        EXPECT_THAT(ran.err, HasSubstr("7 lines are not JSON objects"));
    }
}

TEST(Hostile, WrongTypesEverywhere) {
    State state;
    state.add_sample("wrong-types");
    all_verbs_survive(state);
    EXPECT_EQ(state.run({"list"}).code, 0);
    EXPECT_EQ(state.run({"info"}).code, 0);
    EXPECT_EQ(state.run({"threads"}).code, 0);
}

struct Broken {
    std::string text;
    std::string message;
};

class BrokenIncident : public testing::TestWithParam<Broken> {};

TEST_P(BrokenIncident, NamesTheBundleAndTheFile) {
    State state;
    const std::string name = state.add_sample("crash", {{"incident.json", GetParam().text}});
    all_verbs_survive(state);
    const Ran ran = state.run({"info"});
    EXPECT_EQ(ran.code, 1);
    EXPECT_EQ(ran.err, "incidentctl: corrupt bundle " + name + ": incident.json: " + GetParam().message + "\n");
    EXPECT_THAT(state.run({"list"}).out, HasSubstr("corrupt bundle " + name)) << GetParam().text.substr(0, 40);
}

INSTANTIATE_TEST_SUITE_P(Hostile, BrokenIncident,
                         testing::Values(Broken{"", "empty file"},
                                         Broken{"{\"rule\":", "not JSON from line 1, column 9 on"},
                                         Broken{"[1,2]", "not a JSON object"}, Broken{"null", "not a JSON object"},
                                         Broken{std::string(1 << 20, '['), "JSON nested deeper than 64 levels"}));

TEST(Hostile, DeepButClosedDocument) {
    const std::string deep = R"({"summary": )" + std::string(500000, '[') + std::string(500000, ']') + "}";
    State state;
    state.add_sample("crash", {{"incident.json", deep}, {"threads.json", deep}, {"timeline.jsonl", deep + "\n"}});
    all_verbs_survive(state);
}

TEST(Hostile, TruncatedTimelineShowsTheRestAndFails) {
    State state;
    const std::string name = state.add_sample(
        "crash",
        {{"timeline.jsonl", "{\"t_ns\":1,\"kind\":\"syscall\",\"name\":\"ok\",\"args\":[]}\n{\"t_ns\":2,\"na"}});
    const Ran ran = state.run({"timeline"});
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.out, HasSubstr("ok()"));
    EXPECT_EQ(ran.err, "incidentctl: corrupt bundle " + name + ": timeline.jsonl: 1 lines are not JSON objects\n");
}

TEST(Hostile, FilesMissing) {
    for (const auto *file : {"incident.json", "threads.json", "timeline.jsonl", "MANIFEST"}) {
        State state;
        const std::string name = state.add_sample("crash");
        std::filesystem::remove(state.bundle(name) / file);
        all_verbs_survive(state);
        EXPECT_EQ(state.run({"verify"}).code, 1) << file;
    }
    State state;
    const std::string name = state.add_sample("crash");
    std::filesystem::remove(state.bundle(name) / "threads.json");
    const Ran ran = state.run({"threads"});
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.err, HasSubstr("corrupt bundle " + name));
    EXPECT_THAT(ran.err, HasSubstr("threads.json"));
}

TEST(Hostile, LinksAndFifosAreNotFollowed) {
    State state;
    const std::string name = state.add_sample("crash");
    write_file(state.dir() / "secret", R"({"summary": "secret"})");
    for (const auto *file : {"incident.json", "threads.json", "timeline.jsonl"}) {
        std::filesystem::remove(state.bundle(name) / file);
        std::filesystem::create_symlink(state.dir() / "secret", state.bundle(name) / file);
    }
    all_verbs_survive(state);
    EXPECT_EQ(state.run({"info"}).code, 1);
    EXPECT_THAT(state.run({"info"}).out, testing::Not(HasSubstr("secret")));
}

// A few bytes that stand for terabytes, and lists that are searched again for each entry of another.
TEST(Hostile, ABundleStandsForNoMoreMemoryThanItHas) {
    Json pieces = Json::array(), modules = Json::array();
    const std::string bytes(1 << 20, 'm');
    for (std::uint64_t i = 0; i < 2000; ++i)
        pieces.push_back({{"address", 0x10000000 + 2 * i * bytes.size()}, {"offset", 0}, {"length", bytes.size()}});
    std::string maps;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
        maps += fmt::format("{:x}-{:x} r-xp 00000000 08:01 {} /lib/{}\n", i << 16, (i << 16) + 4096, i + 1, i);
        modules.push_back(
            {{"path", fmt::format("/lib/{}", i)}, {"inode", i + 1}, {"build_id", fmt::format("{:04x}", i)}});
    }
    State state;
    const std::string name = state.add_sample("crash", {{"memory.json", pieces.dump()},
                                                        {"memory.bin", bytes},
                                                        {"modules.json", modules.dump()},
                                                        {"process/maps", maps}});
    const auto incidents = capture::IncidentsDir::open(state.dir(), false);
    ASSERT_TRUE(incidents);
    const auto bundle = incidents->bundle(name);
    ASSERT_TRUE(bundle);
    const auto incident = Incident::read(*bundle);
    ASSERT_TRUE(incident);
    const auto image = read_crash_image(*bundle, *incident);
    ASSERT_TRUE(image);
    std::size_t known = 0;
    for (const auto &[address, piece] : image->memory.pieces())
        known += piece.size();
    EXPECT_LE(known, bytes.size());
    ASSERT_EQ(image->modules.size(), 20'000u);
    EXPECT_EQ(image->modules[4660].build_id, "1234");
}

TEST(Hostile, CoreOfAForgedBundleMustBeACore) {
    State state;
    write_file(state.dir() / "shadow", "root:secret:0:0\n" + std::string(100, 'x'));
    Json incident = sample_incident("crash");
    incident["core"] = {{"join", "exact"}, {"file", (state.dir() / "shadow").string()}};
    state.add_sample("crash", {{"incident.json", incident.dump()}});
    const std::string target = (state.dir() / "out").string();
    const Ran ran = state.run({"core", "-o", target});
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.err, HasSubstr("not usable as a core: no ELF file"));
    EXPECT_FALSE(std::filesystem::exists(target));
}

} // namespace incident::postmortem::test
