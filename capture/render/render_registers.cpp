#include "capture/render/render_threads.h"

#include "capture/decode/decode_text.h"
#include "capture/os/auxv.h"

#include <nlohmann/json.hpp>

#include <iterator>

namespace incident::capture {

namespace {

// bpf::user_registers' own order, which memory_window.which counts in
constexpr std::string_view names[] = {"r15", "r14",      "r13", "r12", "rbp",    "rbx", "r11",
                                      "r10", "r9",       "r8",  "rax", "rcx",    "rdx", "rsi",
                                      "rdi", "orig_rax", "rip", "cs",  "eflags", "rsp", "ss"};
constexpr std::string_view names_of_i386[] = {"",    "",         "",    "",    "ebp",    "ebx", "",
                                              "",    "",         "",    "eax", "ecx",    "edx", "esi",
                                              "edi", "orig_eax", "eip", "cs",  "eflags", "esp", "ss"};
static_assert(std::size(names) == std::size(names_of_i386));

template <std::size_t N>
nlohmann::ordered_json hex_object(const char *const (&keys)[N], const std::uint64_t (&values)[N], std::uint64_t mask) {
    nlohmann::ordered_json::object_t object;
    object.reserve(N);
    for (std::size_t i = 0; i < N; ++i)
        object.emplace_back(keys[i], hex_text(values[i] & mask));
    return object;
}

} // namespace

std::string_view register_name(std::uint8_t which, Isa isa) {
    if (which >= std::size(names))
        return {};
    return isa == Isa::i386 ? names_of_i386[which] : names[which];
}

nlohmann::ordered_json registers_json(const bpf::user_registers &r) {
    if (isa_of(r) == Isa::i386) {
        const std::uint64_t values[] = {r.ip, r.sp,      r.bp, r.flags, r.ax, r.bx, r.cx, r.dx,      r.si,
                                        r.di, r.orig_ax, r.cs, r.ss,    r.ds, r.es, r.fs, r.gs_base, r.gs};
        constexpr const char *keys[] = {"eip", "esp",      "ebp", "eflags", "eax", "ebx", "ecx", "edx",     "esi",
                                        "edi", "orig_eax", "cs",  "ss",     "ds",  "es",  "fs",  "gs_base", "gs"};
        return hex_object(keys, values, word_mask(Isa::i386));
    }
    const std::uint64_t values[] = {r.ip,      r.sp, r.bp, r.flags, r.ax,  r.bx,  r.cx,  r.dx,      r.si,
                                    r.di,      r.r8, r.r9, r.r10,   r.r11, r.r12, r.r13, r.r14,     r.r15,
                                    r.orig_ax, r.cs, r.ss, r.ds,    r.es,  r.fs,  r.gs,  r.fs_base, r.gs_base};
    constexpr const char *keys[] = {"rip",      "rsp", "rbp", "eflags", "rax", "rbx", "rcx", "rdx",     "rsi",
                                    "rdi",      "r8",  "r9",  "r10",    "r11", "r12", "r13", "r14",     "r15",
                                    "orig_rax", "cs",  "ss",  "ds",     "es",  "fs",  "gs",  "fs_base", "gs_base"};
    return hex_object(keys, values, word_mask(Isa::x86_64));
}

} // namespace incident::capture
