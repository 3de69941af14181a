#include "postmortem/unwind/walker.h"

#include "postmortem/unwind/cfi_step.h"
#include "postmortem/unwind/machine_code.h"
#include "postmortem/unwind/sigframe.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::postmortem {

namespace {

constexpr std::string_view by_registers = "registers", by_cfi = "CFI", by_frame_pointer = "frame pointer",
                           by_stack_pointer = "return address at the stack pointer", by_signal_frame = "signal frame",
                           by_table_of_go = "Go's table";

// The result of stepping from a frame to its caller.
struct Step {
    enum class Kind { caller, outermost, stop } kind = Kind::stop;
    Registers registers;
    std::string_view how;
    bool exact = false; // the caller was interrupted
    std::string reason; // of stop
};

Step stop(std::string reason) {
    Step step;
    step.reason = std::move(reason);
    return step;
}

class Walker {
public:
    Walker(const user_regs_struct &registers, ModuleSet &modules)
        : modules_(modules), maps_(modules.image().maps), isa_(modules.isa()), word_(capture::word_bytes(isa_)) {
        WalkFrame first;
        first.registers = registers_of(registers, isa_);
        first.ip = UserAddress(*first.registers[dwarf_rip]);
        first.exact = true;
        first.how = by_registers;
        walk_.frames.push_back(std::move(first));
        stack_ = *walk_.frames.back().registers[dwarf_rsp];
    }

    Walk walk(std::size_t frames_max) {
        for (;;) {
            Step step = step_from(walk_.frames.back());
            if (step.kind == Step::Kind::caller)
                check(walk_.frames.back(), step);
            if (step.kind != Step::Kind::caller) {
                walk_.outermost = step.kind == Step::Kind::outermost;
                walk_.reason = std::move(step.reason);
                return std::move(walk_);
            }
            if (walk_.frames.size() >= frames_max) {
                walk_.reason = fmt::format("more than {} frames", frames_max);
                return std::move(walk_);
            }
            WalkFrame caller;
            caller.registers = step.registers;
            caller.ip = UserAddress(*step.registers[dwarf_rip]);
            caller.exact = step.exact;
            caller.how = step.how;
            walk_.frames.push_back(std::move(caller));
        }
    }

private:
    Step step_from(WalkFrame &frame);
    std::optional<Step> cfi(WalkFrame &frame, std::size_t module);
    std::string changes_stacks(const WalkFrame &frame, std::size_t module);
    std::optional<Step> by_go_table(WalkFrame &frame, std::size_t module);
    std::optional<Step> signal_frame(WalkFrame &frame);
    std::optional<Step> end_of_function(const WalkFrame &frame, const capture::Mapping &mapping);
    std::optional<Step> top_of_stack(const WalkFrame &frame, std::size_t module);
    std::optional<Step> frame_pointer(const WalkFrame &frame, std::size_t module);
    void check(const WalkFrame &frame, Step &step) const;
    bool may_return_to(UserAddress address);
    bool is_trampoline(UserAddress address);
    bool is_v8_builtin(const WalkFrame &frame, std::size_t module);
    std::optional<UserAddress> function_start(UserAddress address, std::size_t module);
    std::optional<Step> popped(const Registers &registers, std::uint64_t return_slot, std::optional<std::uint64_t> rbp,
                               std::string_view how);
    bool executable(UserAddress address) const {
        const capture::Mapping *mapping = maps_.find(address);
        return mapping && mapping->execute;
    }
    std::string not_captured(const WalkFrame &frame, std::uint64_t address) const;

