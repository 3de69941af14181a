// Remembers what the bits of each generation of rules meant, and whether that still holds.
//
// The kernel side knows conditions by bits, which are places in a plan.  After a reload a bit may belong to another
// rule. An event says to which generation its bits belong; the history tells which conditions these were, and whether
// their rules are still the same.  It does no I/O.
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
    // How many generations are remembered.  Older events cannot be matched with a rule; but events wait for
    // milliseconds only, and reloads are rare.
    static constexpr std::size_t generations_kept = 256;

    // What a condition rests on besides the text of its rule: for a tracepoint, the layout of its records.
    using FormatOf = std::function<std::string(const TriggerPlan::Tracepoint &)>;

    // Begins a new generation: numbers the plan and gives ids to its conditions.  A rule that was in the generation
    // before, with the same text and conditions, keeps its ids.  All other ids are new and were never used before.
    void begin(TriggerPlan &plan, std::span<const rules::Rule> rules, const FormatOf &format_of = {});
    std::uint32_t generation() const { return generation_; }

    // The rules whose conditions had one of these bits in that generation and which have not changed since.
    std::vector<std::string> still(std::uint32_t generation, std::uint64_t bits) const;
    // Whether this rule has not changed since that generation.
    bool unchanged(std::uint32_t generation, std::string_view rule) const;

    struct Condition {
        std::shared_ptr<const rules::Rule> rule;
        std::size_t condition = 0; // index in the rule
    };
    // The present condition with this id.
    std::optional<Condition> condition(std::uint32_t id) const;
    std::uint32_t id_of(std::string_view rule, std::size_t condition) const; // of the present generation; 0: none
    // The conditions that had one of these bits in that generation and whose rules have not changed since.
    std::vector<Condition> conditions(std::uint32_t generation, std::uint64_t bits) const;
    // The condition that had this bit in that generation, even if its rule has changed since.
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
