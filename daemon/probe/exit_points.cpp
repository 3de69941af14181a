#include "daemon/probe/exit_points.h"

#include "daemon/probe/elf_image.h"
#include "daemon/probe/own_jumps.h"

#include <algorithm>
#include <array>
#include <set>

namespace incident::daemon {

namespace {

constexpr std::string_view unwinder = "_Unwind_SetIP";
// glibc and musl have one function under most of these names.
// Free Pascal's has the layout of musl's buffer.
constexpr std::array<std::string_view, 7> jumps = {"longjmp",        "_longjmp",          "siglongjmp", "__longjmp_chk",
                                                   "__libc_longjmp", "__libc_siglongjmp", "FPC_LONGJMP"};
// What code that throws, catches or cleans up refers to.
constexpr std::array<std::string_view, 5> of_exceptions = {
    "_Unwind_Resume", "_Unwind_RaiseException", "__gxx_personality_v0", "__gcc_personality_v0", "_Unwind_ForcedUnwind"};
// What an unwinder finds the tables of all loaded files by.  The C library has tables for its own clean-ups as well,
// but loads the unwinder for them.
constexpr std::array<std::string_view, 2> of_unwinders = {"dl_iterate_phdr", "_dl_find_object"};
// Functions that go over to another stack and are too hot to be probed.  Not makecontext and setcontext alone: OpenSSL
// has those for asynchronous engines that few use.
constexpr std::array<std::string_view, 7> switches = {"swapcontext",     "jump_fcontext", "ontop_fcontext",
                                                      "switch_fcontext", "co_switch",     "coro_transfer",
                                                      "PyInit__greenlet"};

// Interpreters: what each module for coroutines needs of them.
constexpr std::array<std::string_view, 2> hosts = {"_PyEval_EvalFrameDefault", "Perl_runops_standard"};
// What a debugger stops at as well: the dynamic loaders of glibc and musl call it when they have mapped libraries,
// before any code in these runs.
constexpr std::string_view loaded = "_dl_debug_state";

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
}

// libc defines swapcontext for whoever calls it.
bool is_switch(const ElfSymbol &symbol) {
    return is_one_of(switches, symbol.name) && (!symbol.defined || symbol.name != switches.front());
}

// Bytes to behind an endbr64, where the entry itself would be single-stepped and the next instruction is not.
std::size_t cheaper_entry(const ElfImage &image, LinkAddress address, const UprobeAbilities &abilities) {
    constexpr std::size_t endbr64 = 4;
    const auto code = image.bytes(address, 32);
    const std::span<const std::uint8_t> all(code);
    return is_endbr64(all) && price_of(all.subspan(endbr64), abilities) == ProbePrice::Emulated ? endbr64 : 0;
}

} // namespace

Result<FileExits> find_exits(int fd, const UprobeAbilities &abilities) {
    const auto image = ElfImage::read(fd);
    if (!image)
        return fail(image.error());
    FileExits exits;
    std::set<ExitPoint> points;
    bool exceptions_known = false, own_unwinder = false, functions_known = image->has_symbols();
    const auto walked = image->walk_symbols([&](const ElfSymbol &symbol) {
        const bool function = symbol.defined && (symbol.type == STT_FUNC || symbol.type == STT_NOTYPE);
        functions_known |= function;
        exceptions_known |= symbol.name == unwinder || is_one_of(of_exceptions, symbol.name);
        own_unwinder |= !symbol.defined && is_one_of(of_unwinders, symbol.name);
        exits.switches_stacks |= is_switch(symbol);
        if (!function)
            return true;
        const bool lands = symbol.name == unwinder, jump = is_one_of(jumps, symbol.name);
        if (!lands && !jump && symbol.name != "setcontext" && symbol.name != loaded)
            return true;
        if (const auto offset = image->file_offset(symbol.address, true))
            points.insert({lands                   ? Recorder::UprobeRole::UnwindLands
                           : jump                  ? Recorder::UprobeRole::LongJump
                           : symbol.name == loaded ? Recorder::UprobeRole::CodeLoaded
                                                   : Recorder::UprobeRole::SwitchStack,
                           *offset + cheaper_entry(*image, symbol.address, abilities)});
        return true;
    });
    if (!walked)
        return fail(walked.error());
    exits.points.assign(points.begin(), points.end());
    // A static program has the C library's thread-local variables in it; a library of data only (ICU's) has none.
    if (image->has_section(".gcc_except_table") && !exceptions_known && own_unwinder)
        exits.hidden = "throws exceptions through an unwinder of its own whose symbols are stripped";
    else if (!functions_known && !image->has_section(".interp") &&
             (!image->has_dynamic_symbols() || image->has_section(".tbss")))
        exits.hidden = "is linked statically and stripped: how its exceptions and longjmps go cannot be seen";
    else if (has_own_jumps(*image))
        exits.hidden = "leaves calls by jumps of its own, which cannot be followed (as Ruby's and OCaml's exceptions)";
    return exits;
}

bool hosts_switching(const ElfSymbol &symbol) {
    return symbol.defined && is_one_of(hosts, symbol.name);
}

Result<std::string> why_no_return_probes(int fd) {
    const auto image = ElfImage::read(fd);
    if (!image)
        return fail(image.error());
    bool switching = false, hosting = false;
    const auto walked = image->walk_symbols([&](const ElfSymbol &symbol) {
        switching |= is_switch(symbol);
        hosting |= hosts_switching(symbol);
        return !switching;
    });
    if (!walked)
        return fail(walked.error());
    if (switching || (!hosting && has_own_jumps(*image)))
        return "switches stacks";
    return hosting ? "may load what switches stacks" : "";
}

} // namespace incident::daemon
