// Those that live on: what they wait for, and facts close to it.
#include "near_miss.h"

namespace incident::postmortem::test {

namespace {

using S = Sentence;

void blocked(LabEvidence &f, bool in_flight) {
    f.record["kind"] = "blocked";
    f.record["blocked"] = {{"elapsed_ns", 400'000'000},
                           {"state", "interruptible"},
                           {"syscall", "read"},
                           {"in_flight", in_flight},
                           {"waker", {{"comm", "writer"}, {"pid", 9}, {"tid", 9}}}};
    if (in_flight)
        f.record["blocked"]["waker"] = nullptr;
}

void took(LabEvidence &f, std::uint64_t running, std::uint64_t runnable, std::uint64_t off, std::uint64_t in_read = 0) {
    f.record["kind"] = "latency";
    f.record["latency"] = {{"elapsed_ns", 100'000'000},
                           {"spent", {{"running_ns", running}, {"runnable_ns", runnable}, {"blocked_ns", off}}},
                           {"calls", {{"by_name", {{{"name", "read"}, {"count", 1}, {"ns", in_read}}}}}}};
}

constexpr std::uint64_t ms = 1'000'000;

const std::vector<NearMiss> nothing_has_most = {
    {"no part has half of it", [](LabEvidence &f) { took(f, 40 * ms, 20 * ms, 40 * ms); }},
    {"what it went into was not measured", [](LabEvidence &f) { f.record["latency"]["spent"] = nullptr; }},
    {"more than all of it: clocks that do not agree", [](LabEvidence &f) { took(f, 101 * ms, 101 * ms, 101 * ms); }},
};

} // namespace

std::vector<SentenceCase> waiting_cases() {
    return {
        {S::has_been_blocked,
         [](LabEvidence &f) { blocked(f, true); },
         {{"it is over", [](LabEvidence &f) { f.record["blocked"]["in_flight"] = false; }},
          {"an incident of another kind", [](LabEvidence &f) { f.record["kind"] = "latency"; }}}},
        {S::was_blocked,
         [](LabEvidence &f) { blocked(f, false); },
         {{"it still is", [](LabEvidence &f) { f.record["blocked"]["in_flight"] = true; }},
          {"an incident of another kind", [](LabEvidence &f) { f.record["kind"] = "latency"; }}}},
        {S::woken_by,
         [](LabEvidence &f) { blocked(f, false); },
         {{"in an interrupt, which has nothing to do with whoever ran",
           [](LabEvidence &f) { f.record["blocked"]["waker"]["in_interrupt"] = true; }},
          {"who woke it was not seen", [](LabEvidence &f) { f.record["blocked"]["waker"] = nullptr; }},
          {"it still is blocked", [](LabEvidence &f) { f.record["blocked"]["in_flight"] = true; }}}},
        {S::spent_computing, [](LabEvidence &f) { took(f, 90 * ms, 0, 10 * ms); }, nothing_has_most},
        {S::spent_runnable, [](LabEvidence &f) { took(f, 10 * ms, 90 * ms, 0); }, nothing_has_most},
        {S::spent_blocked, [](LabEvidence &f) { took(f, 10 * ms, 0, 90 * ms); }, nothing_has_most},
        {S::mostly_in_call,
         [](LabEvidence &f) { took(f, 10 * ms, 0, 90 * ms, 95 * ms); },
         {{"it may have computed within the call, and waited outside of it",
           [](LabEvidence &f) { took(f, 50 * ms, 0, 50 * ms, 50 * ms); }},
          {"the call took not half of it", [](LabEvidence &f) { took(f, 10 * ms, 0, 90 * ms, 49 * ms); }},
          {"it computed, and did not wait", [](LabEvidence &f) { took(f, 90 * ms, 0, 10 * ms, 95 * ms); }}}},
    };
}

} // namespace incident::postmortem::test
