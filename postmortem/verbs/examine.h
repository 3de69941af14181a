// A bundle explained: its stacks unwound and named, what most likely happened, a mini.core.
// What the daemon has done for most bundles already (incidentctl analyse), and what the
// reader does where it has not, or again with what is installed now.
#pragma once

#include "capture/render/bundle_analysis.h"
#include "postmortem/heap/findings.h"
#include "postmortem/image/mini_core.h"
#include "postmortem/read/incident.h"
#include "postmortem/unwind/analyse.h"
#include "postmortem/verdict/verdict.h"

#include <optional>
#include <string>

namespace incident::postmortem {

struct ExamineOptions {
    bool mini_core = false;  // make one
    bool debuginfod = false; // ask the servers of $DEBUGINFOD_URLS
    bool install_hints = false;
};

struct Examination {
    Analysis analysis;
    Verdict verdict;
    std::string mini_core; // "" not asked for, or it could not be made: notes say why
    Json heap;             // of incident.json, what the analysis adds; null: the bundle has none
    capture::BundleFiles heap_files;
};

// Parses files of this machine, in capped children.  Errors: what of the bundle cannot be read.
Result<Examination> examine(const capture::Bundle &bundle, const Incident &incident, const ExamineOptions &options);

// As capture/render/bundle_analysis.h has it; the files are mini.core, those of the heap and the gdb commands.
capture::BundleAnalysis bundle_analysis(const Examination &examination);

// incident.json and threads.json with the explanation in them.
struct Explained {
    Incident incident;
    Json threads;
};
// As the bundle has it; where nobody has explained it yet, or if `anew`, with what is here now.
Result<Explained> read_explained(const capture::Bundle &bundle, bool anew = false, bool debuginfod = false);

} // namespace incident::postmortem
