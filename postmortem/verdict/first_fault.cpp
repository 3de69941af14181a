// Judges a program that has a handler for its own fault and dies of another signal afterwards: the handler raises the
// signal again or calls abort(3), or it could not be entered. The verdict must explain the fault, which came first.
#include "postmortem/verdict/evidence.h"
#include "postmortem/verdict/records.h"

#include "capture/decode/syscalls.h"
#include "postmortem/terminal/times.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace incident::postmortem {

namespace {

bool is_of(const Interrupted &handler, const SignalLine &fault) {
    return handler.signal == fault.number && handler.code == fault.code && handler.address == *fault.address;
}

// A fault of the kernel's that went to a handler in the thread that died, before it died of `death`: that of the
// handler on its stack, which may have met others since (the Java VM's when it writes its report), else the last.
const SignalLine *handled_fault(const Evidence &e, const std::vector<SignalLine> &lines, const SignalLine &death) {
    const SignalLine *last = nullptr, *of_handler = nullptr;
    for (const SignalLine &line : lines) {
        if (!line.handled || !line.is_fault() || !line.address || line.tid != death.tid || line.t_ns >= death.t_ns)
            continue;
        last = &line;
        if (e.analysis.interrupted && is_of(*e.analysis.interrupted, line))
            of_handler = &line;
    }
    return of_handler ? of_handler : last;
}

// The fault that the handler on the stack was called for, as its frame says.  Only where it may be the one that the
// records had to give up, for they are as many as there is room for.
std::optional<SignalLine> fault_of_handler(const Evidence &e, const std::vector<SignalLine> &lines, std::uint32_t tid) {
    const auto &handler = e.analysis.interrupted;
    const std::uint64_t room = e.incident.view()["limits"]["signals"].count();
    if (!handler || handler->code <= 0 || room == 0 || lines.size() < room)
        return std::nullopt;
    SignalLine line;
    line.tid = tid;
    line.number = handler->signal, line.code = handler->code;
    line.name = capture::signal_name(line.number);
    line.code_name = capture::signal_code_name(line.number, line.code);
    line.address = handler->address;
    line.handled = true;
    return line.is_fault() ? std::optional(line) : std::nullopt;
}

user_regs_struct registers_of(const Interrupted &interrupted, const user_regs_struct &of_thread) {
    user_regs_struct registers = of_thread;                             // fs_base and kin are the thread's
    const auto value = [&](const char *name, const char *narrow = "") { // a 32-bit process's
        const auto &all = interrupted.registers;
        const auto found = all.contains(narrow) ? all.find(narrow) : all.find(name);
        return found == all.end() ? 0 : found->second;
    };
    registers.rax = value("rax", "eax");
    registers.rbx = value("rbx", "ebx");
    registers.rcx = value("rcx", "ecx");
    registers.rdx = value("rdx", "edx");
    registers.rsi = value("rsi", "esi");
    registers.rdi = value("rdi", "edi");
    registers.rbp = value("rbp", "ebp");
    registers.rsp = value("rsp", "esp");
    registers.r8 = value("r8");
    registers.r9 = value("r9");
    registers.r10 = value("r10");
    registers.r11 = value("r11");
    registers.r12 = value("r12");
    registers.r13 = value("r13");
    registers.r14 = value("r14");
    registers.r15 = value("r15");
    registers.rip = value("rip", "eip");
    registers.orig_rax = ~0ull; // as a fault leaves it
    return registers;
}

// True if the registers are those of the fault again. Otherwise the handler has dealt with the fault, and the verdict
// must not say that it killed the process.
bool at_its_instruction(const Evidence &e, const SignalLine &fault) {
    const std::uint64_t rip = e.registers()->rip, address = *fault.address;
    if (rip == address)
        return true;
    const auto &instruction = e.analysis.instruction;
    const bool known = instruction && instruction->address == rip && instruction->memory;
    if (known && address >= instruction->memory->address &&
        address - instruction->memory->address < std::max<std::uint64_t>(instruction->memory->bytes, 1))
        return true;
    // The stack was full, so the handler's frame could not be pushed on it.
    return fault.number == SIGSEGV && e.signal()["code_name"].text() == "SI_KERNEL";
}

// The same incident as it would have been told had the thread died of the fault itself.
std::optional<Claim> judge_as_if(const Evidence &e, const SignalLine &fault, bool in_frame) {
    if (!in_frame && !at_its_instruction(e, fault))
        return std::nullopt;
    Json document = e.incident.document();
    document["signal"] = {
        {"number", fault.number},         {"name", fault.name}, {"code", fault.code}, {"code_name", fault.code_name},
        {"address", hex(*fault.address)}, {"sender", nullptr},  {"fatal", true}};
    CrashImage image = e.image;
    image.signal = fault.number;
    image.has_siginfo = true;
    Analysis analysis = e.analysis;
    if (in_frame) {
        const Interrupted &interrupted = *e.analysis.interrupted;
        image.threads.front().registers = registers_of(interrupted, *e.registers());
        analysis.instruction = interrupted.instruction;
        analysis.call.reset();
        const auto stack = std::ranges::find(analysis.threads, image.threads.front().tid, &ThreadStack::tid);
        if (stack == analysis.threads.end() || interrupted.frame >= stack->frames.size())
            return std::nullopt;
        stack->frames.erase(stack->frames.begin(), stack->frames.begin() + interrupted.frame);
        if (analysis.argument_frame < interrupted.frame)
            analysis.arguments.clear();
        else
            analysis.argument_frame -= interrupted.frame;
    }
    const auto incident = Incident::parse(document.dump(-1, ' ', false, Json::error_handler_t::replace), "first fault");
    if (!incident)
        return std::nullopt;
    const Evidence of_fault{*incident, image, analysis, e.bundle, nullptr};
    if (auto claim = judge_fault(of_fault))
        return claim;
    return judge_trap(of_fault);
}

} // namespace