    ModuleSet &modules_;
    const capture::Maps &maps_;
    const Isa isa_;
    const std::uint64_t word_; // bytes
    Walk walk_;
    std::uint64_t stack_ = 0; // where the innermost frame's stack pointer is
};

// Says where the captured part of the stack ends, if that is the reason.
std::string Walker::not_captured(const WalkFrame &frame, std::uint64_t address) const {
    const std::uint64_t stack = frame.registers[dwarf_rsp].value_or(0);
    const auto &pieces = modules_.captured().pieces();
    auto piece = pieces.upper_bound(stack);
    const std::uint64_t end = piece == pieces.begin() ? 0 : std::prev(piece)->first + std::prev(piece)->second.size();
    if (stack >= end) {
        if (walk_.frames.size() > 1 && walk_.frames[walk_.frames.size() - 2].signal_frame)
            return fmt::format("the stack it was interrupted on, at {:#x}, was not captured", stack);
        return fmt::format("no stack was captured at {:#x}", stack);
    }
    if (address < stack || address + word_ <= end)
        return fmt::format("memory at {:#x} was not captured", address);
    // From where the thread was, if it was on this stack.
    const std::uint64_t begin = stack_ <= stack && stack_ >= std::prev(piece)->first ? stack_ : std::prev(piece)->first;
    const std::uint64_t bytes = end - begin;
    return bytes >= 1024 ? fmt::format("beyond the captured {} KiB of stack", bytes / 1024)
                         : fmt::format("beyond the captured {} bytes of stack", bytes);
}

Step Walker::step_from(WalkFrame &frame) {
    const UserAddress address = frame.look_up();
    const capture::Mapping *mapping = maps_.find(address);
    const std::size_t module = modules_.index_at(address);
    if (module != ModuleSet::none)
        modules_.seen_on_stack(module);
    if (!mapping || !mapping->execute) {
        // A call or jump to nowhere: only the return address was pushed since.
        if (frame.exact)
            if (auto step = top_of_stack(frame, ModuleSet::none))
                return std::move(*step);
        return stop(fmt::format("{:#x} is in no executable mapping{}, and no return address is on top of the stack",
                                frame.ip.value, modules_.image().maps_whole ? "" : " known"));
    }
    if (module != ModuleSet::none)
        if (std::string reason = changes_stacks(frame, module); !reason.empty())
            return stop(std::move(reason));
    if (module != ModuleSet::none)
        if (auto step = cfi(frame, module))
            return std::move(*step);
    if (module != ModuleSet::none)
        if (auto step = by_go_table(frame, module))
            return std::move(*step);
    // The first function of a process has no caller (ld.so's has no unwind information).
    if (module != ModuleSet::none)
        if (const ElfModule *elf = modules_.elf(module); elf && elf->is_entry(address)) {
            Step step;
            step.kind = Step::Kind::outermost;
            return step;
        }
    if (auto step = signal_frame(frame))
        return std::move(*step);
    if (auto step = end_of_function(frame, *mapping))
        return std::move(*step);
    if (frame.exact)
        if (auto step = top_of_stack(frame, module))
            return std::move(*step);
    if (auto step = frame_pointer(frame, module))
        return std::move(*step);
    if (module == ModuleSet::none)
        return stop(mapping->path.empty() || !mapping->is_file()
                        ? fmt::format("no unwind information for generated code at {:#x}", frame.ip.value)
                        : fmt::format("no unwind information for {}", mapping->path));
    const std::string &problem = modules_.problem(module);
    const std::string where = fmt::format("{}+{:#x}", modules_.path(module), mapping->offset_of(frame.ip).value);
    return stop("no unwind information for " + where + (problem.empty() ? "" : ": " + problem));
}

std::optional<Step> Walker::cfi(WalkFrame &frame, std::size_t index) {
    ElfModule *module = modules_.elf(index);
    if (!module)
        return std::nullopt;
    const auto find = [&](UserAddress address) {
        {
            const auto scope = modules_.parsing(index, Part::file);
            if (FrameHandle rules = module->eh_frame(address - module->bias()))
                return rules;
        }
        DebugInfo *debug = modules_.debug(index);
        const auto scope = modules_.parsing(index, Part::debug);
        return debug ? debug->debug_frame(address - module->bias()) : FrameHandle();
    };
    FrameHandle rules = find(frame.look_up());
    if (rules && is_signal_frame(rules.get())) {
        frame.signal_frame = true;
        if (!frame.exact) // it is entered by a return: its address is exact
            if (FrameHandle exact = find(frame.ip))
                rules = std::move(exact);
    }
    // Go has its own trampoline, and describes it as a function. Whatever is said of it, a return to these instructions
    // ends a signal's handler.
    if (!frame.signal_frame && !frame.exact)
        if (auto step = signal_frame(frame))
            return step;
    // A function entered by a return to its very beginning, as makecontext(3) arranges it: the address before belongs
    // to whatever is linked there.
    if (!rules && !frame.exact)
        if (FrameHandle entered = find(frame.ip); entered && begins_at(entered.get(), frame.ip - module->bias())) {
            rules = std::move(entered);
            frame.exact = true;
        }
    if (!rules)
        return std::nullopt;
    const auto scope = modules_.parsing(index, Part::file);
    CfiStep found = step_by_cfi(rules.get(), frame.registers, modules_, module->bias());
    frame.by_cfi = true;
    frame.saved = found.saved;
    if (found.cfa)
        frame.cfa = found.cfa;
    Step step;
    if (found.kind == CfiStep::Kind::unknown)
        return stop(found.unread ? not_captured(frame, *found.unread) : found.why);
    step.kind = found.kind == CfiStep::Kind::outermost ? Step::Kind::outermost : Step::Kind::caller;
    step.registers = found.registers;
    step.how = by_cfi;
    step.exact = frame.signal_frame;
    return step;
}

// What is behind a function of Go's that has left its caller's stack for another: on this one, what others left there.
// Go's .debug_frame does not say so.
std::string Walker::changes_stacks(const WalkFrame &frame, std::size_t index) {
    ElfModule *module = frame.exact ? nullptr : modules_.elf(index);
    if (!module)
        return "";
    const auto scope = modules_.parsing(index, Part::file);
    const GoTable *table = module->go();
    const auto function = table ? table->function_at(frame.look_up() - module->bias()) : std::nullopt;
    if (!function || function->outermost || !function->changes_stacks)
        return "";
    return fmt::format("{} changes from one stack to another, and its caller's was not captured", function->name);
}

// Of a Go program without .debug_frame: its own table says, for each instruction, how far above the stack pointer the
// return address is.  No function of Go's keeps a register for its caller but the frame pointer, and where C is called
// or calls, the stack is another (SPWRITE).
std::optional<Step> Walker::by_go_table(WalkFrame &frame, std::size_t index) {
    ElfModule *module = modules_.elf(index);
    if (!module || !frame.registers[dwarf_rsp])
        return std::nullopt;
    std::optional<std::uint64_t> size;
    std::optional<GoTable::Function> function;
    {
        const auto scope = modules_.parsing(index, Part::file);
        const LinkAddress linked = frame.look_up() - module->bias();
        const GoTable *table = module->go();
        function = table ? table->function_at(linked) : std::nullopt;
        size = function ? table->frame_size(*function, linked) : std::nullopt;
    }
    if (!size)
        return std::nullopt;
    if (auto step = signal_frame(frame)) // its own trampoline
        return step;
    const std::uint64_t slot = *frame.registers[dwarf_rsp] + *size;
    const auto back = slot >= *size ? modules_.word(slot) : std::nullopt;
    const bool handler = back && is_trampoline(UserAddress(*back)); // sigtramp, which the kernel has called
    Step step;
    if (function->outermost && !handler) {
        step.kind = Step::Kind::outermost;
        return step;
    }
    if (function->changes_stacks)
        return stop(fmt::format("{} was about to change from one stack to another", function->name));
    if (!back)
        return stop(not_captured(frame, slot));
    step.kind = Step::Kind::caller;
    step.registers[dwarf_rsp] = slot + sizeof *back;
    step.registers[dwarf_rip] = back;
    step.how = by_table_of_go;
    frame.cfa = slot + sizeof *back;
    return step;
}

// By its instructions; of a copy that was kept, which has none, by the name that Go gives it.
bool Walker::is_trampoline(UserAddress address) {
    if (sigreturn_at(address.value, modules_) != Sigreturn::none)
        return true;
    if (isa_ == Isa::i386) // where its bytes are not known, neither is which frame it is of
        return false;
    char byte;
    const std::size_t index = modules_.index_at(address);
    ElfModule *module = index == ModuleSet::none ? nullptr : modules_.elf(index);
    if (!module || modules_.read(address.value, std::span(&byte, 1)) != 0)
        return false;
    const auto scope = modules_.parsing(index, Part::file);
    const LinkAddress linked = address - module->bias();
    if (const Symbol *symbol = module->symbols().function_at(linked))
        return symbol->address == linked && std::string_view(symbol->name).starts_with("runtime.sigreturn");
    const GoTable *table = module->go();
    const auto function = table ? table->function_at(linked) : std::nullopt;
    return function && function->entry == linked && function->name.starts_with("runtime.sigreturn");
}

std::optional<Step> Walker::signal_frame(WalkFrame &frame) {
    if (!frame.registers[dwarf_rsp] || !is_trampoline(frame.ip))
        return std::nullopt;
    frame.signal_frame = true;
    Step step;
    std::uint64_t unread = 0;
    const auto interrupted =
        registers_of_sigframe(*frame.registers[dwarf_rsp], sigreturn_at(frame.ip.value, modules_), modules_, unread);
    if (!interrupted)
        return stop(not_captured(frame, unread));
    step.registers = *interrupted;
    step.kind = Step::Kind::caller;
    step.how = by_signal_frame;
    step.exact = true;
    return step;
}

// i386's system calls return to the vdso (__kernel_vsyscall), of which often no more is known than the bytes around the
// instruction pointer.  What it has pushed they pop again, up to its ret.
std::optional<Step> Walker::end_of_function(const WalkFrame &frame, const capture::Mapping &mapping) {
    const auto stack = frame.registers[dwarf_rsp];
    if (isa_ != Isa::i386 || !frame.exact || !stack || mapping.path != "[vdso]")
        return std::nullopt;
    const auto pops = pops_at(frame.ip.value, modules_);
    if (!pops)
        return std::nullopt;
    Step step;
    std::uint64_t at = *stack;
    step.registers = frame.registers;
    for (const unsigned place : *pops) {
        step.registers[place] = modules_.word(at);
        at += word_;
    }
    const auto back = modules_.word(at);
    if (!back || !may_return_to(UserAddress(*back)))
        return std::nullopt;
    step.kind = Step::Kind::caller;
    step.registers[dwarf_rsp] = at + word_;
    step.registers[dwarf_rip] = back;
    step.how = by_stack_pointer;
    return step;
}

bool Walker::may_return_to(UserAddress address) {
    return address.value != 0 && executable(address - 1) &&
           call_before(address.value, modules_).kind != CallBefore::Kind::no_call;
}

std::optional<UserAddress> Walker::function_start(UserAddress address, std::size_t index) {
    ElfModule *module = index == ModuleSet::none ? nullptr : modules_.elf(index);
    if (!module)
        return std::nullopt;
    const auto scope = modules_.parsing(index, Part::file);
    const Symbol *symbol = module->symbols().function_at(address - module->bias());
    return symbol ? std::optional(symbol->address + module->bias()) : std::nullopt;
}

// V8's builtins set up a frame pointer before they call something, but not at their beginning.
bool Walker::is_v8_builtin(const WalkFrame &frame, std::size_t index) {
    ElfModule *module = index == ModuleSet::none || frame.exact ? nullptr : modules_.elf(index);
    if (!module)
        return false;
    const auto scope = modules_.parsing(index, Part::file);
    const Symbol *symbol = module->symbols().function_at(frame.look_up() - module->bias());
    return symbol && std::string_view(symbol->name).starts_with("Builtins_");
}

// The caller's registers when the return address at a place on the stack has been popped.
std::optional<Step> Walker::popped(const Registers &registers, std::uint64_t return_slot,
                                   std::optional<std::uint64_t> rbp, std::string_view how) {
    const auto back = modules_.word(return_slot);
    if (!back || !may_return_to(UserAddress(*back)))
        return std::nullopt;
    Step step;
    step.kind = Step::Kind::caller;
    for (unsigned place = 0; place < dwarf_rip; ++place)
        if (is_preserved(place, isa_))
            step.registers[place] = registers[place];
    step.registers[dwarf_rbp] = rbp;
    step.registers[dwarf_rsp] = return_slot + word_;
    step.registers[dwarf_rip] = back;
    step.how = how;
    return step;
}

// Nothing is pushed yet: nowhere was called, or a function is at its first instruction, or the return
// address on top of the stack follows a call of this very function.
std::optional<Step> Walker::top_of_stack(const WalkFrame &frame, std::size_t module) {
    const auto stack = frame.registers[dwarf_rsp];
    const auto back = stack ? modules_.word(*stack) : std::nullopt;
    if (!back)
        return std::nullopt;
    if (executable(frame.ip)) {
        const auto start = function_start(frame.ip, module);
        if (!start || (*start != frame.ip && call_before(*back, modules_).target != start->value))
            return std::nullopt;
    }
    return popped(frame.registers, *stack, frame.registers[dwarf_rbp], by_stack_pointer);
}

// Only where it looks true: the function's beginning, where it can be read, sets up a frame pointer; the one it
// saved lies above, in the same mapping: another stack's frames are not its callers; and the return address follows a
// call.  Of a file that cannot be read nothing tells whether its function has one: the register may still be an outer
// function's, and frames would be passed over.  So it may of generated code and of functions without a name: there the
// step is taken, and the stack no longer called whole.
std::optional<Step> Walker::frame_pointer(const WalkFrame &frame, std::size_t module) {
    const auto stack = frame.registers[dwarf_rsp], base = frame.registers[dwarf_rbp];
    const auto start = function_start(frame.look_up(), module);
    if (module != ModuleSet::none && !modules_.elf(module))
        return std::nullopt;
    bool sure = false;
    if (start) {
        const Prologue prologue = prologue_at(start->value, modules_);
        if (prologue.readable && !prologue.frame_pointer && !is_v8_builtin(frame, module))
            return std::nullopt;
        sure = prologue.frame_pointer;
        if (prologue.readable && frame.exact && stack) {
            if (frame.ip.value < prologue.pushed || is_return_at(frame.ip.value, modules_))
                return popped(frame.registers, *stack, base, by_stack_pointer);
            if (frame.ip.value < prologue.moved)
                return popped(frame.registers, *stack + word_, modules_.word(*stack), by_stack_pointer);
        }
    }
    if (!base || !stack || *base < *stack || *base % word_ != 0)
        return std::nullopt;
    if (const capture::Mapping *here = maps_.find(UserAddress(*stack)); here && here != maps_.find(UserAddress(*base)))
        return stop(
            fmt::format("the frame pointer, {:#x}, leads to another stack than the one at {:#x}", *base, *stack));
    const auto saved = modules_.word(*base);
    if (!saved)
        return std::nullopt;
    auto step = popped(frame.registers, *base + word_, saved, by_frame_pointer);
    if (step && !sure && walk_.doubt.empty())
        walk_.doubt = fmt::format("frames may be missing behind {:#x}, which was left by the frame pointer without "
                                  "knowing whether its function sets one up",
                                  frame.ip.value);
    return step;
}

// What a caller has to be, however it was found.
void Walker::check(const WalkFrame &frame, Step &step) const {
    const std::uint64_t ip = *step.registers[dwarf_rip];
    if (ip == 0) {
        step = {};
        step.kind = Step::Kind::outermost;
        return;
    }
    const auto before = frame.registers[dwarf_rsp], after = step.registers[dwarf_rsp];
    // A signal may have been taken on a stack of its own, anywhere.
    if (!step.exact && before && after && *after <= *before) {
        step =
            stop(fmt::format("the caller's stack pointer {:#x} is not above {:#x} (corrupt stack?)", *after, *before));
        return;
    }
    if (!step.exact && !executable(UserAddress(ip - 1)))
        step = stop(fmt::format("the return address {:#x} is in no executable mapping{}", ip,
                                modules_.image().maps_whole ? "" : " known"));
}

} // namespace

