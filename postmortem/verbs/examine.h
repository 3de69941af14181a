// Explains a bundle: unwinds and names its stacks, says what most likely happened, makes a mini.core. The daemon has
// done this for most bundles (incidentctl analyse). The reader does it if the daemon has not, or again with what is
// installed now.
#pragma once

#include "capture/render/bundle_analysis.h"
#include "postmortem/heap/findings.h"
#include "postmortem/image/mini_core.h"
#include "postmortem/read/incident.h"
#include "postmortem/unwind/analyse.h"
#include "postmortem/verdict/verdict.h"

#include <string>

namespace incident::postmortem {

struct ExamineOptions {
    bool mini_core = false;  // make one
    bool debuginfod = false; // ask the servers of $DEBUGINFOD_URLS
    bool install_hints = false;
    std::string kept_modules; // the daemon's directory of copies of mapped files, which need not be there
};
// That of the daemon whose state the session looks at.
std::string kept_modules_of(const Session &session);

struct Examination {
    Analysis analysis;
    Verdict verdict;
    std::string mini_core; // "": not wanted, or it could not be made and the notes say why
    Json heap;             // what the analysis adds to incident.json's heap; null: the bundle has no heap
    capture::BundleFiles heap_files;
};

// Parses files of this machine in capped children. Returns an Error if the bundle cannot be read.
Result<Examination> examine(const capture::Bundle &bundle, const Incident &incident, const ExamineOptions &options);

// The result in the form of capture/render/bundle_analysis.h. Its files are mini.core, the heap's files and the gdb
// commands.
capture::BundleAnalysis bundle_analysis(const Examination &examination);

// incident.json and threads.json, with the explanation added.
struct Explained {
    Incident incident;
    Json threads;
};
// The bundle's own explanation. If it has none, or with `anew`, the bundle is explained with what is there now.
Result<Explained> read_explained(const Session &session, const capture::Bundle &bundle, bool anew = false,
                                 bool debuginfod = false);

} // namespace incident::postmortem
