// DWARF expressions over a frame's registers and the captured memory (DWARF 5, 2.5 and 2.6).
#pragma once

#include "postmortem/unwind/process_memory.h"
#include "postmortem/unwind/registers.h"

#include <elfutils/libdw.h>

#include <functional>
#include <span>
#include <string>

namespace incident::postmortem {

struct ExpressionContext {
    const Registers &registers;
    ProcessMemory &memory;
    std::uint64_t bias = 0;                                   // added to addresses as linked (DW_OP_addr)
    std::optional<std::uint64_t> cfa;                         // DW_OP_call_frame_cfa
    std::function<std::optional<std::uint64_t>()> frame_base; // DW_OP_fbreg
};

struct Location {
    enum class Kind {
        unknown,     // see why
        absent,      // the expression is empty: optimized out, not saved
        memory,      // value: its address
        in_register, // value: DWARF's number of the register
        computed,    // value itself
    } kind = Kind::unknown;
    std::uint64_t value = 0;
    std::string why;                     // of unknown: what is not known or not supported
    std::optional<std::uint64_t> unread; // the address that was not captured, where that is why
};

inline constexpr std::size_t expression_steps_max = 4096; // operations carried out; DW_OP_bra may loop
inline constexpr std::size_t expression_stack_max = 256;

// A location description.
Location locate(std::span<const Dwarf_Op> expression, const ExpressionContext &context);
// The expression's value: for DW_CFA_def_cfa_expression, frame bases that are no register.
Location compute(std::span<const Dwarf_Op> expression, const ExpressionContext &context);

} // namespace incident::postmortem
