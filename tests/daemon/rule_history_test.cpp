// What bits of a generation meant, by chance: whatever is loaded, reordered, changed and taken away, a bit never comes
// to stand for a rule it was not.
#include "daemon/plan/rule_history.h"

#include "rules/files/parse.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fmt/format.h>
#include <random>
#include <set>

namespace incident::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<rules::Rule> parsed(const std::string &text) {
    auto result = rules::parse_rules({{"test.toml", text}}, {});
    for (const auto &diagnostic : result.diagnostics)
        ADD_FAILURE() << diagnostic.text();
    return std::move(result.rules);
}

rules::Rule exits(const std::string &name, const std::string &more = "") {
    return parsed(fmt::format("[[rule]]\nname = \"{}\"\non = \"exit\"\n{}\n", name, more)).front();
}

std::uint64_t bit_of(const TriggerPlan &plan, const std::string &rule) {
    for (const auto &assigned : plan.assigned)
        if (assigned.rule == rule)
            return 1ull << assigned.bit;
    return 0;
}

TriggerPlan begun(RuleHistory &history, const std::vector<rules::Rule> &rules) {
    TriggerPlan plan = plan_triggers(rules, true);
    history.begin(plan, rules);
    return plan;
}

TEST(RuleHistory, ABitIsOfItsGeneration) {
    RuleHistory history;
    const auto a = exits("a"), b = exits("b"), c = exits("c");
    const auto first = begun(history, {a, b});
    const auto second = begun(history, {c, b});
    EXPECT_EQ(first.generation, 1u);
    EXPECT_EQ(second.generation, 2u);
    ASSERT_EQ(bit_of(first, "a"), bit_of(second, "c")) << "one place, two rules";
    EXPECT_THAT(history.still(1, bit_of(first, "a")), IsEmpty());
    EXPECT_THAT(history.still(2, bit_of(second, "c")), ElementsAre("c"));
    EXPECT_THAT(history.still(1, ~0ull), ElementsAre("b"));
    EXPECT_EQ(history.was(1, 0)->rule->name, "a");
    EXPECT_EQ(history.was(2, 0)->rule->name, "c");
    EXPECT_FALSE(history.was(3, 0));
    EXPECT_THAT(history.still(0, ~0ull), IsEmpty());
}

TEST(RuleHistory, AChangedRuleIsAnotherOneAndSoIsOneThatComesBack) {
    RuleHistory history;
    const auto a = exits("a"), changed = exits("a", "match = { comm = \"x\" }"), b = exits("b");
    const auto first = begun(history, {a, b});
    const std::uint32_t id = first.settings[0].id;
    EXPECT_EQ(begun(history, {b, a}).settings[1].id, id) << "another place only";
    const auto third = begun(history, {changed, b});
    EXPECT_NE(third.settings[0].id, id);
    EXPECT_FALSE(history.unchanged(1, "a"));
    EXPECT_FALSE(history.condition(id));
    EXPECT_TRUE(history.unchanged(1, "b"));
    begun(history, {b});
    const auto last = begun(history, {changed, b});
    EXPECT_NE(last.settings[0].id, third.settings[0].id);
    EXPECT_FALSE(history.unchanged(3, "a")) << "it was not there in between";
}

TEST(RuleHistory, ATracepointsRecordIsOfItsLayout) {
    RuleHistory history;
    auto rule = exits("a");
    rule.conditions[0].what = rules::TracepointCondition{};
    std::string format = "one";
    const auto begin = [&] {
        TriggerPlan plan = plan_triggers({&rule, 1}, false);
        history.begin(plan, {&rule, 1}, [&](const TriggerPlan::Tracepoint &) { return format; });
        return plan.tracepoints.front().id;
    };
    const auto id = begin();
    EXPECT_EQ(begin(), id);
    format = "two"; // the module was replaced
    EXPECT_NE(begin(), id);
    EXPECT_FALSE(history.condition(id));
}

