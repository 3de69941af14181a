#include "postmortem/unwind/cfi_step.h"

namespace incident::postmortem {

namespace {

Location cfa_location(Dwarf_Frame *frame, const ExpressionContext &context) {
    Dwarf_Op *code = nullptr;
    std::size_t count = 0;
    if (dwarf_frame_cfa(frame, &code, &count) != 0 || count == 0)
        return {Location::Kind::unknown, 0, "its unwind information is broken", std::nullopt};
    return compute({code, count}, context);
}

struct Value {
    std::optional<std::uint64_t> value;
    bool undefined = false; // the rules say so
    Location from;
};

// What the rules say the caller had in a register.
Value caller_register(Dwarf_Frame *frame, unsigned number, const Registers &registers,
                      const ExpressionContext &context) {
    const Isa isa = context.memory.isa();
    const auto dwarf_number = number_of(number, isa);
    if (!dwarf_number)
        return {};
    Dwarf_Op room[3], *code = nullptr;
    std::size_t count = 0;
    if (dwarf_frame_register(frame, *dwarf_number, room, &code, &count) != 0)
        return {std::nullopt, false, {Location::Kind::unknown, 0, "its unwind information is broken", std::nullopt}};
    if (count == 0) { // libdw.h: null says same value, else undefined
        // Its default rules for x86-64 mistake %rax for %rbx (elfutils backends/x86_64_cfi.c); a function that
        // really loses %rbx has no caller.
        const bool undefined = code && (number != dwarf_rbx || isa == Isa::i386);
        // Without a rule it is the caller's only if a callee has to preserve it.
        return {!undefined && is_preserved(number, isa) ? registers[number] : std::nullopt, undefined, {}};
    }
    Location at = locate({code, count}, context);
    switch (at.kind) {
    case Location::Kind::computed:
        return {at.value, false, at};
    case Location::Kind::in_register:
        return {at.value < registers.size() ? registers[at.value] : std::nullopt, false, at};
    case Location::Kind::memory:
        if (const auto word = context.memory.word(at.value))
            return {word, false, at};
        at.unread = at.value;
        return {std::nullopt, false, at};
    default:
        return {std::nullopt, false, at};
    }
}

} // namespace

bool is_signal_frame(Dwarf_Frame *frame) {
    bool is = false;
    dwarf_frame_info(frame, nullptr, nullptr, &is);
    return is;
}

bool begins_at(Dwarf_Frame *frame, LinkAddress linked) {
    Dwarf_Addr start = 0;
    return dwarf_frame_info(frame, &start, nullptr, nullptr) >= 0 && LinkAddress(start) == linked;
}

std::optional<std::uint64_t> cfa_of(Dwarf_Frame *frame, const Registers &registers, ProcessMemory &memory,
                                    LoadBias bias) {
    const Location cfa = cfa_location(frame, {registers, memory, bias, std::nullopt, {}});
    return cfa.kind == Location::Kind::computed ? std::optional(cfa.value) : std::nullopt;
}

CfiStep step_by_cfi(Dwarf_Frame *frame, const Registers &registers, ProcessMemory &memory, LoadBias bias) {
    CfiStep step;
    ExpressionContext context{registers, memory, bias, std::nullopt, {}};
    // First, for where the rules say that there is none, the rest of them need not make sense.
    const int return_number = dwarf_frame_info(frame, nullptr, nullptr, nullptr);
    const unsigned return_register =
        return_number < 0 ? no_place : place_of(static_cast<unsigned>(return_number), memory.isa());
    if (return_register == no_place) {
        step.why = "its unwind information is broken";
        return step;
    }
    const Location cfa = cfa_location(frame, context);
    if (cfa.kind == Location::Kind::computed)
        context.cfa = step.cfa = cfa.value;
    const Value back = caller_register(frame, return_register, registers, context);
    if (back.undefined) {
        step.kind = CfiStep::Kind::outermost;
        return step;
    }
    if (!context.cfa) {
        step.why = cfa.why;
        step.unread = cfa.unread;
        return step;
    }
    if (!back.value) {
        step.why = back.from.why.empty() ? "its return address is not known" : back.from.why;
        step.unread = back.from.unread;
        return step;
    }
    for (unsigned number = 0; number < dwarf_rip; ++number) {
        const Value value = caller_register(frame, number, registers, context);
        step.registers[number] = value.value;
        step.saved[number] = value.from.kind == Location::Kind::memory;
    }
    if (!step.registers[dwarf_rsp])
        step.registers[dwarf_rsp] = step.cfa;
    step.registers[dwarf_rip] = back.value;
    step.kind = CfiStep::Kind::caller;
    return step;
}

} // namespace incident::postmortem
