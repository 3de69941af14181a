// The thread that writes, with answers of an analyser that lies.
#include "daemon/write/writer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <poll.h>

#include <cstdlib>
#include <filesystem>
#include <future>

namespace incident::daemon {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

class WriterTest : public testing::Test {
protected:
    WriterTest() {
        std::string name = (fs::temp_directory_path() / "writer.XXXXXX").string();
        root = ::mkdtemp(name.data());
        auto incidents = capture::IncidentsDir::open(root.string(), true);
        EXPECT_TRUE(incidents) << incidents.error().what;
        auto started = Writer::start(std::move(*incidents), {}, {.bundles = 9, .bytes = 1 << 20, .keep_free = 0}, {},
                                     loaded_bpf_code);
        EXPECT_TRUE(started) << started.error().what;
        writer = std::move(*started);
    }
    ~WriterTest() override {
        writer.reset();
        fs::remove_all(root);
    }

    // The analyser has read the dead process's files, and may be theirs by now.
    WriteResult amend(Json document) {
        capture::BundleAnalysis analysis;
        analysis.document = std::move(document);
        writer->submit(AmendJob{"20261121T150405.123Z-crash-python3-1234-9f3c2a", std::move(analysis)});
        pollfd ready{writer->fd(), POLLIN, 0};
        EXPECT_EQ(::poll(&ready, 1, 60'000), 1);
        const auto results = writer->take_results();
        return results.empty() ? WriteResult() : results.front();
    }

    fs::path root;
    std::unique_ptr<Writer> writer;
};

TEST_F(WriterTest, AVerdictOfAnyShapeIsAnAnswer) {
    EXPECT_EQ(amend({{"verdict", {{"sentence", "it is so"}}}}).summary, "it is so");
    for (const Json &verdict : {Json({{"sentence", 1}}), Json({{"sentence", Json::array({"a"})}}), Json("text"), Json(),
                                Json::array({1}), Json::object()}) {
        const WriteResult result = amend({{"verdict", verdict}});
        EXPECT_EQ(result.news, News::Analysis) << verdict;
        EXPECT_EQ(result.summary, "") << verdict;
    }
    EXPECT_EQ(amend(Json::object()).news, News::Analysis);
}

TEST_F(WriterTest, ThePastOfAnIncidentComesIntoItsBundle) {
    const std::string name = "20261121T150405.123Z-crash-python3-1234-9f3c2a";
    auto incidents = capture::IncidentsDir::open(root.string(), false);
    ASSERT_TRUE(incidents);
    auto partial = incidents->begin(name);
    ASSERT_TRUE(partial);
    ASSERT_TRUE(partial->add("incident.json", R"({"last_words": {"state": "pending"}})"));
    ASSERT_TRUE(partial->add("threads.json", "[]"));
    ASSERT_TRUE(partial->add("timeline.jsonl", ""));
    ASSERT_TRUE(partial->commit());
    capture::Past past;
    past.words.state = capture::LastWords::State::Read;
    past.words.instant = {5};
    past.words.words.push_back({.at = {4}, .message = "a secret"});
    writer->submit(AmendJob{name, std::move(past), 0, {"secret"}});
    pollfd ready{writer->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 60'000), 1);
    const auto results = writer->take_results();
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].error, "");
    EXPECT_EQ(results[0].news, News::Past);
    const auto bundle = incidents->bundle(name);
    ASSERT_TRUE(bundle);
    EXPECT_THAT(bundle->read("journal.jsonl").value_or(""), testing::HasSubstr("a [redacted]"));
    EXPECT_THAT(bundle->read("timeline.jsonl").value_or(""), testing::HasSubstr("\"kind\":\"log\""));
    EXPECT_EQ(Json::parse(bundle->read("incident.json").value_or(""))["last_words"]["state"], "read");
    EXPECT_TRUE(bundle->verify().value_or(std::vector<std::string>{"?"}).empty());
}

// A writer whose one job at a time ends when the test says so: rendering it reads from `gate`.
class SharedWriterTest : public WriterTest {
protected:
    static constexpr std::size_t mebibyte = 1 << 20;

    static WriteJob job(const std::string &name, std::uint32_t uid, std::size_t bytes) {
        WriteJob made;
        made.name = name;
        made.incident.rule.emplace();
        made.incident.rule->context.host = false;
        made.incident.facts.uid = uid;
        made.incident.collected.files["process/large"] = std::string(bytes, 'x');
        return made;
    }

    // Keeps the writer's thread busy until go().
    void hold() {
        WriteJob first = job(name(0), 0, 1);
        first.incident.late.push_back([this](capture::IncidentInput &) {
            held.set_value();
            gate.get_future().wait();
        });
        ASSERT_TRUE(writer->submit(std::move(first)));
        held.get_future().wait();
    }
    void go() { gate.set_value(); }

    std::string name(int number) { return fmt::format("20261121T150405.123Z-crash-python3-{}-9f3c2a", 1000 + number); }

    // The names of the results in order, and which of them found no room.
    std::vector<std::string> results(std::size_t count) {
        std::vector<std::string> names;
        while (names.size() < count) {
            pollfd ready{writer->fd(), POLLIN, 0};
            EXPECT_EQ(::poll(&ready, 1, 60'000), 1);
            for (const WriteResult &result : writer->take_results()) {
                names.push_back(result.name);
                if (result.no_room)
                    no_room.push_back(result.name);
            }
        }
        return names;
    }

    std::promise<void> held, gate;
    std::vector<std::string> no_room;
};

TEST_F(SharedWriterTest, UsersTakeTurns) {
    hold();
    for (int i = 1; i <= 5; ++i)
        ASSERT_TRUE(writer->submit(job(name(i), 1000, 1)));
    ASSERT_TRUE(writer->submit(job(name(6), 33, 1)));
    ASSERT_TRUE(writer->submit(job(name(7), 0, 1)));
    go();
    EXPECT_THAT(results(8),
                testing::ElementsAre(name(0), name(1), name(6), name(7), name(2), name(3), name(4), name(5)));
}

TEST_F(SharedWriterTest, WhoHasMostGivesWay) {
    hold();
    int last = 0;
    while (writer->submit(job(name(++last), 1000, 8 * mebibyte)))
        ASSERT_LT(last, 100);
    const int lost = last; // it was refused
    EXPECT_GE(lost, 11) << "all of the room is hers, as long as nobody else needs it";
    EXPECT_TRUE(writer->crowded(1000));
    EXPECT_FALSE(writer->crowded(0)) << "another one's are kept whole";
    ASSERT_TRUE(writer->submit(job(name(++last), 0, 8 * mebibyte)));
    ASSERT_TRUE(writer->submit(job(name(++last), 33, 8 * mebibyte)));
    go();
    const auto names = results(static_cast<std::size_t>(lost) + 2);
    EXPECT_THAT(no_room, testing::ElementsAre(name(lost - 1), name(lost - 2))) << "the newest of the user with most";
    EXPECT_THAT(names, testing::Contains(name(last)));
}

} // namespace
} // namespace incident::daemon
