#include "postmortem/unwind/child_analysis.h"

#include "capture/collect/vdso.h"
#include "postmortem/unwind/arguments.h"
#include "postmortem/unwind/call_stacks.h"
#include "postmortem/unwind/cxx_exception.h"
#include "postmortem/unwind/entry_register.h"
#include "postmortem/unwind/go_message.h"
#include "postmortem/unwind/machine_code.h"
#include "postmortem/unwind/sigframe.h"
#include "postmortem/unwind/stack.h"

#include <algorithm>
#include <csignal>

namespace incident::postmortem {

namespace {

class Answers {
public:
    Answers(const AnswerLine &answer, std::atomic<std::uint32_t> *progress) : answer_(answer), progress_(progress) {}
    void say(const Json &line) const { answer_(dump_json(line)); }
    void notes(std::vector<std::string> notes) {
        for (std::string &note : notes)
            if (said_++ < analysis_notes_max)
                say({{"note", std::move(note)}});
    }
    Progress progress() const { return Progress(progress_); }

private:
    const AnswerLine &answer_;
    std::atomic<std::uint32_t> *progress_;
    std::size_t said_ = 0;
};

// True if the operand's base is a register in which arguments are passed, and still has the value from its function's
// entry.
bool base_untouched(const Instruction &instruction, const NamedStack &stack, ModuleSet &modules) {
    if (!instruction.memory || stack.sources.empty() || stack.sources.front().module == ModuleSet::none)
        return false;
    ElfModule *module = modules.elf(stack.sources.front().module);
    if (!module)
        return false;
    const auto scope = modules.parsing(stack.sources.front().module, Part::file);
    const Symbol *function = module->symbols().function_at(UserAddress(instruction.address) - module->bias());
    // a function's cold part is jumped to out of its middle
    if (!function || !function->size || std::string_view(function->name).find('.') != std::string_view::npos)
        return false;
    const std::uint64_t entry = (function->address + module->bias()).value;
    const std::string &base = instruction.memory->base;
    return untouched_since_entry(base, entry, entry + function->size, instruction.address, modules);
}

user_regs_struct raw_registers(const Registers &known, const user_regs_struct &of_thread) {
    user_regs_struct registers = of_thread; // fs_base and kin are the thread's
    const auto value = [&](unsigned number) { return known[number].value_or(0); };
    registers.rax = value(dwarf_rax);
    registers.rdx = value(dwarf_rdx);
    registers.rcx = value(dwarf_rcx);
    registers.rbx = value(dwarf_rbx);
    registers.rsi = value(dwarf_rsi);
    registers.rdi = value(dwarf_rdi);
    registers.rbp = value(dwarf_rbp);
    registers.rsp = value(dwarf_rsp);
    registers.r8 = value(8);
    registers.r9 = value(9);
    registers.r10 = value(10);
    registers.r11 = value(11);
    registers.r12 = value(12);
    registers.r13 = value(13);
    registers.r14 = value(14);
    registers.r15 = value(15);
    registers.rip = value(dwarf_rip);
    return registers;
}

// The innermost signal handler's: what it has interrupted, where all of that was captured.
std::optional<Interrupted> interrupted_by_handler(const ImageThread &thread, const NamedStack &stack,
                                                  ModuleSet &modules) {
    const auto &frames = stack.walk.frames;
    const auto trampoline = std::ranges::find_if(frames, &WalkFrame::signal_frame);
    if (trampoline == frames.end() || trampoline + 1 == frames.end() || !trampoline->registers[dwarf_rsp])
        return std::nullopt;
    const auto walked = static_cast<std::size_t>(trampoline - frames.begin()) + 1;
    const auto shown = std::ranges::find(stack.sources, walked, &FrameSource::walked);
    const std::uint64_t at = *trampoline->registers[dwarf_rsp];
    const Sigreturn kind = sigreturn_at(trampoline->ip.value, modules);
    auto siginfo = siginfo_of_sigframe(at, kind, modules);
    // Without SA_SIGINFO only the page fault's address is known, and not which signal the handler is for.
    const auto page_fault = page_fault_of_sigframe(at, kind, modules);
    if (page_fault &&
        !(siginfo && siginfo->address == *page_fault && (siginfo->signal == SIGSEGV || siginfo->signal == SIGBUS)))
        siginfo = FrameSiginfo{0, 0, *page_fault};
    const auto registers = registers_of_sigframe_whole(at, kind, modules);
    if (shown == stack.sources.end() || !siginfo || !registers)
        return std::nullopt;
    Interrupted interrupted;
    interrupted.frame = static_cast<unsigned>(shown - stack.sources.begin());
    for (unsigned place = 0; place < registers->size(); ++place)
        if (const std::string_view name = register_name(place, modules.isa()); !name.empty())
            interrupted.registers[std::string(name)] = *(*registers)[place];
    interrupted.signal = siginfo->signal;
    interrupted.code = siginfo->code;
    interrupted.address = siginfo->address;
    interrupted.instruction = instruction_at(raw_registers(*registers, *thread.registers), modules);
    return interrupted;
}

// The call that led to an instruction pointer where nothing can be executed: the top of the stack is its return
// address.
std::optional<CallToNowhere> call_to_nowhere(const ImageThread &thread, const NamedStack &stack, ModuleSet &modules) {
    const auto &frames = stack.walk.frames;
    const capture::Mapping *here = modules.image().maps.find(UserAddress(thread.registers->rip));
    if ((here && here->execute) || frames.size() < 2 || frames[1].exact)
        return std::nullopt;
    return call_ending_at(frames[1].ip.value, *thread.registers, modules);
}

// Answers with details of the thread it happened in; if the image does not say which, of the first one.
void say_particulars(const ImageThread &thread, const NamedStack &stack, ModuleSet &modules, const Answers &answers) {
    if (thread.registers)
        if (auto instruction = instruction_at(*thread.registers, modules)) {
            instruction->base_untouched = base_untouched(*instruction, stack, modules);
            answers.say({{"instruction", to_json(*instruction)}});
        }
    if (const auto interrupted = thread.registers ? interrupted_by_handler(thread, stack, modules) : std::nullopt)
        answers.say({{"interrupted", to_json(*interrupted)}});
    if (const auto call = thread.registers ? call_to_nowhere(thread, stack, modules) : std::nullopt)
        answers.say({{"call_to_nowhere", to_json(*call)}});
    if (const auto frame = frame_with_debug_info(stack)) {
        Json arguments = Json::array();
        for (const Argument &argument : arguments_of(modules, stack, *frame))
            arguments.push_back(to_json(argument));
        answers.say({{"argument_frame", *frame}, {"arguments", std::move(arguments)}});
    }
    if (const auto exception = exception_under_way(modules, stack))
        answers.say({{"exception", to_json(*exception)}});
    if (const auto error = go_fatal_error(modules, stack))
        answers.say({{"go_fatal_error", *error}});
    answers.say({{"particulars", true}});
}

} // namespace

void analyse_in_child(const CrashImage &image, std::vector<ModuleInput> inputs, const AnalyseOptions &options,
                      const ChildWork *more, CallStackRecords call_stacks, const Findings &known,
                      const AnswerLine &answer, std::atomic<std::uint32_t> *progress) {
    elf_version(EV_CURRENT);
    Answers answers(answer, progress);
    ModuleSet modules(image, std::move(inputs), options.debug_root, answers.progress(),
                      // the 64-bit one
                      options.this_boot && image.isa == Isa::x86_64 ? std::string(capture::own_vdso()) : "");
    StackNamer namer(modules);
    std::vector<bool> said(modules.size());
    const auto say_modules = [&](bool all) {
        for (std::size_t i = 0; i < modules.size(); ++i) {
            const bool on_a_stack = modules.is_on_stack(i), vdso = i == image.modules.size();
            if (said[i] || !(on_a_stack || (all && !vdso)))
                continue;
            answers.say({{"index", i}, {"module", to_json(modules.state(i))}});
            said[i] = true;
        }
    };
    for (std::size_t i = 0; i < image.threads.size(); ++i) {
        const bool particulars = i == 0 && !known.particulars_done;
        if (known.stacks[i] && !particulars)
            continue;
        const NamedStack stack = namer.name(image.threads[i], options.frames_max);
        if (!known.stacks[i])
            answers.say({{"thread", i}, {"stack", to_json(stack.stack)}});
        if (particulars)
            say_particulars(image.threads[i], stack, modules, answers);
        say_modules(false);
    }
    say_modules(true);
    answers.notes(modules.take_notes());
    answers.notes(namer.take_notes());
    if (more && more->work && !known.more_done)
        answers.say({{"more", more->work()}});
    answer_call_stacks(call_stacks, options, modules, namer, known, answer);
}

void add_answer(std::string_view line, Findings &findings) {
    const auto parsed = parse_json(line);
    if (!parsed)
        return;
    const JsonView view = *parsed;
    if (view["stack"].is_object()) {
        const std::uint64_t thread = view["thread"].natural().value_or(SIZE_MAX);
        if (thread < findings.stacks.size() && !findings.stacks[thread])
            findings.stacks[thread] = from_json<ThreadStack>(view["stack"]);
    } else if (view["module"].is_object()) {
        if (const std::uint64_t index = view["index"].natural().value_or(SIZE_MAX); index < findings.modules.size()) {
            // A stack found by an earlier child may have had it where this one's have not.
            const bool on_a_stack = findings.modules[index] && findings.modules[index]->on_a_stack;
            if (!on_a_stack || view["module"]["on_a_stack"].flag())
                findings.modules[index] = from_json<ModuleState>(view["module"]);
        }
    } else if (view["instruction"].is_object()) {
        findings.instruction = from_json<Instruction>(view["instruction"]);
    } else if (view["interrupted"].is_object()) {
        findings.interrupted = from_json<Interrupted>(view["interrupted"]);
    } else if (view["call_to_nowhere"].is_object()) {
        findings.call = from_json<CallToNowhere>(view["call_to_nowhere"]);
    } else if (view["arguments"].is_array()) {
        findings.arguments.clear();
        findings.argument_frame =
            static_cast<unsigned>(std::min<std::uint64_t>(view["argument_frame"].count(), UINT32_MAX));
        view["arguments"].each([&](JsonView argument) {
            if (findings.arguments.size() < analysis_arguments_max)
                findings.arguments.push_back(from_json<Argument>(argument));
        });
    } else if (view["exception"].is_object()) {
        findings.exception = from_json<Exception>(view["exception"]);
    } else if (view["go_fatal_error"].is_text()) {
        findings.go_fatal_error = view["go_fatal_error"].text().substr(0, analysis_text_max);
    } else if (view["particulars"].flag()) {
        findings.particulars_done = true;
    } else if (view["note"].is_text()) {
        const std::string note(view["note"].text().substr(0, analysis_text_max));
        if (findings.notes.size() < analysis_notes_max &&
            std::ranges::find(findings.notes, note) == findings.notes.end())
            findings.notes.push_back(note);
    } else if (add_call_stack(view, findings)) {
        // of a heap
    } else if (view["more"].present()) {
        findings.more = *view["more"].raw();
        findings.more_done = true;
    }
}

} // namespace incident::postmortem
