// Whose lines of the journal count, by the fields alone and in a journal's file, and what is said of those left out.
#include "capture/journal/last_words.h"
#include "tests/capture/journal_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>

namespace incident::capture {
namespace {

using test::MadeFields;
using test::MadeJournal;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t ns_in_second = 1'000'000'000, us_in_second = 1'000'000;

Speaker shop() {
    return {.boot_id = test::made_boot,
            .unit = "shop.service",
            .cgroup = "/system.slice/shop.service",
            .pid = 42,
            .started = {100 * ns_in_second}};
}

std::optional<WordSource> source(const std::map<std::string, std::string> &fields, const Speaker &speaker,
                                 std::uint64_t at_ns = 150 * ns_in_second) {
    return source_of(
        [&](const char *name, std::size_t most) {
            if (const auto found = fields.find(name); found != fields.end())
                return std::optional(found->second.substr(0, most));
            return std::string_view(name) == "_BOOT_ID" ? std::optional<std::string>(test::made_boot) : std::nullopt;
        },
        {at_ns}, speaker);
}

TEST(WordSource, IsWhatJournaldAttests) {
    EXPECT_EQ(source({{"_PID", "42"}}, shop()), WordSource::Process);
    EXPECT_EQ(source({{"_PID", "43"}, {"_SYSTEMD_UNIT", "shop.service"}}, shop()), WordSource::Unit);
    EXPECT_EQ(source({{"_PID", "1"}, {"_UID", "0"}, {"UNIT", "shop.service"}}, shop()), WordSource::Manager);
    EXPECT_EQ(source({{"_TRANSPORT", "driver"}, {"OBJECT_SYSTEMD_UNIT", "shop.service"}}, shop()),
              WordSource::Journald);
}

TEST(WordSource, IsWhatTheRuntimeOfAContainerPassesOn) {
    const std::string id(64, 'a'), other(64, 'b');
    const auto speaker = [&](const std::string &cgroup) {
        return speaker_of(test::made_boot, {}, {42, {1}}, unit_of_cgroup(cgroup), cgroup);
    };
    const auto passed_on = [&](const std::string &uid, const std::string &container) {
        return std::map<std::string, std::string>{
            {"_PID", "9"}, {"_UID", uid}, {"_SYSTEMD_UNIT", "docker.service"}, {"CONTAINER_ID_FULL", container}};
    };
    const Speaker roots = speaker("/machine.slice/libpod-" + id + ".scope/container");
    EXPECT_EQ(source(passed_on("0", id), roots), WordSource::Container);
    EXPECT_EQ(source(passed_on("0", other), roots), std::nullopt);
    EXPECT_EQ(source(passed_on("1000", id), roots), std::nullopt) << "anybody can claim it";
    EXPECT_EQ(source({{"_PID", "9"}, {"CONTAINER_ID_FULL", id}}, roots), std::nullopt);

    const Speaker users = speaker("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope");
    EXPECT_EQ(source(passed_on("1000", id), users), WordSource::Container);
    EXPECT_EQ(source(passed_on("0", id), users), std::nullopt) << "root's container of that name is another";
    EXPECT_EQ(source(passed_on("0", ""), speaker("/system.slice/shop.service")), std::nullopt);
    EXPECT_EQ(source(passed_on("0", "web"), speaker("/lxc.payload.web")), std::nullopt) << "a name is no id";
}

TEST(WordSource, IsNotWhatASenderClaims) {
    const std::map<std::string, std::string> stranger{{"_PID", "7"}, {"_UID", "1000"}, {"_TRANSPORT", "journal"}};
    const auto with = [&](std::map<std::string, std::string> fields) {
        fields.insert(stranger.begin(), stranger.end());
        return source(fields, shop());
    };
    EXPECT_EQ(with({}), std::nullopt);
    EXPECT_EQ(with({{"UNIT", "shop.service"}}), std::nullopt) << "not from pid 1";
    EXPECT_EQ(with({{"SYSTEMD_UNIT", "shop.service"}, {"PID", "42"}, {"SYSLOG_PID", "42"}}), std::nullopt);
    EXPECT_EQ(with({{"OBJECT_SYSTEMD_UNIT", "shop.service"}}), std::nullopt) << "not from journald";
    EXPECT_EQ(with({{"COREDUMP_UNIT", "shop.service"}}), std::nullopt);
    EXPECT_EQ(source({{"_PID", "1"}, {"_UID", "1000"}, {"UNIT", "shop.service"}}, shop()), std::nullopt);
    EXPECT_EQ(source({{"_PID", "42"}, {"_BOOT_ID", "another"}}, shop()), std::nullopt);
}

TEST(WordSource, OfAnEarlierProcessOfThatNumberIsNone) {
    EXPECT_EQ(source({{"_PID", "42"}}, shop(), 99 * ns_in_second), std::nullopt);
    EXPECT_EQ(source({{"_PID", "42"}, {"_SYSTEMD_UNIT", "shop.service"}}, shop(), 99 * ns_in_second), WordSource::Unit);
}

TEST(WordSource, OfALaterProcessOfThatNumberIsNone) {
    Speaker speaker = shop();
    speaker.lived = {140 * ns_in_second};
    EXPECT_EQ(source({{"_PID", "42"}, {"_SYSTEMD_UNIT", "other.service"}}, speaker), std::nullopt);
    EXPECT_EQ(source({{"_PID", "42"}, {"_SYSTEMD_CGROUP", "/lab"}}, speaker), std::nullopt);
    EXPECT_EQ(source({{"_PID", "42"}, {"_SYSTEMD_UNIT", "shop.service"}}, speaker), WordSource::Process);
    EXPECT_EQ(source({{"_PID", "42"}, {"_SYSTEMD_CGROUP", speaker.cgroup}}, speaker), WordSource::Process);
    EXPECT_EQ(source({{"_PID", "42"}}, speaker), WordSource::Process) << "it had ended before journald looked";
    EXPECT_EQ(source({{"_PID", "42"}, {"_SYSTEMD_UNIT", "other.service"}}, speaker, 140 * ns_in_second),
              WordSource::Process)
        << "it was in another before";
}

TEST(WordSource, OfAUsersUnitIsByTheUserToo) {
    Speaker speaker = shop();
    speaker.pid = 0;
    speaker.user = 1000;
    EXPECT_EQ(source({{"_UID", "1000"}, {"_SYSTEMD_USER_UNIT", "shop.service"}}, speaker), WordSource::Unit);
    EXPECT_EQ(source({{"_UID", "1001"}, {"_SYSTEMD_USER_UNIT", "shop.service"}}, speaker), std::nullopt);
    EXPECT_EQ(source({{"_UID", "1000"}, {"_SYSTEMD_UNIT", "shop.service"}}, speaker), std::nullopt)
        << "the system's unit of that name";
    const std::map<std::string, std::string> manager{
        {"_UID", "1000"}, {"_SYSTEMD_UNIT", "user@1000.service"}, {"USER_UNIT", "shop.service"}};
    EXPECT_EQ(source(manager, speaker), std::nullopt) << "any process of the user's can say so";
    auto proven = manager;
    proven["_SYSTEMD_USER_UNIT"] = "init.scope";
    EXPECT_EQ(source(proven, speaker), WordSource::Manager);
}

TEST(WordSource, WithoutAUnitIsByTheCgroup) {
    Speaker speaker = shop();
    speaker.unit = "";
    speaker.pid = 0;
    speaker.cgroup = "/lab";
    EXPECT_EQ(source({{"_SYSTEMD_CGROUP", "/lab"}}, speaker), WordSource::Unit);
    EXPECT_EQ(source({{"_SYSTEMD_CGROUP", "/lab/inner"}}, speaker), std::nullopt);
    speaker.cgroup = "/"; // everybody's
    EXPECT_EQ(source({{"_SYSTEMD_CGROUP", "/"}}, speaker), std::nullopt);
}

TEST(Speaker, IsMadeOfWhatIsKnownOfTheProcess) {
    Clocks clocks;
    clocks.monotonic = {1000 * ns_in_second};
    clocks.boottime = {1500 * ns_in_second};
    const Speaker system =
        speaker_of("b", clocks, {42, {1400 * ns_in_second}}, "shop.service", "/system.slice/shop.service");
    EXPECT_EQ(system.user, std::nullopt);
    EXPECT_EQ(system.pid, 42u);
    EXPECT_EQ(system.started.ns / ns_in_second, 899u) << "a hundred seconds ago, and a little before";
    const std::string below = "/user.slice/user-1000.slice/user@1000.service";
    EXPECT_EQ(speaker_of("b", clocks, {}, "x.service", below + "/app.slice/x.service").user, 1000u);
    EXPECT_EQ(speaker_of("b", clocks, {}, "user@1000.service", below).user, std::nullopt);
    const std::string own_unit = "/system.slice/own.service"; // below which she makes groups as she likes
    EXPECT_EQ(speaker_of("b", clocks, {}, "own.service", own_unit + "/user@0.service/x.service").user, std::nullopt);
    EXPECT_EQ(speaker_of("b", clocks, {}, "own.service", own_unit + "/user.slice/user@0.service/x.service").user,
              std::nullopt);
    EXPECT_EQ(speaker_of("b", clocks, {}, "x.service", own_unit + "/user@0.service/x.service").user, std::nullopt)
        << "not what the group says";
    EXPECT_EQ(speaker_of("b", clocks, {}, "x.service", below + "/user@0.service/x.service").user, std::nullopt);
    EXPECT_EQ(speaker_of("b", clocks, {}, "user@0.service", below + "/user@0.service/x.service").user, 1000u)
        << "a unit of hers of that name";
    EXPECT_EQ(speaker_of("b", clocks, {42, {}}, "", "").pid, 0u) << "a number alone is nobody";
    clocks.changes.push_back(
        {.at = {950 * ns_in_second}, .at_boot = {1450 * ns_in_second}, .slept_ns = 60 * ns_in_second});
    EXPECT_EQ(speaker_of("b", clocks, {42, {1400 * ns_in_second}}, "", "").started.ns / ns_in_second, 959u);
}

TEST(Word, HasTheTimeWhenItWasSent) {
    const std::map<std::string, std::string> fields{
        {"_PID", "42"}, {"_SOURCE_REALTIME_TIMESTAMP", "5000000"}, {"PRIORITY", "3"}, {"SYSLOG_IDENTIFIER", "app"}};
    const auto field = [&](const char *name, std::size_t) {
        const auto found = fields.find(name);
        return std::string_view(name) == "_BOOT_ID" ? std::optional<std::string>(test::made_boot)
               : found == fields.end()              ? std::nullopt
                                                    : std::optional(found->second);
    };
    const auto word = word_of(field, {200 * ns_in_second}, {7 * ns_in_second}, shop());
    ASSERT_TRUE(word);
    EXPECT_EQ(word->at.ns, 198 * ns_in_second);
    EXPECT_EQ(word->shown.ns, 5 * ns_in_second);
    EXPECT_EQ(word->priority, 3);
    EXPECT_EQ(word->identifier, "app");
    // the clock was set meanwhile: the difference means nothing
    EXPECT_EQ(word_of(field, {200 * ns_in_second}, {700 * ns_in_second}, shop())->at.ns, 200 * ns_in_second);
    EXPECT_EQ(word_of(field, {200 * ns_in_second}, {4 * ns_in_second}, shop())->at.ns, 200 * ns_in_second);
}

class LastWordsOfAJournal : public testing::Test {
protected:
    void SetUp() override {
        if (!MadeJournal::possible())
            GTEST_SKIP() << "no systemd-journal-remote, which makes the journal";
    }

