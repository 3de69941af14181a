// What several renderers need to know of threads.  Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"
#include "capture/os/isa.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace incident::capture {

// The thread in which the trigger happened; null if it was not captured.
const ThreadSnapshot *crashed_thread(const ProcessSnapshot &process);

// The comm from the captured event, else from the slot; raw bytes.
std::string_view thread_comm(const ThreadSnapshot &thread);

// Their sum is the number of calls that the thread really made.
struct Accounting {
    std::uint64_t after = 0;       // of those recorded, began after the trigger
    std::uint64_t recorded = 0;    // they are in the bundle
    std::uint64_t left_out = 0;    // they were kept, but too far before or after the trigger for a bundle
    std::uint64_t overwritten = 0; // older than these
    std::uint64_t lost = 0;        // there was no memory for them
    // How long before the trigger its calls are known: since the first that is kept or, where none is missing, since it
    // was recorded.
    std::optional<std::uint64_t> past_ns{};
};
Accounting accounting_of(const ThreadSnapshot &thread, MonotonicTime trigger);

// Whether everything that is wanted of the thread is there: rings, registers, stack.
bool captured_whole(const ThreadSnapshot &thread);

// {"r15": "0x…", …} with the names of the processor's manuals: rip, rsp, eflags.
nlohmann::ordered_json registers_json(const bpf::user_registers &regs);

// rcx … of memory_window.which: "rax"; "rip"; "" for 255 and what is out of range.  Of i386 "eax"; "eip"; "" for r8 …
std::string_view register_name(std::uint8_t which, Isa isa);

} // namespace incident::capture
