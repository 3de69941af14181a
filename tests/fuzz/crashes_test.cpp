// Every input that once broke something, and the corpus, without a fuzzer.
#include "tests/fuzz/target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace incident::fuzz {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

class Fuzzed : public testing::TestWithParam<std::string> {
protected:
    // Runs the target on each file of a directory; returns how many there are.
    static std::size_t run_all(const std::string &directory) {
        const auto target = std::ranges::find(targets(), std::string_view(GetParam()), &Target::name);
        std::size_t files = 0;
        const fs::path of_target = fs::path(FUZZ_DATA) / directory / GetParam();
        if (target == targets().end() || !fs::exists(of_target))
            return 0;
        for (const auto &file : fs::directory_iterator(of_target)) {
            SCOPED_TRACE(file.path());
            run(*target, read(file.path()));
            ++files;
        }
        return files;
    }
};

TEST_P(Fuzzed, InputsThatOnceBrokeItAreHarmless) {
    run_all("crashes");
}

TEST_P(Fuzzed, TheCorpusIsRead) {
    EXPECT_GT(run_all("corpus"), 0u);
}

TEST_P(Fuzzed, SoIsNothing) {
    const auto target = std::ranges::find(targets(), std::string_view(GetParam()), &Target::name);
    ASSERT_NE(target, targets().end());
    run(*target, "");
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzzed,
                         testing::Values("bundle", "control", "core_notes", "events", "go_table", "journal", "perf_map",
                                         "proc", "rules", "tracepoint", "unwind", "words"),
                         [](const auto &name) { return name.param; });

} // namespace
} // namespace incident::fuzz
