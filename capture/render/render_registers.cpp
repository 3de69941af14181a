#include "capture/render/render_threads.h"

#include "capture/decode/decode_text.h"

#include <nlohmann/json.hpp>

#include <iterator>

namespace incident::capture {

namespace {

// bpf::user_registers' own order, which memory_window.which counts in
constexpr std::string_view names[] = {"r15", "r14",      "r13", "r12", "rbp",    "rbx", "r11",
                                      "r10", "r9",       "r8",  "rax", "rcx",    "rdx", "rsi",
                                      "rdi", "orig_rax", "rip", "cs",  "eflags", "rsp", "ss"};

} // namespace

std::string_view register_name(std::uint8_t which) {
    return which < std::size(names) ? names[which] : std::string_view{};
}

nlohmann::ordered_json registers_json(const bpf::user_registers &r) {
    const std::uint64_t values[] = {r.ip,      r.sp, r.bp, r.flags, r.ax,  r.bx,  r.cx,  r.dx,      r.si,
                                    r.di,      r.r8, r.r9, r.r10,   r.r11, r.r12, r.r13, r.r14,     r.r15,
                                    r.orig_ax, r.cs, r.ss, r.ds,    r.es,  r.fs,  r.gs,  r.fs_base, r.gs_base};
    constexpr const char *keys[] = {"rip",      "rsp", "rbp", "eflags", "rax", "rbx", "rcx", "rdx",     "rsi",
                                    "rdi",      "r8",  "r9",  "r10",    "r11", "r12", "r13", "r14",     "r15",
                                    "orig_rax", "cs",  "ss",  "ds",     "es",  "fs",  "gs",  "fs_base", "gs_base"};
    static_assert(std::size(values) == std::size(keys));
    nlohmann::ordered_json::object_t object;
    object.reserve(std::size(keys));
    for (std::size_t i = 0; i < std::size(keys); ++i)
        object.emplace_back(keys[i], hex_text(values[i]));
    return object;
}

} // namespace incident::capture
