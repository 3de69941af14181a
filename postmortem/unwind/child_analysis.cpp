#include "postmortem/unwind/child_analysis.h"

#include "postmortem/unwind/arguments.h"
#include "postmortem/unwind/call_stacks.h"
#include "postmortem/unwind/cxx_exception.h"
#include "postmortem/unwind/entry_register.h"
#include "postmortem/unwind/machine_code.h"
#include "postmortem/unwind/stack.h"

#include <algorithm>

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

// Which argument of the function the operand's base still is.
unsigned base_argument(const Instruction &instruction, const NamedStack &stack, ModuleSet &modules) {
    if (!instruction.memory || stack.sources.empty() || stack.sources.front().module == ModuleSet::none)
        return 0;
    ElfModule *module = modules.elf(stack.sources.front().module);
    if (!module)
        return 0;
    const auto scope = modules.parsing(stack.sources.front().module, Part::file);
    const Symbol *function = module->symbols().function_at(instruction.address - module->bias());
    // a clone made for one caller (.isra, .constprop, .part) takes its arguments as it likes
    if (!function || !function->size || std::string_view(function->name).find('.') != std::string_view::npos)
        return 0;
    const std::uint64_t entry = function->address + module->bias();
    const std::string &base = instruction.memory->base;
    return untouched_since_entry(base, entry, entry + function->size, instruction.address, modules)
               ? argument_number(base)
               : 0;
}

// Of the thread it happened in; where the image does not say which, of its first.
void say_particulars(const ImageThread &thread, const NamedStack &stack, ModuleSet &modules, const Answers &answers) {
    if (thread.registers)
        if (auto instruction = instruction_at(*thread.registers, modules)) {
            instruction->base_argument = base_argument(*instruction, stack, modules);
            answers.say({{"instruction", to_json(*instruction)}});
        }
    if (const auto frame = frame_with_debug_info(stack)) {
        Json arguments = Json::array();
        for (const Argument &argument : arguments_of(modules, stack, *frame))
            arguments.push_back(to_json(argument));
        answers.say({{"argument_frame", *frame}, {"arguments", std::move(arguments)}});
    }
    if (const auto exception = exception_under_way(modules, stack))
        answers.say({{"exception", to_json(*exception)}});
    answers.say({{"particulars", true}});
}

} // namespace

void analyse_in_child(const CrashImage &image, std::vector<ModuleInput> inputs, const AnalyseOptions &options,
                      const ChildWork *more, CallStackRecords call_stacks, const Findings &known,
                      const AnswerLine &answer, std::atomic<std::uint32_t> *progress) {
    elf_version(EV_CURRENT);
    Answers answers(answer, progress);
    ModuleSet modules(image, std::move(inputs), options.debug_root, answers.progress(),
                      options.this_boot ? vdso_of_this_process() : "");
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
            findings.stacks[thread] = thread_stack_from(view["stack"]);
    } else if (view["module"].is_object()) {
        if (const std::uint64_t index = view["index"].natural().value_or(SIZE_MAX); index < findings.modules.size()) {
            // A stack found by an earlier child may have had it where this one's have not.
            const bool on_a_stack = findings.modules[index] && findings.modules[index]->on_a_stack;
            if (!on_a_stack || view["module"]["on_a_stack"].flag())
                findings.modules[index] = module_state_from(view["module"]);
        }
    } else if (view["instruction"].is_object()) {
        findings.instruction = instruction_from(view["instruction"]);
    } else if (view["arguments"].is_array()) {
        findings.arguments.clear();
        findings.argument_frame =
            static_cast<unsigned>(std::min<std::uint64_t>(view["argument_frame"].count(), UINT32_MAX));
        view["arguments"].each([&](JsonView argument) {
            if (findings.arguments.size() < analysis_arguments_max)
                findings.arguments.push_back(argument_from(argument));
        });
    } else if (view["exception"].is_object()) {
        findings.exception = exception_from(view["exception"]);
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