Walk walk_stack(const user_regs_struct &registers, ModuleSet &modules, std::size_t frames_max) {
    const std::uint64_t other = modules.isa() == Isa::i386 ? capture::code_segment_64bit : capture::code_segment_32bit;
    if (registers.cs == other) {
        Walk walk;
        WalkFrame &only = walk.frames.emplace_back();
        only.registers = registers_of(registers, Isa::x86_64);
        only.ip = UserAddress(registers.rip);
        only.exact = true;
        only.how = by_registers;
        walk.reason = modules.isa() == Isa::i386 ? "it is in 64-bit code, in a 32-bit process"
                                                 : "it is in 32-bit code, in a 64-bit process";
        return walk;
    }
    return Walker(registers, modules).walk(frames_max);
}

std::string how_walked(const Walk &walk) {
    if (walk.frames.size() == 1 && !walk.outermost)
        return "instruction pointer only";
    const auto used = [&](std::string_view how) {
        return std::ranges::any_of(walk.frames, [&](const WalkFrame &frame) { return frame.how == how; });
    };
    std::string text = used(by_cfi) || used(by_signal_frame) || walk.frames.back().by_cfi ? "CFI" : "";
    if (used(by_table_of_go))
        text += text.empty() ? "Go's table" : " and Go's table";
    if (used(by_frame_pointer))
        text += text.empty() ? "frame pointers" : " and frame pointers";
    return text.empty() ? std::string(by_stack_pointer) : text;
}

} // namespace incident::postmortem
