#include "postmortem/verdict/verdict.h"

#include "postmortem/verdict/evidence.h"

namespace incident::postmortem {

Verdict judge(const Incident &incident, const CrashImage &image, const Analysis &analysis,
              const capture::Bundle &bundle, const HeapFindings *heap) {
    const Evidence evidence{incident, image, analysis, bundle, heap};
    Verdict verdict;
    const auto add = [&](std::optional<Claim> claim) {
        if (claim)
            verdict.claims.push_back(std::move(*claim));
        return claim.has_value();
    };
    add(judge_oom(evidence));
    const bool raised_again = add(judge_first_fault(evidence));
    for (const auto judge_one : {judge_heap, judge_fault, judge_trap})
        add(judge_one(evidence));
    if (!add(judge_panic(evidence)))
        add(judge_abort(evidence));
    add(judge_heap_check(evidence));
    if (!raised_again) // which says who sent it
        add(judge_killed(evidence));
    add(judge_waiting(evidence));
    return verdict;
}

Json to_json(const Verdict &verdict) {
    if (verdict.claims.empty())
        return {};
    Json claims = Json::array();
    for (const Claim &claim : verdict.claims) {
        claims.push_back({{"claim", claim.text()}, {"facts", claim.facts}});
        if (claim.panic_frames != 0)
            claims.back()["panic"] = {{"of", claim.panic_of}, {"frames", claim.panic_frames}};
    }
    return {{"sentence", verdict.claims.front().text()}, {"claims", claims}};
}

} // namespace incident::postmortem
