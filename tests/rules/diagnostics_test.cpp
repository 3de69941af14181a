// Every tests/data/rules/NAME.toml gives exactly what NAME.expected says: the
// diagnostics as printed, and the names of the rules that were kept.  Files named
// config-* are read as the daemon's configuration.
//
// INCIDENTD_UPDATE_EXPECTED=1 writes the expectations anew; read the difference.

#include "tests/rules/fakes.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace incident::rules {
namespace {

namespace fs = std::filesystem;

std::string texts(const std::vector<Diagnostic> &diagnostics) {
    std::string out;
    for (const Diagnostic &d : diagnostics)
        out += d.text();
    return out;
}

std::string outcome(const fs::path &file) {
    const Source source{file.filename().string(), read(file)};
    if (source.name.starts_with("config-"))
        return texts(parse_config(source).diagnostics);
    const ParsedRules parsed = parse_rules({source}, fake_lookups());
    std::string out = texts(parsed.diagnostics) + "kept:";
    for (const Rule &rule : parsed.rules)
        out += " " + rule.name;
    return out + "\n";
}

std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const auto &entry : fs::directory_iterator(TEST_DATA "/rules"))
        if (entry.path().extension() == ".toml")
            found.push_back(entry.path().stem().string());
    std::sort(found.begin(), found.end());
    return found;
}

class DiagnosticsOfFile : public testing::TestWithParam<std::string> {};

TEST_P(DiagnosticsOfFile, AreAsExpected) {
    const fs::path file = fs::path(TEST_DATA) / "rules" / (GetParam() + ".toml");
    const fs::path expected = fs::path(file).replace_extension(".expected");
    const std::string actual = outcome(file);
    if (std::getenv("INCIDENTD_UPDATE_EXPECTED") != nullptr)
        std::ofstream(expected, std::ios::binary) << actual;
    EXPECT_EQ(actual, read(expected));

    for (const char c : actual)
        EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') << actual;
    if (GetParam().find("good") != std::string::npos) {
        EXPECT_THAT(actual, testing::Not(testing::HasSubstr("error:")));
    }
    int line = 0; // of the diagnostic before
    for (const Diagnostic &d : parse_rules({{file.filename().string(), read(file)}}, fake_lookups()).diagnostics) {
        EXPECT_GE(d.at.line, line);
        line = d.at.line;
    }
}

INSTANTIATE_TEST_SUITE_P(Files, DiagnosticsOfFile, testing::ValuesIn(names()), [](const auto &file) {
    std::string name = file.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

TEST(Diagnostics, ThereAreManyFiles) {
    EXPECT_GE(names().size(), 190u);
}

TEST(Diagnostics, ComeInTheOrderOfTheFiles) {
    const auto parsed = parse_rules(
        {{"b.toml", "[[rule]]\nname = \"x\"\non = \"signal\"\n"}, {"a.toml", "[[rule]]\nname = \"x\"\non = 5\n"}},
        fake_lookups());
    ASSERT_EQ(parsed.rules.size(), 1u);
    EXPECT_EQ(texts(parsed.diagnostics), "a.toml:2:8: error: rule name 'x' is taken\n"
                                         "    2 | name = \"x\"\n"
                                         "      |        ^~~\n"
                                         "      = hint: first used at b.toml:2:8\n"
                                         "a.toml:3:6: error: 'on' must be a string, found an integer\n"
                                         "    3 | on = 5\n"
                                         "      |      ^\n"
                                         "      = hint: write on = \"signal\"\n");
}

TEST(Diagnostics, TooLargeAFileIsRefused) {
    const auto parsed = parse_rules({{"big.toml", std::string(200 * 1024, '#')}}, fake_lookups());
    EXPECT_EQ(texts(parsed.diagnostics), "big.toml: error: the file is larger than 128KiB\n");
    EXPECT_FALSE(parsed.ok());
}

TEST(Diagnostics, AreCutWhenThereAreTooMany) {
    std::string text = "[[rule]]\nname = \"x\"\non = \"signal\"\n";
    for (int i = 0; i < 200; ++i)
        text += "key" + std::to_string(i) + " = 1\n";
    const auto parsed = parse_rules({{"many.toml", text}}, fake_lookups());
    ASSERT_EQ(parsed.diagnostics.size(), 101u);
    EXPECT_EQ(parsed.diagnostics.front().at.line, 4);
    EXPECT_EQ(parsed.diagnostics.back().text(),
              "many.toml: error: too many errors in this file; the rest is not shown\n");
}

TEST(Diagnostics, WarningsDoNotMakeAFileBad) {
    const auto parsed =
        parse_rules({{"w.toml", "[[rule]]\nname = \"x\"\non = \"signal\"\nsignals = [\"SIGSEGV\", \"SIGCHLD\"]\n"}},
                    fake_lookups());
    EXPECT_EQ(parsed.diagnostics.size(), 1u);
    EXPECT_TRUE(parsed.ok());
    EXPECT_EQ(parsed.rules.size(), 1u);
}

TEST(Diagnostics, NoUserLookupMeansNoKnownUser) {
    const auto parsed =
        parse_rules({{"u.toml", "[[rule]]\nname = \"x\"\non = \"signal\"\nmatch = { uid = \"root\" }\n"}}, {});
    EXPECT_FALSE(parsed.ok());
}

} // namespace
} // namespace incident::rules
