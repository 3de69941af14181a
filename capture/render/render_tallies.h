// Makes facts.jsonl: the distinct facts that are remembered of a process, each once.  Internal to capture/.
#pragma once

#include "capture/render/render.h"
#include "capture/render/render_lines.h"
#include "capture/render/render_redact.h"

#include <cstdint>
#include <string>
#include <vector>

namespace incident::capture {

// Those that a bundle has: of each kind the 1,000 met last, of a light one 100.  By kind, and of one kind the one met
// last at the end.
std::vector<const bpf::tally *> facts_kept(const IncidentInput &input);

// JSON lines {kind, name, what, met, failed, minute, hour, first_ns, first, last_ns, last, tid, ret, error, longest_ns,
// idle, cut, …}, by kind, and of one kind by when it was met last.  "" if none is remembered.
//   kind    "path", "peer", "failure", "slow", "thread", "child", "child_exit", "exec", "signal", "memory",
//           "descriptors"
//   name    of the call; null if the fact is none about a call
//   what    the path, the peer, the error, the least duration, the name of the thread or process, the signal, bytes,
//           the number of the descriptor
//   met     how often since first_ns; minute and hour: of these the ones within about the last minute and hour
std::string facts_of(const RenderContext &context, const Redactor &redactor);

// A line of the timeline for each fact of which no recorded call or event is left: kind "fact", at the time when it was
// met last; of memory and descriptors, when they first reached that much.
std::vector<ProcessLine> fact_lines(const RenderContext &context, const Redactor &redactor);

} // namespace incident::capture
