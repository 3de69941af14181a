// Judges signals that a certain instruction or system call always causes: SIGFPE, SIGILL, SIGTRAP, SIGSYS.
#include "postmortem/verdict/evidence.h"

#include "capture/decode/syscalls.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

namespace incident::postmortem {

namespace {

std::string instruction_fact(const Evidence &e, const Instruction &instruction) {
    const ThreadStack *stack = e.stack();
    return fmt::format("the instruction at {} is \"{}\"",
                       stack && !stack->frames.empty() ? place_text(stack->frames.front()) : hex(instruction.address),
                       instruction.text);
}

std::string function_of(const Evidence &e) {
    const ThreadStack *stack = e.stack();
    return stack && !stack->frames.empty() ? function_text(stack->frames.front()) : hex(e.registers()->rip);
}

// The divisor of div and idiv: a register, or memory if it was captured.
std::optional<std::uint64_t> divisor(const Evidence &e, const Instruction &instruction) {
    if (const auto &memory = instruction.memory; memory && memory->read) {
        std::uint64_t value = 0;
        char bytes[sizeof value] = {};
        const std::size_t size = memory->bytes;
        if (size == 0 || size > sizeof value || e.image.memory.read(memory->address, {bytes, size}) != size)
            return std::nullopt;
        std::memcpy(&value, bytes, sizeof value);
        return value;
    }
    const std::size_t percent = instruction.text.rfind('%');
    return percent == std::string::npos ? std::nullopt
                                        : register_value(*e.registers(), instruction.text.substr(percent + 1));
}

std::optional<Claim> division(const Evidence &e, const Instruction &instruction) {
    if (!instruction.text.starts_with("div") && !instruction.text.starts_with("idiv"))
        return std::nullopt;
    const auto by = divisor(e, instruction);
    if (!by)
        return std::nullopt;
    Claim claim = *by == 0 ? Claim::of<Sentence::division_by_zero>(function_of(e))
                           : Claim::of<Sentence::division_too_large>(function_of(e));
    claim.facts = {signal_fact(e), instruction_fact(e, instruction), fmt::format("it divides by {:#x}", *by)};
    return claim;
}

std::optional<Claim> illegal(const Evidence &e, const Instruction &instruction) {
    if (!instruction.text.starts_with("ud2"))
        return std::nullopt;
    Claim claim = Claim::of<Sentence::came_to_ud2>(function_of(e));
    claim.facts = {signal_fact(e), instruction_fact(e, instruction)};
    return claim;
}

// The instruction pointer is behind the one byte of int3, for which the kernel has SI_KERNEL; of a step or a hardware
// breakpoint it has other codes (do_trap() and send_sigtrap() in arch/x86/kernel).
std::optional<Claim> breakpoint(const Evidence &e) {
    constexpr unsigned char int3 = 0xcc;
    unsigned char before = 0;
    const ThreadStack *stack = e.stack();
    if (e.signal()["code_name"].text() != "SI_KERNEL" || !e.registers() || !stack || stack->frames.empty() ||
        e.image.memory.read(e.registers()->rip - 1, {reinterpret_cast<char *>(&before), 1}) != 1 || before != int3)
        return std::nullopt;
    // Behind the last instruction of a function another one begins.
    const bool in_function = stack->frames.front().inlined || stack->frames.front().symbol_offset != 0;
    Claim claim = Claim::of<Sentence::came_to_int3>(in_function ? function_of(e) : hex(e.registers()->rip - 1));
    claim.facts = {signal_fact(e),
                   fmt::format("before the instruction pointer, {:#x}, stands 0xcc", e.registers()->rip)};
    return claim;
}

// struct siginfo's _sigsys: _call_addr, _syscall, _arch (include/uapi/asm-generic/siginfo.h), at the union's 16.
std::optional<Claim> refused_call(const Evidence &e) {
    constexpr int by_seccomp = 1; // SYS_SECCOMP
    constexpr std::size_t call_at = 24;
    constexpr std::uint64_t arch_x86_64 = 0xc000003e; // AUDIT_ARCH_X86_64
    if (e.signal()["code"].integer() != by_seccomp || !e.image.has_siginfo)
        return std::nullopt;
    std::int32_t number = 0;
    std::uint32_t arch = 0;
    std::memcpy(&number, e.image.siginfo.data() + call_at, sizeof number);
    std::memcpy(&arch, e.image.siginfo.data() + call_at + sizeof number, sizeof arch);
    // Else the siginfo came with a call of its own (rt_tgsigqueueinfo(2)).
    if (e.registers() && static_cast<std::int32_t>(e.registers()->orig_rax) != number)
        return std::nullopt;
    Claim claim = Claim::of<Sentence::seccomp_refused>(capture::syscall_name(number, arch != arch_x86_64));
    claim.facts = {
        fmt::format("the kernel raised SIGSYS ({}) for system call {}", e.signal()["code_name"].text(), number)};
    return claim;
}

} // namespace

std::optional<Claim> judge_trap(const Evidence &evidence) {
    const int number = evidence.image.signal;
    if ((number != SIGFPE && number != SIGILL && number != SIGTRAP && number != SIGSYS) || !evidence.is_fault())
        return std::nullopt;
    if (number == SIGTRAP)
        return breakpoint(evidence);
    if (number == SIGSYS)
        return refused_call(evidence);
    const auto &instruction = evidence.analysis.instruction;
    if (!evidence.registers() || !instruction || instruction->address != evidence.registers()->rip)
        return std::nullopt;
    if (evidence.fault_address() != instruction->address) // which is where both have it (sigaction(2))
        return std::nullopt;
    if (number == SIGFPE)
        return evidence.signal()["code_name"].text() == "FPE_INTDIV" ? division(evidence, *instruction) : std::nullopt;
    return illegal(evidence, *instruction);
}

} // namespace incident::postmortem
