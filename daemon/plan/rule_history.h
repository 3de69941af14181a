// What the bits of the generations of rules meant, and whether that still holds.
//
// The kernel side knows conditions by bits, which are places in a plan: after a reload a bit may be another rule's.  An
// event says which generation its bits are of; here stands what they were then, and whether the rule is now what it
// was. Pure: rules in, answers out.
#pragma once

#include "daemon/plan/trigger_plan.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace incident::daemon {

class RuleHistory {
public:
    // An event that is older is of no rule that could be named.  Events wait for milliseconds, reloads are rare.
    static constexpr std::size_t generations_kept = 256;

    // What else a condition rests on than its rule's text: of a tracepoint the layout of its records.
    using FormatOf = std::function<std::string(const TriggerPlan::Tracepoint &)>;

    // A new generation begins: numbers the plan, and gives its conditions their ids.  A rule that was in the generation
    // before, with the same text and conditions, keeps its ids; all other ids are new, for ever.
    void begin(TriggerPlan &plan, std::span<const rules::Rule> rules, const FormatOf &format_of = {});
    std::uint32_t generation() const { return generation_; }

    // The rules whose conditions had one of these bits then, and which have been the same ever since.
    std::vector<std::string> still(std::uint32_t generation, std::uint64_t bits) const;
    // Whether that rule has been the same ever since then.
    bool unchanged(std::uint32_t generation, std::string_view rule) const;

    struct Condition {
        std::shared_ptr<const rules::Rule> rule;
        std::size_t condition = 0; // index in the rule
    };
    // The condition of now with that id.
    std::optional<Condition> condition(std::uint32_t id) const;
    std::uint32_t id_of(std::string_view rule, std::size_t condition) const; // of now; 0: none
    // Those with one of these bits then, of rules that have been the same ever since.
    std::vector<Condition> conditions(std::uint32_t generation, std::uint64_t bits) const;
    // Whose bit that was then, whether or not it still is.
    std::optional<Condition> was(std::uint32_t generation, unsigned bit) const;

private:
    struct Known {
        std::uint32_t first_id = 0; // of its first condition
        std::shared_ptr<const rules::Rule> rule;
        std::string formats;
    };
    struct Generation {
        std::uint32_t number = 0;
        std::map<std::string, Known, std::less<>> rules;
        std::vector<TriggerPlan::Assigned> assigned;
    };
    const Generation *find(std::uint32_t number) const;
    const Generation *now() const { return kept_.empty() ? nullptr : &kept_.back(); }

    std::deque<Generation> kept_; // oldest first
    std::uint32_t generation_ = 0, next_id_ = 1;
};

} // namespace incident::daemon
