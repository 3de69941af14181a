#include "daemon/probe/probe_elf.h"

#include "capture/collect/collect.h"
#include "capture/decode/symbol_name.h"
#include "capture/decode/x86_instruction.h"
#include "capture/os/process_files.h"
#include "daemon/probe/elf_image.h"
#include "daemon/probe/exit_points.h"
#include "daemon/probe/function_leaves.h"
#include "daemon/probe/go_program.h"
#include "daemon/probe/own_jumps.h"
#include "daemon/probe/probe_words.h"
#include "daemon/probe/symbol_name.h"
#include "rules/text/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace incident::daemon {

namespace {

constexpr std::size_t near_max = 4096;                   // names kept to find near ones among
constexpr std::uint64_t walk_max = 1u << 20;             // bytes of instructions walked to reach an offset
constexpr std::uint64_t demangled_bytes_max = 64u << 20; // some seconds; names are filtered before

struct FoundFunction {
    std::string symbol, version;
    LinkAddress address;
    std::uint64_t size = 0;
    bool default_version = true;
    bool clone = false;
    std::string text() const {
        const std::string name = readable_name(symbol);
        return version.empty() ? name : name + (default_version ? "@@" : "@") + version;
    }
    // What it is, or is a copy of: constructors of one text (C1, C2) are one.
    std::string original() const { return readable_name(capture::clone_name(symbol).stem); }
};

struct Found {
    std::map<LinkAddress, FoundFunction> functions; // aliases are one
    std::string refusal;                            // the name is there, but is none to probe
    bool default_refused = false;                   // that is so of its default version
    bool throws = false;                            // exceptions can pass through this program's functions
    bool switches_stacks = false;                   // coroutines
    bool hosts_switching = false;                   // what it loads may switch its stacks
    std::vector<std::string> parts;                 // pieces of the wanted one
    std::vector<std::string> near;                  // names that hold the wanted one
    std::vector<std::string> others;
};

void note_name(const ElfSymbol &symbol, const WantedName &wanted, Found &found) {
    if (symbol.type != STT_FUNC || !symbol.defined)
        return;
    const bool mangled = capture::is_mangled(symbol.name);
    if (wanted.resembles(symbol.name)) {
        if (found.near.size() < near_max)
            found.near.emplace_back(symbol.name);
    } else if (found.others.size() < near_max && (mangled || (symbol.name.size() <= wanted.base().size() + 2 &&
                                                              symbol.name.size() + 2 >= wanted.base().size()))) {
        found.others.emplace_back(symbol.name);
    }
}

void look_at(const ElfSymbol &symbol, const WantedName &wanted, Found &found) {
    // what code with clean-ups or handlers calls: C++, Rust
    found.throws |= symbol.name == "_Unwind_Resume" || symbol.name == "__cxa_throw" ||
                    symbol.name == "__gxx_personality_v0" || symbol.name == "_Unwind_RaiseException";
    // the kernel keeps return addresses as one stack a thread, and kills what returns otherwise
    found.switches_stacks |= (!symbol.defined && (symbol.name == "swapcontext" || symbol.name == "makecontext")) ||
                             symbol.name == "jump_fcontext" || symbol.name == "ontop_fcontext";
    found.hosts_switching |= hosts_switching(symbol);
    const auto match = wanted.matches(symbol.name, symbol.version, symbol.default_version);
    if (match == WantedName::Match::No)
        return note_name(symbol, wanted, found);
    if (match == WantedName::Match::Part) {
        if (found.parts.size() < near_max)
            found.parts.emplace_back(symbol.name);
        return;
    }
    if (!symbol.defined) {
        if (found.refusal.empty())
            found.refusal = "is only called here (through the PLT), not defined: name the library that defines it";
    } else if (symbol.type == STT_GNU_IFUNC) {
        found.refusal = "is an indirect function (IFUNC): the loader chooses one of several when the program starts; "
                        "name the one that runs";
        found.default_refused |= !symbol.version.empty() && symbol.default_version;
    } else if (symbol.type == STT_OBJECT || symbol.type == STT_TLS || symbol.type == STT_COMMON) {
        found.refusal = "is a variable, not a function";
    } else if (symbol.type == STT_FUNC || symbol.type == STT_NOTYPE) {
        auto &function = found.functions[symbol.address];
        // the richest of its aliases' descriptions
        if (function.symbol.empty() || (function.version.empty() && !symbol.version.empty()))
            function = {std::string(symbol.name), std::string(symbol.version),
                        symbol.address,           std::max(symbol.size, function.size),
                        symbol.default_version,   match == WantedName::Match::Clone};
        function.size = std::max(function.size, symbol.size);
    }
}

// "f" of a library that has f@@NEW and f@OLD is what a program linked today would get.
void prefer_default_version(Found &found) {
    const auto is_default = [](const auto &entry) { return entry.second.default_version && !entry.second.clone; };
    if (found.default_refused || std::ranges::count_if(found.functions, is_default) == 1)
        std::erase_if(found.functions, [](const auto &entry) { return !entry.second.default_version; });
}

std::string why_not_found(const ElfImage &image, bool debug_file, const WantedName &wanted, Found &found) {
    std::string reason = "no such function";
    if (!found.parts.empty()) // it was split up, and what is left of it inlined
        return fmt::format("{}; only pieces of it are left, which are not entered as it is: {}; the compiler has "
                           "inlined the rest",
                           reason, list_names(found.parts));
    std::vector<std::string> same;
    for (const auto &symbol : found.near)
        if (wanted.same_but_for_parameters(symbol))
            same.push_back(readable_name(symbol));
    for (auto &name : found.near)
        name = readable_name(name);
    for (auto &name : found.others)
        name = capture::function_name(name);
    const std::string near = found.near.empty() ? rules::nearest(wanted.name(), found.others) : "";
    if (!same.empty())
        reason += " with these parameters; there are: " + list_names(same);
    else if (!found.near.empty())
        reason += "; there are: " + list_names(found.near);
    else if (!near.empty())
        reason += "; did you mean '" + near + "'?";
    if (!image.has_symbols() && !debug_file)
        return reason + "; the file is stripped and its debug file is not installed: only exported functions are known";
    return reason + "; a function that the compiler inlined everywhere has no symbol";
}

// The function and the copies of it, its own first.  Error: the name is that of several.
Result<std::vector<FoundFunction>> choose(const Found &found) {
    std::vector<FoundFunction> all;
    std::set<std::string> originals, symbols;
    std::size_t own = 0;
    bool twice = false;
    for (const auto &[address, function] : found.functions) {
        originals.insert(function.original());
        twice |= !symbols.insert(function.symbol).second;
        own += !function.clone;
        all.push_back(function);
    }
    if (originals.size() == 1 && own <= 1 && !twice) {
        std::ranges::stable_partition(all, [](const FoundFunction &function) { return !function.clone; });
        return all;
    }
    std::vector<std::string> names;
    std::set<std::string> distinct;
    for (const auto &function : all)
        distinct.insert(function.text());
    names.reserve(all.size());
    for (const auto &function : all)
        names.push_back(distinct.size() == all.size() ? function.text() : function.symbol);
    return fail(fmt::format("{} functions have this name: {}", all.size(), list_names(names)));
}

UniqueFd open_debug_file(int fd, const DebugRoots &debug) {
    const std::string id = capture::build_id_of_file(fd);
    if (id.size() < 4)
        return UniqueFd();
    for (const auto &directory : debug.directories) {
        auto file =
            capture::open_regular(-1, directory + "/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug");
        if (file && capture::build_id_of_file(file->get()) == id)
            return std::move(*file);
    }
    return UniqueFd();
}

// Error: offset is not where an instruction begins; a breakpoint there would be part of
// another instruction's operand.
Status check_boundary(std::span<const std::uint8_t> code, std::uint64_t offset) {
    std::uint64_t at = 0;
    while (at < offset) {
        const auto instruction = capture::decode_x86(code.subspan(at));
        if (!instruction)
            return fail(
                fmt::format("+{:#x} cannot be checked: what stands at +{:#x} is not a known instruction", offset, at));
        at += instruction->length;
    }
    if (at == offset)
        return {};
    return fail(fmt::format("+{:#x} lies within an instruction; one begins at +{:#x}", offset, at));
}

// Fills in site.returns, for a program that cannot bear a return probe.
struct NoReturnProbe {
    std::string because, program;
};

std::optional<NoReturnProbe> why_no_return_probe(bool go, const Found &found, const FunctionSpec &spec) {
    if (go)
        return NoReturnProbe{"its program is in Go, whose stacks move, and would be killed if its return were probed",
                             "its program is in Go, whose stacks move"};
    if (found.throws)
        return NoReturnProbe{"an exception that passes through it would end the program if its return were probed",
                             "its program can throw exceptions"};
    if (found.switches_stacks)
        return NoReturnProbe{"its program switches stacks, and would be killed if its return were probed",
                             "its program switches stacks"};
    if (found.hosts_switching)
        return NoReturnProbe{
            "what its program loads may switch stacks (greenlet), and it would be killed if its return were probed",
            "its program may load what switches stacks (greenlet)"};
    if (!spec.no_return_probe.empty())
        return NoReturnProbe{fmt::format("{}, and the process would be killed if this function's return were probed",
                                         spec.no_return_probe),
                             spec.no_return_probe};
    return std::nullopt;
}

Status avoid_return_probe(const ElfImage &image, const FoundFunction &function, const NoReturnProbe &why,
                          FileOffset entry, ProbeSite &site) {
    const std::string &because = why.because;
    const auto code = image.bytes(function.address, std::min(function.size, walk_max));
    if (function.size == 0 || function.size > walk_max || code.size() < function.size)
        return fail(fmt::format("{}, and where it ends is not known; give `leave`", because));
    const auto leaves = find_leaves(code);
    if (!leaves)
        return fail(fmt::format("{}, and its ret instructions cannot be probed instead: {}; give `leave`", because,
                                leaves.error().what));
    for (const auto at : leaves->returns)
        site.returns.push_back(entry + at);
    site.warning = fmt::format("{}, so its ret instructions are probed instead of its return: they are "
                               "single-stepped, about 10 µs a call",
                               why.program);
    if (leaves->jumps_out)
        site.warning += "; calls that end by a jump to another function are not timed";
    return {};
}

Result<ProbeSite> site_of(const ElfImage &image, const FoundFunction &function, const FunctionSpec &spec,
                          const UprobeAbilities &abilities, const Found &found) {
    ProbeSite site;
    site.function = function.text();
    const bool go = is_go(image);
    if (go)
        if (auto known = check_goroutine(image, function.symbol); !known)
            return fail(known.error());
    site.calls = go                      ? ProbeSite::Calls::OfGoroutine
                 : found.switches_stacks ? ProbeSite::Calls::OfStack
                                         : ProbeSite::Calls::OfThread;
    if (spec.offset && spec.offset >= std::max<std::uint64_t>(function.size, 1))
        return fail(function.size ? fmt::format("+{:#x} lies beyond the function, which has {:#x} bytes", spec.offset,
                                                function.size)
                                  : "has no known size, so an offset in it cannot be checked");
    const auto offset = image.file_offset(function.address, true);
    if (!offset)
        return fail("has an address that no executable segment holds");

    constexpr std::size_t entry_bytes = 32;
    if (spec.offset > walk_max)
        return fail(fmt::format("+{:#x} lies too deep in the function to be checked", spec.offset));
    const auto code = image.bytes(function.address, spec.offset + entry_bytes);
    const std::span<const std::uint8_t> all(code);
    if (code.size() <= spec.offset)
        return fail("ends within the function");
    if (auto boundary = check_boundary(all, spec.offset); !boundary)
        return fail(boundary.error());
    std::uint64_t at = spec.offset;
    site.price = price_of(all.subspan(at), abilities);
    // endbr64 does nothing, and nobody jumps behind it: the same call, the same stack
    // pointer, so a probe of the return may stand there as well.
    constexpr std::size_t endbr64 = 4;
    if (spec.offset == 0 && is_endbr64(all) && (function.size == 0 || function.size > endbr64) &&
        price_of(all.subspan(endbr64), abilities) == ProbePrice::Emulated) {
        at = endbr64;
        site.price = ProbePrice::Emulated;
    }
    site.warning = price_warning(site.price);
    site.offset = *offset + at;
    if (const auto why = why_no_return_probe(go, found, spec); why && spec.wants_return)
        if (auto avoided = avoid_return_probe(image, function, *why, *offset, site); !avoided)
            return fail(avoided.error());
    return site;
}

// The places of the function and its copies.  One that cannot be probed takes nothing from the others, but is said.
Result<std::vector<ProbeSite>> sites_of(const ElfImage &image, const std::vector<FoundFunction> &functions,
                                        const FunctionSpec &spec, const UprobeAbilities &abilities,
                                        const Found &found) {
    std::vector<ProbeSite> sites;
    std::vector<std::string> copies;
    std::string missed;
    for (const auto &function : functions) {
        auto site = site_of(image, function, spec, abilities, found);
        if (!site && !function.clone)
            return fail(site.error());
        if (!site) {
            missed += fmt::format("{}its copy {} is not probed: {}", missed.empty() ? "" : "; ", function.symbol,
                                  site.error().what);
            continue;
        }
        if (function.clone)
            copies.push_back(function.symbol);
        sites.push_back(std::move(*site));
    }
    if (sites.empty())
        return fail(missed);
    if (!copies.empty())
        sites.front().note =
            fmt::format("{} the copies that the compiler made of it: {}",
                        functions.front().clone ? "only in the program as" : "probed with", list_names(copies));
    if (!missed.empty())
        sites.front().warning += (sites.front().warning.empty() ? "" : "; ") + missed;
    return sites;
}

} // namespace

