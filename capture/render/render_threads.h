// Facts about threads that several renderers need.  Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace incident::capture {

// The thread the trigger happened in; null if it was not captured.
const ThreadSnapshot *crashed_thread(const ProcessSnapshot &process);

// Of the captured registers, else of the slot; raw bytes.
std::string_view thread_comm(const ThreadSnapshot &thread);

// recorded + overwritten + lost = calls the thread truly made.
struct Accounting {
    std::uint64_t recorded = 0, overwritten = 0;
};
Accounting accounting_of(const ThreadSnapshot &thread);

// Whether everything that is wanted of it is there: rings, registers, stack.
bool captured_whole(const ThreadSnapshot &thread);

// {"r15": "0x…", …} in the names of the processor's manuals: rip, rsp, eflags.
nlohmann::ordered_json registers_json(const bpf::user_registers &regs);

// rcx … of memory_window.which: "rax"; "rip"; "" for 255 and what is out of range.
std::string_view register_name(std::uint8_t which);

} // namespace incident::capture
