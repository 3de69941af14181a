#include "postmortem/unwind/go_message.h"

#include <algorithm>

namespace incident::postmortem {

namespace {

constexpr std::uint64_t message_max = 256; // bytes; the longest of Go's own have some 80
constexpr std::uint64_t own_frame_max = 1024;

bool is_beginning_of(ModuleSet &modules, std::uint64_t address, std::string_view name) {
    const std::size_t index = modules.index_at(UserAddress(address));
    ElfModule *module = index == ModuleSet::none ? nullptr : modules.elf(index);
    if (!module)
        return false;
    const auto scope = modules.parsing(index, Part::file);
    const LinkAddress linked = UserAddress(address) - module->bias();
    const GoTable *table = module->go();
    const auto function = table ? table->function_at(linked) : std::nullopt;
    return function && function->entry == linked && function->name == name;
}

// Of text that the program has as a constant.
std::optional<std::string> constant_text(ModuleSet &modules, std::uint64_t address, std::uint64_t length) {
    const capture::Mapping *mapping = modules.image().maps.find(UserAddress(address));
    if (!mapping || mapping->write || !mapping->is_file() || length == 0 || length > message_max)
        return std::nullopt;
    std::string text(length, '\0');
    if (modules.read(address, text) != length ||
        !std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; }))
        return std::nullopt;
    return text;
}

} // namespace

// Both have what they print in a closure, in their own frame: the code of func1, and the text's address and length.
std::optional<std::string> go_fatal_error(ModuleSet &modules, const NamedStack &stack) {
    for (std::size_t i = 0; i < stack.stack.frames.size() && i < stack.sources.size(); ++i) {
        const std::string &name = stack.stack.frames[i].symbol;
        if ((name != "runtime.throw" && name != "runtime.fatal") || stack.stack.frames[i].inlined)
            continue;
        const std::size_t walked = stack.sources[i].walked;
        const WalkFrame &frame = stack.walk.frames[walked];
        const auto begin = frame.registers[dwarf_rsp];
        if (!begin || !frame.cfa || *frame.cfa <= *begin || *frame.cfa - *begin > own_frame_max)
            return std::nullopt;
        std::optional<std::string> found;
        for (std::uint64_t at = *begin; at + 24 <= *frame.cfa; at += 8) {
            const auto code = modules.word(at), address = modules.word(at + 8), length = modules.word(at + 16);
            if (!code || !address || !length || !is_beginning_of(modules, *code, name + ".func1"))
                continue;
            auto text = constant_text(modules, *address, *length);
            if (!text || found)
                return std::nullopt;
            found = std::move(text);
        }
        return found;
    }
    return std::nullopt;
}

} // namespace incident::postmortem