std::optional<Claim> judge_first_fault(const Evidence &e) {
    // A signal with SI_KERNEL need not be another fault: the kernel also raises it if a handler could not be entered.
    const bool another_fault = e.is_fault() && e.signal()["code_name"].text() != "SI_KERNEL";
    if (!e.registers() || !e.signal()["fatal"].flag() || e.incident.view()["dump"]["sent"].flag() || another_fault)
        return std::nullopt;
    const std::uint32_t tid = e.image.threads.front().tid;
    const auto lines = signal_lines(e.bundle);
    const auto death = std::ranges::find_if(lines, &SignalLine::trigger);
    if (death == lines.end())
        return std::nullopt;
    const bool own = e.sender() == e.image.pid && e.signal()["sender"]["tid"].count() == tid;
    const bool kernels = e.signal()["code_name"].text() == "SI_KERNEL" || death->is_fault();
    const SignalLine *fault = own || kernels ? handled_fault(e, lines, *death) : nullptr;
    const auto of_handler = own ? fault_of_handler(e, lines, tid) : std::nullopt;
    const bool recorded = !of_handler || (fault && is_of(*e.analysis.interrupted, *fault));
    if (!recorded)
        fault = &*of_handler;
    if (!fault)
        return std::nullopt;
    const std::string name(e.signal()["name"].text()), code(e.signal()["code_name"].text());
    const std::string ago = span_text(static_cast<std::uint64_t>(death->t_ns - fault->t_ns));
    const std::string came = fmt::format("{} ({}) for address {}", fault->name, fault->code_name, hex(*fault->address));
    // If the handler is still on the stack, its frame says what it was called for. If it has returned or was never
    // entered, the registers are those of the fault again.
    const auto &interrupted = e.analysis.interrupted;
    // signal 0: the handler did not ask for the siginfo, so the address of the page fault must be enough.
    const bool in_frame =
        interrupted && interrupted->address == *fault->address &&
        (interrupted->signal == 0 || (interrupted->signal == fault->number && interrupted->code == fault->code));
    std::optional<Claim> claim;
    if (in_frame || !interrupted)
        claim = judge_as_if(e, *fault, in_frame);
    if (claim)
        own ? claim->add<Sentence::handled_then_sent>(name) : claim->add<Sentence::handled_then_raised>(name, code);
    else if (own && recorded && (in_frame || death->number == fault->number) &&
             !judge_panic(e)) // of Go's, a fault is one
        claim = Claim::of<Sentence::fault_came_first>(came, ago, name);
    else
        return std::nullopt; // nothing says that the two have to do with each other: Java handles faults all day
    claim->facts.push_back(
        recorded ? fmt::format("{}, raised by the kernel in thread {} {} before, went to a handler of its own", came,
                               tid, ago)
                 : fmt::format("a handler of {} is on the stack of thread {}; the record of it had to give way to {} "
                               "later signals",
                               came, tid, lines.size() - 1));
    claim->facts.push_back(own ? fmt::format("{} ({}) was then sent by its own thread {}", name, code, tid)
                               : fmt::format("the kernel then raised {} ({})", name, code));
    return claim;
}

} // namespace incident::postmortem