    // The text, of the unit unless `fields` say otherwise.
    void say(std::uint64_t at_us, const std::string &text, MadeFields fields = {{"_SYSTEMD_UNIT", "shop.service"}}) {
        fields.emplace_back("MESSAGE", text);
        journal.add(at_us, fields);
    }

    LastWords search(WordLimits limits = {}, std::function<bool()> expired = {}) {
        journal.write();
        auto opened = Journal::open(journal.directory());
        EXPECT_TRUE(opened) << opened.error().what;
        return find_last_words(*opened, shop(), {200 * ns_in_second}, {202 * ns_in_second}, limits, std::move(expired));
    }

    static std::vector<std::string> texts(const LastWords &words) {
        std::vector<std::string> all;
        for (const Word &word : words.words)
            all.push_back(word.message);
        return all;
    }

    MadeJournal journal;
};

TEST_F(LastWordsOfAJournal, AreThoseUpToTheInstantAndShortlyAfter) {
    say(90 * us_in_second, "earlier life");
    say(199 * us_in_second, "before");
    say(199'500'000, "of the process", {{"_PID", "42"}});
    say(199'600'000, "of another unit", {{"_SYSTEMD_UNIT", "other.service"}, {"_PID", "7"}});
    say(200 * us_in_second, "at once");
    say(201 * us_in_second, "exited", {{"_PID", "1"}, {"_UID", "0"}, {"UNIT", "shop.service"}});
    say(203 * us_in_second, "too late");
    const LastWords found = search();
    EXPECT_EQ(found.state, LastWords::State::Read);
    EXPECT_THAT(texts(found), ElementsAre("earlier life", "before", "of the process", "at once", "exited"));
    EXPECT_EQ(found.count_before(), 4u);
    EXPECT_FALSE(found.more_before);
    EXPECT_EQ(found.losses(), "") << "the journal begins before the process did";
    EXPECT_EQ(found.words[4].source, WordSource::Manager);
    EXPECT_EQ(found.words[1].shown.ns, (test::made_epoch_us + 199 * us_in_second) * 1000);
}

TEST_F(LastWordsOfAJournal, OfStrangersAreNone) {
    say(1, "begin", {{"_PID", "1"}});
    say(199 * us_in_second, "forged", {{"UNIT", "shop.service"}, {"_PID", "7"}, {"_UID", "1000"}, {"PID", "42"}});
    say(199 * us_in_second, "forged", {{"OBJECT_SYSTEMD_UNIT", "shop.service"}, {"_TRANSPORT", "journal"}});
    say(50 * us_in_second, "of an earlier 42", {{"_PID", "42"}});
    journal.add(199 * us_in_second, {{"MESSAGE", "another boot"}, {"_SYSTEMD_UNIT", "shop.service"}},
                "ffffffffffffffffffffffffffffffff");
    const LastWords found = search();
    EXPECT_EQ(found.state, LastWords::State::Read);
    EXPECT_THAT(texts(found), IsEmpty());
}

TEST_F(LastWordsOfAJournal, AfterTheInstantAreNotOfAnotherProcessOfThatNumber) {
    say(199 * us_in_second, "its own", {{"_PID", "42"}});
    say(201 * us_in_second, "another's", {{"_PID", "42"}, {"_SYSTEMD_UNIT", "other.service"}});
    EXPECT_THAT(texts(search()), ElementsAre("its own"));
}

TEST_F(LastWordsOfAJournal, AreTheNewestUpToTheInstantAndTheOldestAfterIt) {
    for (std::uint64_t i = 0; i < 10; ++i)
        say((190 + i) * us_in_second, "b" + std::to_string(i));
    for (std::uint64_t i = 0; i < 10; ++i)
        say(200 * us_in_second + (i + 1) * 100'000, "a" + std::to_string(i));
    const LastWords found = search({.lines = 3});
    EXPECT_THAT(texts(found), ElementsAre("b7", "b8", "b9", "a0", "a1", "a2"));
    EXPECT_TRUE(found.more_before) << "more than were asked for: no loss";
    EXPECT_EQ(found.left_out_before, 0u);
    EXPECT_EQ(found.left_out_after, 7u);
    EXPECT_THAT(found.losses(), HasSubstr("7 later lines left out"));
}

TEST_F(LastWordsOfAJournal, AreWithinALimitOfBytes) {
    say(1, "begin", {{"_PID", "1"}});
    for (std::uint64_t i = 0; i < 10; ++i)
        say((190 + i) * us_in_second, std::string(1000, static_cast<char>('0' + i)));
    const LastWords found = search({.bytes = 3500});
    EXPECT_THAT(found.words, SizeIs(3));
    EXPECT_EQ(found.words[2].message[0], '9') << "the newest stay";
    EXPECT_EQ(found.left_out_before, 7u);
}

TEST_F(LastWordsOfAJournal, MayBeLongOrStrange) {
    say(1, "begin", {{"_PID", "1"}});
    const std::string strange("\x1b[31m\n\0\xff\xc3(", 10);
    say(198 * us_in_second, std::string(100'000, 'x'));
    say(199 * us_in_second, strange);
    journal.add(199'500'000, {{"_SYSTEMD_UNIT", "shop.service"}, {"OTHER", "no message at all"}});
    const LastWords found = search({.line_bytes = 5000});
    ASSERT_THAT(found.words, SizeIs(3));
    EXPECT_EQ(found.words[0].message.size(), 5000u);
    EXPECT_TRUE(found.words[0].cut);
    EXPECT_EQ(found.words[1].message, strange);
    EXPECT_FALSE(found.words[1].cut);
    EXPECT_EQ(found.words[2].message, "");
    EXPECT_EQ(found.unreadable, 0u);
    EXPECT_EQ(found.count_cut(), 1u);
}

// What cannot be compressed comes whole from libsystemd, whatever its threshold is.
std::string incompressible(std::size_t bytes) {
    std::mt19937 random(1);
    std::string text(bytes, '\0');
    for (char &byte : text)
        byte = static_cast<char>(random());
    return text;
}

TEST_F(LastWordsOfAJournal, TakeNoMoreMemoryThanIsReadOfThem) {
    const std::string large = incompressible(8u << 20);
    say(199 * us_in_second, large, {{"_SYSTEMD_UNIT", "shop.service"}, {"SYSLOG_IDENTIFIER", large}});
    const LastWords found = search({.line_bytes = 5000});
    ASSERT_THAT(found.words, SizeIs(1));
    EXPECT_TRUE(found.words[0].cut);
    EXPECT_EQ(found.words[0].message, large.substr(0, 5000));
    EXPECT_LE(found.words[0].message.capacity(), 10'002u);
    EXPECT_LE(found.words[0].identifier.capacity(), 512u);
}

TEST(Word, AsksForNoMoreThanItKeeps) {
    std::map<std::string, std::size_t> asked;
    const auto field = [&](const char *name, std::size_t most) {
        asked[name] = std::max(asked[name], most);
        const std::string value = std::string_view(name) == "_BOOT_ID" ? test::made_boot
                                  : std::string_view(name) == "_PID"   ? "42"
                                                                       : std::string(100'000, 'x');
        return std::optional(value.substr(0, most));
    };
    const auto word = word_of(field, {200 * ns_in_second}, {7 * ns_in_second}, shop(), 5000);
    ASSERT_TRUE(word);
    EXPECT_TRUE(word->cut);
    EXPECT_EQ(word->message.size(), 5000u);
    for (const auto &[name, most] : asked)
        EXPECT_LE(most, name == "MESSAGE" ? 5001u : 256u) << name;
}

TEST_F(LastWordsOfAJournal, EndAtTheDeadlineOrAtSoManyEntries) {
    for (std::uint64_t i = 0; i < 100; ++i)
        say((50 + i) * us_in_second, "line");
    int asked = 0;
    const LastWords late = search({}, [&] { return ++asked == 3; });
    EXPECT_TRUE(late.deadline_passed);
    EXPECT_THAT(late.words, SizeIs(32)) << "what was read by then is kept";
    EXPECT_THAT(late.losses(), HasSubstr("the deadline passed"));
    const LastWords many = search({.entries = 10});
    EXPECT_THAT(many.words, SizeIs(10));
    EXPECT_THAT(many.losses(), HasSubstr("too many entries"));
}

TEST_F(LastWordsOfAJournal, SayWhatJournaldDidNotTakeAndWhatIsRotatedAway) {
    say(150 * us_in_second, "Suppressed 30 messages from shop.service",
        {{"_TRANSPORT", "driver"}, {"OBJECT_SYSTEMD_UNIT", "shop.service"}, {"N_DROPPED", "30"}});
    const LastWords found = search();
    ASSERT_THAT(found.words, SizeIs(1));
    EXPECT_EQ(found.words[0].source, WordSource::Journald);
    EXPECT_EQ(found.suppressed, 30u);
    EXPECT_EQ(found.journal_begins.ns, 150 * ns_in_second);
    EXPECT_TRUE(found.rotated);
    EXPECT_THAT(found.losses(), HasSubstr("30 lines of the unit not taken by journald"));
    EXPECT_THAT(found.losses(), HasSubstr("begins only after the process's start"));
}

TEST_F(LastWordsOfAJournal, OfAJournalThatIsBrokenAreSaidToBeSo) {
    for (std::uint64_t i = 0; i < 300; ++i)
        say((150 * us_in_second) + i, "line " + std::to_string(i));
    journal.write();
    auto opened = Journal::open(journal.directory());
    ASSERT_TRUE(opened);
    // the disk loses the end of the file while it is mapped
    std::filesystem::resize_file(journal.directory() + "/made1.journal", 8192);
    const LastWords found = find_last_words(*opened, shop(), {200 * ns_in_second}, {202 * ns_in_second}, {});
    EXPECT_EQ(found.state, LastWords::State::Failed);
    EXPECT_NE(found.losses(), "");
}

TEST(LastWords, NeedADirectoryThatIsThere) {
    EXPECT_FALSE(Journal::open("/nonexistent"));
}

} // namespace
} // namespace incident::capture
