// Makes the timeline lines that concern the whole process: signals, forks, execs and exits, and what the kernel has
// logged.  Internal to capture/.
#pragma once

#include "capture/render/render.h"
#include "capture/render/render_redact.h"

#include <cstdint>
#include <string>
#include <vector>

namespace incident::capture {

struct ProcessLine {
    std::uint64_t t_ns = 0;
    std::string text; // a JSON object without newline
};
std::vector<ProcessLine> process_lines(const RenderContext &context, const Redactor &redactor);

// The records left in process_entry's rings, oldest first.  torn: records that were being written.
std::vector<const bpf::signal_record *> signals_of(const bpf::process_entry &entry, std::uint64_t *torn = nullptr);
std::vector<const bpf::lineage_record *> lineage_of(const bpf::process_entry &entry);

// Whether a process sent the signal (kill, tgkill, sigqueue, and SIGCHLD from a child), and not the kernel or a fault
// (include/uapi/asm-generic/siginfo.h: si_code > 0 is the kernel's).
bool has_sender(int number, int code);

// "killed by SIGSEGV (core dumped)", "exited 3"; status: as wait(2) has it.
std::string status_text(int status);
// "generated", "delivered"; "fatal", "handled", …; "delivered", "ignored", … (include/trace/events/signal.h)
std::string_view phase_name(std::uint8_t phase);
std::string_view disposition_name(std::uint8_t disposition);
std::string_view result_name(std::uint8_t result);

} // namespace incident::capture
