#include "postmortem/unwind/arguments.h"

#include "postmortem/unwind/cfi_step.h"
#include "postmortem/unwind/type_names.h"

#include <dwarf.h>
#include <fmt/format.h>

namespace incident::postmortem {

namespace {

constexpr std::size_t parameter_dies_max = 4096; // children of a function looked at for its parameters

// The frame's own address, which its frame base and so its variables hang on.
std::optional<std::uint64_t> cfa_of_frame(ModuleSet &modules, ElfModule &module, DebugInfo &debug,
                                          const WalkFrame &frame) {
    if (frame.cfa)
        return frame.cfa;
    const LinkAddress linked = frame.look_up() - module.bias();
    FrameHandle rules = module.eh_frame(linked);
    if (!rules)
        rules = debug.debug_frame(linked);
    return rules ? cfa_of(rules.get(), frame.registers, modules, module.bias()) : std::nullopt;
}

class Evaluator {
public:
    Evaluator(ModuleSet &modules, ElfModule &module, const WalkFrame &frame, std::optional<std::uint64_t> cfa,
              Dwarf_Die subprogram)
        : linked_(frame.look_up() - module.bias()),
          subprogram_(subprogram), context_{frame.registers, modules, module.bias(), cfa,
                                            [this] { return frame_base(); }} {}

    Argument argument(Dwarf_Die *parameter, unsigned number) {
        Argument argument;
        argument.number = number;
        Dwarf_Attribute attribute;
        if (dwarf_attr_integrate(parameter, DW_AT_name, &attribute))
            if (const char *name = dwarf_formstring(&attribute))
                argument.name = std::string(name).substr(0, analysis_text_max);
        const TypeDescription type = type_of(parameter);
        argument.type = type.name;
        argument.is_pointer = type.is_pointer;
        evaluate(parameter, type, argument);
        return argument;
    }

private:
    std::optional<std::uint64_t> frame_base() {
        Dwarf_Attribute attribute;
        Dwarf_Op *code = nullptr;
        std::size_t count = 0;
        if (!dwarf_attr_integrate(&subprogram_, DW_AT_frame_base, &attribute) ||
            dwarf_getlocation_addr(&attribute, linked_.value, &code, &count, 1) != 1)
            return std::nullopt;
        ExpressionContext plain{context_.registers, context_.memory, context_.bias, context_.cfa, {}};
        const Location base = locate({code, count}, plain);
        if (base.kind == Location::Kind::in_register) // the base is what is in it
            return base.value < context_.registers.size() ? context_.registers[base.value] : std::nullopt;
        const bool known = base.kind == Location::Kind::memory || base.kind == Location::Kind::computed;
        return known ? std::optional(base.value) : std::nullopt;
    }

    void evaluate(Dwarf_Die *parameter, const TypeDescription &type, Argument &argument) {
        Dwarf_Attribute attribute;
        Dwarf_Word constant = 0;
        if (dwarf_attr_integrate(parameter, DW_AT_const_value, &attribute) &&
            dwarf_formudata(&attribute, &constant) == 0) {
            argument.value = cut(constant, type);
            argument.how = "constant";
            return;
        }
        Dwarf_Op *code = nullptr;
        std::size_t count = 0;
        if (!dwarf_attr_integrate(parameter, DW_AT_location, &attribute) ||
            dwarf_getlocation_addr(&attribute, linked_.value, &code, &count, 1) != 1) {
            argument.how = "optimized out";
            return;
        }
        const Location at = locate({code, count}, context_);
        switch (at.kind) {
        case Location::Kind::in_register:
            in_register(at.value, type, argument);
            return;
        case Location::Kind::computed:
            argument.how = "computed";
            if (!type.is_real)
                argument.value = cut(at.value, type);
            return;
        case Location::Kind::memory:
            argument.how = fmt::format("in memory at {:#x}", at.value);
            if (!type.bytes || *type.bytes == 0 || *type.bytes > sizeof(std::uint64_t)) {
                argument.how += ", too large for a value";
                return;
            }
            argument.value = context_.memory.number(at.value, *type.bytes);
            if (!argument.value)
                argument.how += ", which was not captured";
            return;
        default:
            argument.how = at.why;
        }
    }

    void in_register(std::uint64_t number, const TypeDescription &type, Argument &argument) const {
        if (number >= context_.registers.size()) {
            argument.how = "in a register that is not captured";
            return;
        }
        argument.how = fmt::format("in {}", register_name(static_cast<unsigned>(number), context_.memory.isa()));
        if (!context_.registers[number])
            argument.how += ", which is not known there";
        else if (type.bytes && *type.bytes > capture::word_bytes(context_.memory.isa()))
            argument.how += ", too large for a value";
        else
            argument.value = cut(*context_.registers[number], type);
    }

    static std::uint64_t cut(std::uint64_t value, const TypeDescription &type) {
        return type.bytes && *type.bytes < sizeof value ? value & ((std::uint64_t{1} << *type.bytes * 8) - 1) : value;
    }

    LinkAddress linked_;
    Dwarf_Die subprogram_;
    ExpressionContext context_;
};

} // namespace

std::optional<std::size_t> frame_with_debug_info(const NamedStack &stack) {
    for (std::size_t i = 0; i < stack.sources.size(); ++i)
        if (const FrameSource &source = stack.sources[i];
            source.place && source.real_registers && !source.place->assembler)
            return i;
    return std::nullopt;
}

std::vector<Argument> arguments_of(ModuleSet &modules, const NamedStack &stack, std::size_t shown) {
    const FrameSource &source = stack.sources[shown];
    ElfModule *module = source.place ? modules.elf(source.module) : nullptr;
    DebugInfo *debug = module ? modules.debug(source.module) : nullptr;
    if (!debug)
        return {};
    const auto scope = modules.parsing(source.module, Part::debug);
    const WalkFrame &frame = stack.walk.frames[source.walked];
    // The frame base is the whole function's, also for what is inlined into it.
    Dwarf_Die subprogram = source.place->die, unit;
    if (!debug->function_at(frame.look_up() - module->bias(), unit, subprogram))
        return {};
    Evaluator evaluator(modules, *module, frame, cfa_of_frame(modules, *module, *debug, frame), subprogram);
    std::vector<Argument> arguments;
    Dwarf_Die function = source.place->die, child;
    if (dwarf_child(&function, &child) != 0)
        return {};
    std::size_t looked = 0;
    do {
        if (dwarf_tag(&child) == DW_TAG_formal_parameter)
            arguments.push_back(evaluator.argument(&child, static_cast<unsigned>(arguments.size())));
    } while (++looked < parameter_dies_max && arguments.size() < analysis_arguments_max &&
             dwarf_siblingof(&child, &child) == 0);
    return arguments;
}

} // namespace incident::postmortem
