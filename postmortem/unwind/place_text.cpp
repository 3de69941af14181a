#include "postmortem/unwind/place_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace incident::postmortem {

namespace {

std::string_view base_name(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

} // namespace

std::string_view source_name(const Frame &frame) {
    std::string_view name = frame.symbol;
    for (const std::string_view added : {".constprop.", ".isra.", ".part.", ".cold"})
        name = name.substr(0, name.find(added));
    return name;
}

std::string function_text(const Frame &frame) {
    if (!frame.symbol.empty())
        return std::string(source_name(frame)) + "()";
    if (!frame.module.empty())
        return fmt::format("{}+{:#x}", base_name(frame.module), frame.offset);
    return hex(frame.ip);
}

std::string place_text(const Frame &frame) {
    std::string text = frame.symbol;
    if (text.empty())
        return function_text(frame);
    if (frame.symbol_offset)
        text += fmt::format("+{:#x}", frame.symbol_offset);
    if (!frame.file.empty())
        return fmt::format("{} ({}:{})", text, base_name(frame.file), frame.line);
    if (!frame.module.empty())
        return fmt::format("{} ({})", text, base_name(frame.module));
    return text;
}

std::string hex(std::uint64_t value) {
    return fmt::format("{:#x}", value);
}

std::string bytes_text(std::uint64_t bytes) {
    constexpr std::uint64_t kib = 1024, mib = kib * kib, gib = mib * kib;
    if (bytes >= gib)
        return fmt::format("{:.3g} GiB", static_cast<double>(bytes) / gib);
    if (bytes >= mib)
        return fmt::format("{:.3g} MiB", static_cast<double>(bytes) / mib);
    if (bytes >= kib)
        return fmt::format("{:.3g} KiB", static_cast<double>(bytes) / kib);
    return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
}

std::string mapping_text(const capture::Mapping &mapping) {
    return fmt::format("{} ({}{}{})", mapping.path.empty() ? "anonymous memory" : mapping.path,
                       mapping.read ? 'r' : '-', mapping.write ? 'w' : '-', mapping.execute ? 'x' : '-');
}

std::optional<std::uint64_t> register_value(const user_regs_struct &r, std::string_view name) {
    struct Family {
        std::array<std::string_view, 5> names; // 64, 32, 16, 8 bits, and the second byte
        std::uint64_t value;
    };
    const Family families[] = {
        {{"rax", "eax", "ax", "al", "ah"}, r.rax},    {{"rbx", "ebx", "bx", "bl", "bh"}, r.rbx},
        {{"rcx", "ecx", "cx", "cl", "ch"}, r.rcx},    {{"rdx", "edx", "dx", "dl", "dh"}, r.rdx},
        {{"rsi", "esi", "si", "sil", ""}, r.rsi},     {{"rdi", "edi", "di", "dil", ""}, r.rdi},
        {{"rbp", "ebp", "bp", "bpl", ""}, r.rbp},     {{"rsp", "esp", "sp", "spl", ""}, r.rsp},
        {{"r8", "r8d", "r8w", "r8b", ""}, r.r8},      {{"r9", "r9d", "r9w", "r9b", ""}, r.r9},
        {{"r10", "r10d", "r10w", "r10b", ""}, r.r10}, {{"r11", "r11d", "r11w", "r11b", ""}, r.r11},
        {{"r12", "r12d", "r12w", "r12b", ""}, r.r12}, {{"r13", "r13d", "r13w", "r13b", ""}, r.r13},
        {{"r14", "r14d", "r14w", "r14b", ""}, r.r14}, {{"r15", "r15d", "r15w", "r15b", ""}, r.r15},
        {{"rip", "eip", "", "", ""}, r.rip},
    };
    if (name.empty())
        return std::nullopt;
    for (const Family &family : families) {
        const auto it = std::ranges::find(family.names, name);
        if (it == family.names.end())
            continue;
        switch (it - family.names.begin()) {
        case 0:
            return family.value;
        case 1:
            return family.value & 0xffffffff;
        case 2:
            return family.value & 0xffff;
        case 3:
            return family.value & 0xff;
        default:
            return family.value >> 8 & 0xff;
        }
    }
    return std::nullopt;
}

} // namespace incident::postmortem
