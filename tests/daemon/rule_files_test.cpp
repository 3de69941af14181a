#include "daemon/service/rule_files.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace incident::daemon {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class RuleFiles : public testing::Test {
protected:
    RuleFiles() {
        std::string name = (fs::temp_directory_path() / "rule_files.XXXXXX").string();
        root = ::mkdtemp(name.data());
        fs::create_directories(root / "vendor");
        fs::create_directories(root / "admin");
    }
    ~RuleFiles() override { fs::remove_all(root); }

    void write(const std::string &file, const std::string &rule) {
        std::ofstream(root / file) << "[[rule]]\nname = \"" << rule << "\"\non = \"signal\"\n";
    }
    std::vector<std::string> names() {
        const auto loaded = load_rules({(root / "vendor").string(), (root / "admin").string()}, true);
        std::vector<std::string> all;
        if (!loaded) {
            ADD_FAILURE() << loaded.error().what;
            return all;
        }
        for (const auto &rule : loaded->parsed.rules)
            all.push_back(rule.name);
        return all;
    }

    fs::path root;
};

TEST_F(RuleFiles, BothDirectoriesInOrderOfFileNames) {
    write("vendor/b.toml", "from-b");
    write("admin/a.toml", "from-a");
    write("vendor/c.txt", "not-a-rule-file");
    EXPECT_THAT(names(), ElementsAre("from-a", "from-b"));
}

TEST_F(RuleFiles, TheLaterDirectoryOverridesTheSameName) {
    write("vendor/crash.toml", "vendor");
    write("admin/crash.toml", "admin");
    EXPECT_THAT(names(), ElementsAre("admin"));
}

TEST_F(RuleFiles, ALinkToDevNullMasks) {
    write("vendor/crash.toml", "vendor");
    fs::create_symlink("/dev/null", root / "admin/crash.toml");
    const auto loaded = load_rules({(root / "vendor").string(), (root / "admin").string()}, true);
    ASSERT_TRUE(loaded);
    EXPECT_TRUE(loaded->parsed.rules.empty());
    EXPECT_THAT(loaded->masked, ElementsAre("crash.toml"));
}

TEST_F(RuleFiles, ADirectoryAskedForByNameMustExist) {
    const auto loaded = load_rules({(root / "none").string()}, true);
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error().what, HasSubstr("none: No such file or directory"));
    EXPECT_TRUE(load_rules({(root / "none").string()}, false));
}

TEST_F(RuleFiles, AMissingConfigurationMeansTheDefaultsUnlessItWasAskedFor) {
    const auto file = (root / "incidentd.toml").string();
    const auto defaults = load_config(file, false);
    ASSERT_TRUE(defaults);
    EXPECT_EQ(defaults->config.record.threads, rules::Config{}.record.threads);
    EXPECT_FALSE(load_config(file, true));
}

} // namespace
} // namespace incident::daemon
