// What most likely happened, and what that rests on.  A claim is made only where the facts
// under it leave no other reading; where there are none, nothing is said.
#pragma once

#include "postmortem/heap/findings.h"
#include "postmortem/image/crash_image.h"
#include "postmortem/read/incident.h"
#include "postmortem/unwind/analysis.h"
#include "postmortem/verdict/sentences.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace incident::postmortem {

class Claim {
public:
    template <Sentence said, typename... Args> static Claim of(const Args &...args) {
        Claim claim;
        claim.add<said>(args...);
        return claim;
    }
    // A clause that says more.
    template <Sentence said, typename... Args> void add(const Args &...args) {
        constexpr fmt::format_string<const Args &...> words(words_of(said));
        text_ += fmt::format(words, args...);
        said_.push_back(said);
    }

    const std::string &text() const { return text_; }           // one sentence, without a full stop
    const std::vector<Sentence> &said() const { return said_; } // what it is made of, in order
    std::vector<std::string> facts;                             // what it rests on, each on its own readable

private:
    std::string text_;
    std::vector<Sentence> said_;
};

// The first is the verdict; others say more of the same incident.  Empty: nothing can be said.
// Texts may hold bytes of the process: to be escaped where they are shown.
struct Verdict {
    std::vector<Claim> claims;
};

// bundle: for process/limits and host/kernel_log.  heap: null where none was recorded.
Verdict judge(const Incident &incident, const CrashImage &image, const Analysis &analysis,
              const capture::Bundle &bundle, const HeapFindings *heap = nullptr);

// {"sentence", "claims": [{"claim", "facts": []}]}; null where nothing can be said.
Json to_json(const Verdict &verdict);

} // namespace incident::postmortem
