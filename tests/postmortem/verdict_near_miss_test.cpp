// Every sentence must have near-misses: a new one in sentences.h fails here until there is evidence for which it is
// said and two sets of evidence for which it is not. verdict_fault_test.cpp, verdict_signal_test.cpp and
// heap_verdict_test.cpp check the sentences' exact words.
#include "near_miss.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::postmortem::test {
namespace {

using ::testing::Contains;
using ::testing::Not;

std::vector<SentenceCase> all_cases() {
    std::vector<SentenceCase> all;
    for (const auto cases :
         {access_cases, jump_cases, trap_cases, abort_cases, killed_cases, heap_cases, waiting_cases})
        std::ranges::move(cases(), std::back_inserter(all));
    return all;
}

std::vector<Sentence> said_of(LabEvidence &evidence) {
    std::vector<Sentence> said;
    for (const Claim &claim : evidence.verdict().claims)
        std::ranges::copy(claim.said(), std::back_inserter(said));
    return said;
}

class EverySentence : public testing::TestWithParam<SentenceWords> {};

TEST_P(EverySentence, IsSaidOfItsFactsAndNotOfThoseCloseToThem) {
    const Sentence sentence = GetParam().sentence;
    const auto all = all_cases();
    const auto found = std::ranges::find(all, sentence, &SentenceCase::sentence);
    ASSERT_NE(found, all.end()) << "no facts that get \"" << GetParam().format << "\"";
    EXPECT_EQ(std::ranges::count(all, sentence, &SentenceCase::sentence), 1);
    EXPECT_GE(found->near_misses.size(), 2u);
    LabEvidence evidence;
    found->evidence(evidence);
    EXPECT_THAT(said_of(evidence), Contains(sentence)) << evidence.said();
    for (const NearMiss &near_miss : found->near_misses) {
        LabEvidence near;
        found->evidence(near);
        near_miss.change(near);
        EXPECT_THAT(said_of(near), Not(Contains(sentence))) << near_miss.what << ": " << near.said();
    }
}

std::string name_of(const testing::TestParamInfo<SentenceWords> &info) {
    std::string name = fmt::format("{:02}", info.index);
    for (const char c : info.param.format)
        if (std::isalnum(static_cast<unsigned char>(c)))
            name += c;
    return name;
}

INSTANTIATE_TEST_SUITE_P(Verdict, EverySentence, testing::ValuesIn(sentences), name_of);

} // namespace
} // namespace incident::postmortem::test
