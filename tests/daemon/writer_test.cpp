// The thread that writes, with answers of an analyser that lies.
#include "daemon/write/writer.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <poll.h>

#include <cstdlib>
#include <filesystem>

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
        auto started = Writer::start(std::move(*incidents), {}, {.bundles = 9, .bytes = 1 << 20, .keep_free = 0});
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
        EXPECT_TRUE(result.amended) << verdict;
        EXPECT_EQ(result.summary, "") << verdict;
    }
    EXPECT_TRUE(amend(Json::object()).amended);
}

} // namespace
} // namespace incident::daemon
