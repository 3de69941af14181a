// For each sentence that a verdict can say: evidence for which it is said, and at least two changes of one fact. After
// each change the sentence must not be said.
#pragma once

#include "verdict_lab.h"

#include <vector>

namespace incident::postmortem::test {

struct NearMiss {
    const char *what; // about the changed fact
    void (*change)(LabEvidence &);
};

inline std::vector<NearMiss> and_also(std::vector<NearMiss> near_misses, std::vector<NearMiss> others) {
    near_misses.insert(near_misses.end(), others.begin(), others.end());
    return near_misses;
}

struct SentenceCase {
    Sentence sentence;
    void (*evidence)(LabEvidence &);
    std::vector<NearMiss> near_misses;
};

std::vector<SentenceCase> access_cases(); // SIGSEGV and SIGBUS: an address that could not be used
std::vector<SentenceCase> jump_cases();   // … nor run, and stacks that are used up
std::vector<SentenceCase> trap_cases();   // SIGFPE, SIGILL, SIGSYS
std::vector<SentenceCase> abort_cases();
std::vector<SentenceCase> killed_cases(); // signals that were sent, the OOM killer, a fault before the signal
std::vector<SentenceCase> heap_cases();   // the recorded heap
std::vector<SentenceCase> waiting_cases();

} // namespace incident::postmortem::test