std::uint64_t number_of(const char *variable, std::uint64_t otherwise) {
    const char *text = std::getenv(variable);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Rules, generations, and events that are read some generations late.
TEST(RuleHistory, NoBitEverStandsForAnotherRule) {
    const std::uint64_t seed = number_of("INCIDENTD_PROPERTY_SEED", std::random_device{}()),
                        rounds = number_of("INCIDENTD_PROPERTY_ROUNDS", 2000);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    const auto chance = [&](std::size_t of) { return std::uniform_int_distribution<std::size_t>(0, of - 1)(random); };
    // 80 names with 3 texts each, more than there are bits
    std::vector<std::vector<rules::Rule>> all(80);
    for (std::size_t i = 0; i < all.size(); ++i)
        for (const char *more : {"", "match = { comm = \"x\" }", "match = { comm = \"y\" }"})
            all[i].push_back(exits(fmt::format("r{}", i), more));

    RuleHistory history;
    struct Then {
        std::vector<TriggerPlan::Assigned> assigned;
        std::map<std::string, std::string> texts; // by name
        unsigned bit(const std::string &name) const {
            const auto found = std::ranges::find(assigned, name, &TriggerPlan::Assigned::rule);
            return found == assigned.end() ? RULE_BITS : found->bit;
        }
    };
    std::map<std::uint64_t, Then> generations; // the last of them
    constexpr std::size_t latest = 300;
    std::map<std::uint32_t, std::string> ids; // whose each ever was
    std::vector<rules::Rule> rules;
    for (std::uint64_t round = 1; round <= rounds; ++round) {
        std::erase_if(rules, [&](const rules::Rule &) { return chance(4) == 0; });
        for (std::size_t more = chance(chance(8) ? 6 : 80); more > 0; --more) {
            const auto &made = all[chance(all.size())][chance(3)];
            std::erase_if(rules, [&](const rules::Rule &rule) { return rule.name == made.name; });
            rules.push_back(made);
        }
        std::ranges::shuffle(rules, random);
        const TriggerPlan plan = begun(history, rules);
        Then then{plan.assigned, {}};
        ASSERT_EQ(plan.generation, round);
        for (const auto &rule : rules)
            then.texts[rule.name] = rule.text;
        const Then &now = generations.emplace(round, std::move(then)).first->second;
        if (round > latest)
            generations.erase(round - latest);
        for (const auto &assigned : now.assigned) {
            const auto id = history.id_of(assigned.rule, 0);
            const auto [known, fresh] = ids.emplace(id, now.texts.at(assigned.rule));
            ASSERT_EQ(known->second, now.texts.at(assigned.rule)) << "an id is never another's";
            if (assigned.bit != RULE_BITS - 1) {
                ASSERT_EQ(plan.settings[assigned.bit].id, id);
            }
            ASSERT_EQ(plan.settings[assigned.bit].generation, round);
        }
        // an event of some generations ago, with bits by chance
        const std::size_t late = std::min<std::size_t>(chance(latest), round - 1);
        const auto number = static_cast<std::uint32_t>(round - late);
        const Then &made = generations.at(number);
        const std::uint64_t bits = random() & random();
        std::set<std::string> expected;
        for (const auto &assigned : made.assigned) {
            bool same = bits >> assigned.bit & 1;
            for (std::size_t since = number; same && since <= round; ++since) {
                const auto &texts = generations.at(since).texts;
                const auto found = texts.find(assigned.rule);
                same = found != texts.end() && found->second == made.texts.at(assigned.rule);
            }
            if (same)
                expected.insert(assigned.rule);
        }
        const auto still = history.still(number, bits);
        if (late >= RuleHistory::generations_kept)
            ASSERT_THAT(still, IsEmpty());
        else
            ASSERT_EQ(std::set(still.begin(), still.end()), expected) << "of " << late << " generations ago";
        const unsigned bit = static_cast<unsigned>(chance(RULE_BITS - 1));
        if (const auto was = history.was(number, bit)) {
            ASSERT_EQ(made.bit(was->rule->name), bit);
        }
    }
}

} // namespace
} // namespace incident::daemon
