// Puts the results of the post-mortem tool into a bundle: unwound and named stacks, a verdict, mini.core.  The tool
// runs as a process of its own, because it parses ELF and DWARF.  It answers with a stream: one line of JSON, then the
// bytes of the files that the line lists, in their order.
//
//   {"format": 1, "analysis": {"threads": [{"tid", "how", "truncated", "reason", "frames"}],
//    "verdict": {"sentence", "claims"}, "heap": {…}, …}, "files": [{"path": "mini.core", "bytes": 1234}, …]}
#pragma once

#include "capture/os/result.h"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace incident::capture {

using BundleFiles = std::vector<std::pair<std::string, std::string>>; // path, bytes

struct BundleAnalysis {
    nlohmann::ordered_json document; // "analysis" of the stream
    BundleFiles files;
};

// analysis: what "analysis" shall be.  files: paths within the bundle.
std::string analysis_stream(const nlohmann::ordered_json &analysis, const BundleFiles &files);
// An Error says what is wrong with the stream.  Only the paths named above are accepted.
Result<BundleAnalysis> parse_analysis_stream(std::string stream);

// The files of the bundle with the analysis in them, for IncidentsDir::amend(): threads.json with the unwound stacks,
// incident.json with verdict, mini_core, heap and analysis, summary.txt, analysis.json, and the files of the stream.
// Bytes that are not UTF-8 become U+FFFD.
Result<BundleFiles> merge_analysis(const std::string &incident_json, const std::string &threads_json,
                                   const std::string &timeline, BundleAnalysis analysis);

} // namespace incident::capture
