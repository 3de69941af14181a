// The renderers behind render.h.  They share one Redactor, because its budget is for the whole bundle.  Internal to
// capture/.
#pragma once

#include "capture/bundle/json_member.h"
#include "capture/render/render.h"
#include "capture/render/render_redact.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace incident::capture {

// JSON as bundles have it: indented, or an array with one element on each line, which is a third of the size.
std::string json_text(const Json &json);
std::string json_lines(const Json &array);

struct MemoryImage {
    std::string index; // memory.json: [{address, length, offset, tid, what: "stack"|"window rax"|…}]
    std::string bytes; // memory.bin
};

// timeline.jsonl: every recorded event of every thread and of the process, ordered by time: {t_ns, wall, tid, kind,
// name, args[], ret, error, duration_ns, path, fd, in_flight}.
std::string timeline_of(const RenderContext &context, const Redactor &redactor);
Json threads_of(const RenderContext &context, const Redactor &redactor);
Json modules_of(const RenderContext &context, const Redactor &redactor);
MemoryImage memory_of(const RenderContext &context, const Redactor &redactor);
// process/limits as /proc has it, from what the kernel side copied; "" if it did not.
std::string limits_text(const bpf::death_event &event);
// Call it last, because it says what redaction had to leave out in the others.
Json incident_of(const RenderContext &context, const Redactor &redactor);

// "core" of incident.json.
Json core_json(const CoreLink &core);

// [{ip, symbol}], innermost first.  Frames that exist only because of the tracing are left out: our BPF programs and
// the functions through which the kernel calls them, down to the traced function.  If the breakpoint of a uprobe
// brought the thread into the kernel, no frame is left.
Json kernel_stack_json(const RenderContext &context, std::span<const std::uint64_t> addresses);

// What is known of the heap without any probe on it: the calls that changed the address space, and the resident memory
// as these calls, the samples of a rule and the incident found it.
// {from_ns, complete, incomplete_because[], growth_bytes, minor_faults, major_faults,
//  by_call{brk, mmap, munmap, mremap: {calls, bytes}}, rss_points, rss_curve[{t_ns, rss_bytes}]}
//
// Since from_ns all calls are known; calls and bytes are those since then, and the bytes add up to growth_bytes. Faults
// are those of the threads since their first such call.  A curve of more than 512 points is cut into parts and shows
// the lowest and the highest point of each; rss_points says how many points there were.
Json pages_json(const IncidentInput &input);

// Paths in the bundle and their bytes: heap.json, and the .bin files that have a record.  light: only heap.json.
//
// heap.json is
// {layout, level, asked, reason, exec_ns, since_ns, read_ns, window{from_ns, ns}, functions[{name, path, probed,
// problem}],
//  account{allocations, allocated_bytes, frees, freed_bytes, live, live_bytes, reused, reused_bytes, lost, lost_bytes,
//          unknown_frees, failed, unfinished, unentered, no_frame, no_stack, strangers},
//  in_window{allocations, allocated_bytes, frees, freed_bytes}, history{from_ns, records, written},
//  files{stacks, live, history}: numbers of records, cost{calls, ns},
//  sizes[{from, to, allocations, bytes, window_allocations, window_bytes}]: classes that have any; to: inclusive, null:
//  no end}
std::vector<std::pair<std::string, std::string>> render_heap(const HeapSnapshot &heap, bool light,
                                                             const Redactor &redactor);
// "heap" of incident.json: the same without layout, functions, cost and sizes.
Json heap_summary(const HeapSnapshot &heap, bool light, const Redactor &redactor);
// What the account of the heap cannot prove, for the quality of the bundle.
std::vector<Loss> heap_losses(const HeapSnapshot &heap);

// How complete the bundle is: counts, losses, and what failed.
Json quality_json(const RenderContext &context, const Redactor &redactor);

} // namespace incident::capture
