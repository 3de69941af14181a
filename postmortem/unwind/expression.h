// Evaluates DWARF expressions with a frame's registers and the captured memory (DWARF 5, 2.5 and 2.6).
#pragma once

#include "capture/os/address.h"
#include "postmortem/unwind/process_memory.h"
#include "postmortem/unwind/registers.h"

#include <elfutils/libdw.h>

#include <functional>
#include <span>
#include <string>

namespace incident::postmortem {

using capture::LinkAddress;
using capture::LoadBias;

struct ExpressionContext {
    const Registers &registers;
    ProcessMemory &memory;
    LoadBias bias;                                            // DW_OP_addr
    std::optional<std::uint64_t> cfa;                         // DW_OP_call_frame_cfa
    std::function<std::optional<std::uint64_t>()> frame_base; // DW_OP_fbreg
};

struct Location {
    enum class Kind {
        unknown,     // `why` says the reason
        absent,      // the expression is empty: optimized out, not saved
        memory,      // `value` is its address
        in_register, // `value` is its place in Registers; no_place: not kept
        computed,    // `value` is the value itself
    } kind = Kind::unknown;
    std::uint64_t value = 0;
    std::string why;                     // for unknown: what is not known or not supported
    std::optional<std::uint64_t> unread; // the address, if the reason is that it was not captured
};

inline constexpr std::size_t expression_steps_max = 4096; // operations carried out; DW_OP_bra may loop
inline constexpr std::size_t expression_stack_max = 256;

// Evaluates a location description.
Location locate(std::span<const Dwarf_Op> expression, const ExpressionContext &context);
// Evaluates an expression to a value, for DW_CFA_def_cfa_expression and for frame bases that are not a register.
Location compute(std::span<const Dwarf_Op> expression, const ExpressionContext &context);

} // namespace incident::postmortem
