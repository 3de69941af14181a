// The verdict: what most likely happened, and why. A claim is made only if its facts allow no other explanation;
// without such facts the verdict is empty.
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
    // Adds a clause.
    template <Sentence said, typename... Args> void add(const Args &...args) {
        constexpr fmt::format_string<const Args &...> words(words_of(said));
        text_ += fmt::format(words, args...);
        said_.push_back(said);
    }

    const std::string &text() const { return text_; }           // one sentence, without a full stop
    const std::vector<Sentence> &said() const { return said_; } // its sentence and clauses, in order
    std::vector<std::string> facts;                             // the facts that support it; each can be read by itself

    // How many frames of the thread's stack, from the innermost one on, are those of a runtime that panics.
    std::size_t panic_frames = 0;
    std::string_view panic_of; // "Rust", "Go"

private:
    std::string text_;
    std::vector<Sentence> said_;
};

// The first claim is the verdict; others say more about the same incident. Empty: nothing can be said. Texts may hold
// bytes of the process, so they must be escaped when they are shown.
struct Verdict {
    std::vector<Claim> claims;
};

// `bundle` is needed for process/limits and host/kernel_log. `heap` is null if none was recorded.
Verdict judge(const Incident &incident, const CrashImage &image, const Analysis &analysis,
              const capture::Bundle &bundle, const HeapFindings *heap = nullptr);

// {"sentence", "claims": [{"claim", "facts": [], "panic": {"of", "frames"}}]}; null if nothing can be said.
Json to_json(const Verdict &verdict);

} // namespace incident::postmortem