Result<std::vector<ProbeSite>> find_function(int fd, const FunctionSpec &spec, const UprobeAbilities &abilities,
                                             const DebugRoots &debug) {
    const auto image = ElfImage::read(fd);
    if (!image)
        return fail(image.error());
    const WantedName wanted(spec.symbol);
    Found found;
    const auto walk = [&](const ElfImage &from) {
        return from.walk_symbols([&](const ElfSymbol &symbol) {
            look_at(symbol, wanted, found);
            return wanted.demangled_bytes() < demangled_bytes_max;
        });
    };
    if (auto walked = walk(*image); !walked)
        return fail(walked.error());
    UniqueFd debug_fd;
    if (!image->has_symbols() && found.functions.empty()) {
        debug_fd = open_debug_file(fd, debug);
        if (debug_fd)
            if (const auto other = ElfImage::read(debug_fd.get()))
                (void)walk(*other); // what it has lost of itself is only not found
    }
    if (!image->has_symbols() && !image->has_dynamic_symbols() && !debug_fd)
        return fail("the file is stripped and its debug file is not installed");
    if (wanted.demangled_bytes() >= demangled_bytes_max)
        return fail(fmt::format("is looked for in a program with more than {} MiB of names that it could be: give the "
                                "mangled one",
                                demangled_bytes_max >> 20));
    prefer_default_version(found);
    if (found.functions.empty()) {
        if (!found.refusal.empty())
            return fail(found.refusal);
        return fail(why_not_found(*image, static_cast<bool>(debug_fd), wanted, found));
    }
    auto functions = choose(found);
    if (!functions)
        return fail(functions.error());
    if (spec.offset && functions->size() > 1) { // it counts in one code
        if (functions->front().clone)
            return fail(fmt::format("is only in the program as {} copies, each with code of its own: an offset needs "
                                    "the name of one",
                                    functions->size()));
        functions->resize(1);
    }
    if (spec.wants_return && !found.switches_stacks && !is_go(*image))
        found.switches_stacks = has_own_jumps(*image);
    return sites_of(*image, *functions, spec, abilities, found);
}

} // namespace incident::daemon
