// What several renderers need to know of threads.  Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string_view>

namespace incident::capture {

// The thread in which the trigger happened; null if it was not captured.
const ThreadSnapshot *crashed_thread(const ProcessSnapshot &process);

// The comm from the captured event, else from the slot; raw bytes.
std::string_view thread_comm(const ThreadSnapshot &thread);

// recorded + overwritten + lost = calls that the thread really made.
struct Accounting {
    std::uint64_t recorded = 0, overwritten = 0;
};
Accounting accounting_of(const ThreadSnapshot &thread);

// Whether everything that is wanted of the thread is there: rings, registers, stack.
bool captured_whole(const ThreadSnapshot &thread);

// {"r15": "0x…", …} with the names of the processor's manuals: rip, rsp, eflags.
nlohmann::ordered_json registers_json(const bpf::user_registers &regs);

// rcx … of memory_window.which: "rax"; "rip"; "" for 255 and what is out of range.
std::string_view register_name(std::uint8_t which);

} // namespace incident::capture
