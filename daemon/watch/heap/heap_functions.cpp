#include "daemon/watch/heap/heap_functions.h"

#include "capture/decode/x86_instruction.h"
#include "daemon/probe/elf_image.h"
#include "daemon/probe/function_leaves.h"
#include "daemon/probe/probe_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace incident::daemon {

namespace {

using bpf::heap_function;

// Whose functions they are: of whoever defines them; or only of an allocator with operators of its own.
enum class Of { Anyone, Allocator };

struct Name {
    std::string_view symbol, text;
    heap_function function;
    Of of = Of::Anyone;
    bool throws = false;
};

// Best known first: of several names of one address the first counts.  Mangled names: Itanium C++ ABI 5.1.3.
constexpr Name names[] = {
    {"malloc", "malloc", bpf::HEAP_MALLOC},
    {"free", "free", bpf::HEAP_FREE},
    {"calloc", "calloc", bpf::HEAP_CALLOC},
    {"realloc", "realloc", bpf::HEAP_REALLOC},
    {"reallocarray", "reallocarray", bpf::HEAP_REALLOCARRAY},
    {"aligned_alloc", "aligned_alloc", bpf::HEAP_ALIGNED},
    {"posix_memalign", "posix_memalign", bpf::HEAP_POSIX_MEMALIGN},
    {"memalign", "memalign", bpf::HEAP_ALIGNED},
    {"valloc", "valloc", bpf::HEAP_MALLOC},
    {"pvalloc", "pvalloc", bpf::HEAP_MALLOC},
    {"cfree", "cfree", bpf::HEAP_FREE},
    {"mallocx", "mallocx", bpf::HEAP_MALLOCX, Of::Allocator},
    {"rallocx", "rallocx", bpf::HEAP_RALLOCX, Of::Allocator},
    {"xallocx", "xallocx", bpf::HEAP_XALLOCX, Of::Allocator},
    {"dallocx", "dallocx", bpf::HEAP_FREE, Of::Allocator},
    {"sdallocx", "sdallocx", bpf::HEAP_FREE, Of::Allocator},
    {"mi_malloc", "mi_malloc", bpf::HEAP_MALLOC, Of::Allocator},
    {"mi_calloc", "mi_calloc", bpf::HEAP_CALLOC, Of::Allocator},
    {"mi_realloc", "mi_realloc", bpf::HEAP_REALLOC, Of::Allocator},
    {"mi_free", "mi_free", bpf::HEAP_FREE, Of::Allocator},
    {"_Znwm", "operator new", bpf::HEAP_NEW, Of::Allocator, true},
    {"_Znam", "operator new[]", bpf::HEAP_NEW, Of::Allocator, true},
    {"_ZnwmSt11align_val_t", "operator new", bpf::HEAP_NEW, Of::Allocator, true},
    {"_ZnamSt11align_val_t", "operator new[]", bpf::HEAP_NEW, Of::Allocator, true},
    {"_ZnwmRKSt9nothrow_t", "operator new", bpf::HEAP_NEW, Of::Allocator},
    {"_ZnamRKSt9nothrow_t", "operator new[]", bpf::HEAP_NEW, Of::Allocator},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", "operator new", bpf::HEAP_NEW, Of::Allocator},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", "operator new[]", bpf::HEAP_NEW, Of::Allocator},
    {"_ZdlPv", "operator delete", bpf::HEAP_DELETE, Of::Allocator},
    {"_ZdaPv", "operator delete[]", bpf::HEAP_DELETE, Of::Allocator},
    {"_ZdlPvm", "operator delete", bpf::HEAP_DELETE, Of::Allocator},
    {"_ZdaPvm", "operator delete[]", bpf::HEAP_DELETE, Of::Allocator},
    {"_ZdlPvSt11align_val_t", "operator delete", bpf::HEAP_DELETE, Of::Allocator},
    {"_ZdaPvSt11align_val_t", "operator delete[]", bpf::HEAP_DELETE, Of::Allocator},
    {"_ZdlPvmSt11align_val_t", "operator delete", bpf::HEAP_DELETE, Of::Allocator},
    {"_ZdaPvmSt11align_val_t", "operator delete[]", bpf::HEAP_DELETE, Of::Allocator},
    {"_ZdlPvRKSt9nothrow_t", "operator delete", bpf::HEAP_DELETE, Of::Allocator},
    {"_ZdaPvRKSt9nothrow_t", "operator delete[]", bpf::HEAP_DELETE, Of::Allocator},
};
// What only such allocators define.
constexpr std::string_view marks[] = {"mallctl", "tc_malloc", "mi_malloc"};

constexpr std::uint64_t function_max = 1u << 16; // bytes of one looked at

struct AllocatorFunction {
    LinkAddress address;
    std::uint64_t size = 0;
    const Name *name = nullptr;
    bool indirect = false; // STT_GNU_IFUNC
};

