#include "postmortem/heap/call_stack_names.h"

#include "postmortem/terminal/escape.h"
#include "postmortem/unwind/place_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::postmortem {

namespace {

constexpr std::string_view libraries[] = {"operator new", "operator delete", "std::", "__gnu_cxx::", "__cxxabiv1::"};

constexpr std::string_view allocators[] = {"malloc", "calloc", "realloc", "reallocarray", "free", "__libc_calloc"};

bool of_library(const Frame &frame) {
    return std::ranges::find(allocators, frame.symbol) != std::end(allocators) ||
           std::ranges::any_of(libraries, [&](std::string_view prefix) { return frame.symbol.starts_with(prefix); });
}

// A frame of a folded line: ';' parts frames, a line ends at a newline.
std::string folded_name(const Frame &frame) {
    std::string name = frame.symbol.empty() ? function_text(frame) : frame.symbol;
    std::ranges::replace(name, ';', ':');
    return printable(name);
}

} // namespace

CallStackNames::CallStackNames(const Analysis &analysis) : analysis_(analysis) {
    for (const CallStack &stack : analysis.call_stacks)
        by_id_.emplace(stack.id, &stack);
}

const CallStack *CallStackNames::find(std::uint64_t id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second;
}

std::string CallStackNames::caller(std::uint64_t id) const {
    const CallStack *stack = find(id);
    return stack && stack->frames.size() > 1 ? frame(*stack, 1).symbol : "";
}

bool CallStackNames::calls_through(std::uint64_t id, std::span<const std::string_view> functions) const {
    constexpr std::size_t next = 4; // inlined ones counted
    const CallStack *stack = find(id);
    for (std::size_t i = 1; stack && i < std::min(stack->frames.size(), next); ++i)
        if (std::ranges::find(functions, frame(*stack, i).symbol) != functions.end())
            return true;
    return false;
}

std::string CallStackNames::place(std::uint64_t id) const {
    const CallStack *stack = find(id);
    if (!stack || stack->frames.size() < 2)
        return "";
    for (std::size_t i = 1; i < stack->frames.size(); ++i)
        if (!of_library(frame(*stack, i)))
            return place_text(frame(*stack, i));
    return place_text(frame(*stack, 1));
}

std::vector<std::string> CallStackNames::lines(std::uint64_t id, std::size_t most) const {
    std::vector<std::string> lines;
    const CallStack *stack = find(id);
    if (!stack)
        return lines;
    for (std::size_t i = 1; i < stack->frames.size() && lines.size() < most; ++i)
        lines.push_back(place_text(frame(*stack, i)));
    if (stack->frames.size() > most + 1)
        lines.push_back(fmt::format("… {} more frames", stack->frames.size() - most - 1));
    else if (stack->truncated)
        lines.push_back("… " + stack->reason);
    return lines;
}

std::string CallStackNames::folded(std::uint64_t id) const {
    const CallStack *stack = find(id);
    if (!stack || stack->frames.empty())
        return fmt::format("[call stack {:#x} not unwound]", id);
    std::string line = stack->truncated ? "[cut]" : "";
    for (std::size_t i = stack->frames.size(); i-- > 0;)
        line += (line.empty() ? "" : ";") + folded_name(frame(*stack, i));
    return line;
}

} // namespace incident::postmortem