constexpr ZydisRegister kept[] = {ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDX, ZYDIS_REGISTER_RSP,
                                  ZYDIS_REGISTER_RBP, ZYDIS_REGISTER_RBX, ZYDIS_REGISTER_R12, ZYDIS_REGISTER_R13,
                                  ZYDIS_REGISTER_R14, ZYDIS_REGISTER_R15};

// Where a function that is nothing but a direct jump leads to; nullopt: it is more, or jumps through a table.
std::optional<LinkAddress> only_jumps_to(const ElfImage &image, LinkAddress address) {
    constexpr std::size_t endbr64 = 4;
    const auto code = image.bytes(address, 16);
    const std::size_t at = is_endbr64(code) ? endbr64 : 0;
    const auto jump = capture::decode_x86(std::span(code).subspan(at));
    const auto distance = jump && jump->mnemonic == ZYDIS_MNEMONIC_JMP ? jump->distance() : std::nullopt;
    if (!distance)
        return std::nullopt;
    return address + at + jump->length + static_cast<std::uint64_t>(*distance);
}

void find_place(const ElfImage &image, const AllocatorFunction &function, const UprobeAbilities &abilities,
                HeapSite &site) {
    const auto offset = image.file_offset(function.address, true);
    if (!offset) {
        site.problem = "no executable segment holds it";
        return;
    }
    constexpr std::size_t entry_bytes = 128;
    const auto entry = image.bytes(function.address,
                                   function.size ? std::min<std::uint64_t>(function.size, entry_bytes) : entry_bytes);
    const std::size_t at = cheap_entry(entry, abilities);
    site.offset = *offset + at;
    site.remark = price_warning(price_of(std::span(entry).subspan(std::min(at, entry.size())), abilities));
    if (!function.name->throws)
        return;
    constexpr std::string_view because = "an exception that passes through it would end the program if its return "
                                         "were probed";
    const auto code = image.bytes(function.address, std::min(function.size, function_max));
    if (function.size == 0 || function.size > function_max || code.size() < function.size) {
        site.problem = fmt::format("{}, and where it ends is not known", because);
        return;
    }
    const auto leaves = find_leaves(code);
    if (!leaves || leaves->jumps_out) {
        site.problem = fmt::format("{}, and its ret instructions cannot be probed instead: {}", because,
                                   leaves ? "it also ends by jumping to other functions" : leaves.error().what);
        return;
    }
    for (const auto returns : leaves->returns)
        site.returns.push_back(*offset + returns);
    site.remark = "its ret instructions are probed: single-stepped, about 10 µs a call";
}

} // namespace

std::size_t cheap_entry(std::span<const std::uint8_t> code, const UprobeAbilities &abilities) {
    constexpr unsigned instructions_max = 8;
    std::size_t at = 0;
    for (unsigned i = 0; i < instructions_max && at < code.size(); ++i) {
        const auto rest = code.subspan(at);
        if (price_of(rest, abilities) == ProbePrice::Emulated)
            return at;
        const auto instruction = capture::decode_x86(rest);
        if (!instruction || instruction->changes_course() || instruction->writes_any_of(kept))
            return 0;
        at += instruction->length;
    }
    return 0;
}

Result<std::vector<HeapSite>> find_heap_functions(int fd, const UprobeAbilities &abilities) {
    const auto image = ElfImage::read(fd);
    if (!image)
        return fail(image.error());
    std::map<LinkAddress, AllocatorFunction> functions;
    bool allocator = false;
    const auto walked = image->walk_symbols([&](const ElfSymbol &symbol) {
        // A file's own static function of such a name is anything; what others can call is the real one.
        if (!symbol.defined || symbol.binding == STB_LOCAL)
            return true;
        allocator |= std::ranges::find(marks, symbol.name) != std::end(marks);
        const auto name = std::ranges::find(names, symbol.name, &Name::symbol);
        if (name == std::end(names) ||
            (symbol.type != STT_FUNC && symbol.type != STT_NOTYPE && symbol.type != STT_GNU_IFUNC))
            return true;
        AllocatorFunction &function = functions[symbol.address];
        function.address = symbol.address;
        function.size = std::max(function.size, symbol.size);
        function.indirect |= symbol.type == STT_GNU_IFUNC;
        if (!function.name || name < function.name)
            function.name = name;
        return true;
    });
    if (!walked)
        return fail(walked.error());
    std::vector<HeapSite> sites;
    for (const auto &[address, function] : functions) {
        if (function.name->of == Of::Allocator && !allocator)
            continue;
        if (const auto other = only_jumps_to(*image, address); other && functions.contains(*other))
            continue; // told of by that one
        HeapSite &site = sites.emplace_back();
        site.name = function.name->text;
        site.function = function.name->function;
        if (function.indirect)
            site.problem = "it is an indirect function (IFUNC)";
        else
            find_place(*image, function, abilities, site);
    }
    return sites;
}

} // namespace incident::daemon
