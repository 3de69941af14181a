// Layouts: gcc's libstdc++-v3/libsupc++/unwind-cxx.h, on x86-64.  On i386 words are 4 bytes, and the header, which is
// aligned to 16, begins at 48.
//
//   struct __cxa_exception {             // offset
//     std::type_info *exceptionType;     //  0
//     void (*exceptionDestructor)(void*);//  8
//     std::terminate_handler unexpectedHandler, terminateHandler; // 16, 24
//     __cxa_exception *nextException;    // 32
//     int handlerCount, handlerSwitchValue; // 40, 44
//     const unsigned char *actionRecord, *languageSpecificData; // 48, 56
//     _Unwind_Ptr catchTemp;             // 64
//     void *adjustedPtr;                 // 72
//     _Unwind_Exception unwindHeader;    // 80; 32 bytes, then the thrown object
//   };
//   __cxa_refcounted_exception: a count, padded to 16, before it.
//   __cxa_dependent_exception (std::rethrow_exception): primaryException, the thrown object, in the
//   place of exceptionType; its class ends in 1 instead of 0.
#include "postmortem/unwind/cxx_exception.h"

#include "postmortem/unwind/names.h"

#include <algorithm>
#include <array>

namespace incident::postmortem {

namespace {

constexpr std::uint64_t gnu_cxx = 0x474e5543432b2b00, gnu_cxx_dependent = gnu_cxx | 1; // "GNUCC++\0"
constexpr std::uint64_t unwind_header_bytes = 32, reference_count = 16;
constexpr std::size_t type_name_max = 1024, what_max = 1024; // bytes

constexpr std::array<std::string_view, 4> throwers{"__cxa_throw", "__cxa_rethrow", "std::rethrow_exception",
                                                   "__cxxabiv1::__cxa_throw"};

// Those of <stdexcept>, and those derived from them that keep its what(): a vptr, then a pointer to the characters
// (__cow_string, libstdc++-v3/include/std/stdexcept).
constexpr std::array<std::string_view, 15> with_text{"std::runtime_error",     "std::logic_error",
                                                     "std::domain_error",      "std::invalid_argument",
                                                     "std::length_error",      "std::out_of_range",
                                                     "std::range_error",       "std::overflow_error",
                                                     "std::underflow_error",   "std::system_error",
                                                     "std::regex_error",       "std::__cxx11::regex_error",
                                                     "std::ios_base::failure", "std::ios_base::failure[abi:cxx11]",
                                                     "std::__ios_failure"};

struct Thrown {
    std::uint64_t type = 0, object = 0;
};

std::uint64_t unwind_header(const ModuleSet &modules) {
    return modules.isa() == Isa::i386 ? 48 : 80;
}

// header: where an _Unwind_Exception may be.
std::optional<Thrown> thrown_at(ModuleSet &modules, std::uint64_t header) {
    const auto kind = modules.number(header, sizeof gnu_cxx);
    if (kind == gnu_cxx) {
        const auto type = modules.word(header - unwind_header(modules));
        return type ? std::optional(Thrown{*type, header + unwind_header_bytes}) : std::nullopt;
    }
    if (kind != gnu_cxx_dependent)
        return std::nullopt;
    const auto primary = modules.word(header - unwind_header(modules));
    const auto type = primary ? modules.word(*primary - unwind_header_bytes - unwind_header(modules)) : std::nullopt;
    return type ? std::optional(Thrown{*type, *primary}) : std::nullopt;
}

// The name of the type whose type_info begins at an address, from its symbol.
std::string name_by_symbol(ModuleSet &modules, std::uint64_t type) {
    const std::size_t index = modules.index_at(UserAddress(type));
    ElfModule *module = index == ModuleSet::none ? nullptr : modules.elf(index);
    if (!module)
        return "";
    const auto scope = modules.parsing(index, Part::file);
    const LinkAddress linked = UserAddress(type) - module->bias();
    const Symbol *symbol = module->symbols().data_at(linked);
    const bool is = symbol && symbol->address == linked && std::string_view(symbol->name).starts_with("_ZTI");
    return is ? type_name_of_typeinfo(symbol->name) : "";
}

std::string name_of_type(ModuleSet &modules, std::uint64_t type) {
    if (std::string name = name_by_symbol(modules, type); !name.empty())
        return name;
    // class type_info { vptr; const char *__name; … }
    const auto name = modules.word(type + capture::word_bytes(modules.isa()));
    const auto text = name ? modules.text(*name, type_name_max) : std::nullopt;
    return text ? type_name_of_typeinfo(*text) : "";
}

// The function keeps the exception in one of the registers it has saved to use them: as the header, or where
// it begins, or as what was thrown.  Its class proves it.
std::optional<Exception> in_registers(ModuleSet &modules, const WalkFrame &frame) {
    const std::uint64_t header = unwind_header(modules);
    for (unsigned number = 0; number < dwarf_rip; ++number) {
        if (!frame.saved[number] || !frame.registers[number])
            continue;
        for (const std::uint64_t from : {std::uint64_t{0}, header, header + reference_count, 0 - unwind_header_bytes}) {
            const auto thrown = thrown_at(modules, *frame.registers[number] + from);
            if (!thrown)
                continue;
            Exception exception;
            exception.type = name_of_type(modules, thrown->type);
            if (exception.type.empty())
                continue;
            if (std::ranges::find(with_text, exception.type) != with_text.end())
                if (const auto characters = modules.word(thrown->object + capture::word_bytes(modules.isa())))
                    exception.what = modules.text(*characters, what_max).value_or("");
            return exception;
        }
    }
    return std::nullopt;
}

// __cxa_throw(object, type_info, destructor): where the exception itself was not captured, its type may still
// be in a register: of what the function keeps only that is the address of a type_info.
std::optional<Exception> by_type_alone(ModuleSet &modules, const WalkFrame &frame) {
    for (unsigned number = 0; number < dwarf_rip; ++number)
        if (frame.saved[number] && frame.registers[number])
            if (std::string name = name_by_symbol(modules, *frame.registers[number]); !name.empty())
                return Exception{std::move(name), ""};
    return std::nullopt;
}

} // namespace

std::optional<Exception> exception_under_way(ModuleSet &modules, const NamedStack &stack) {
    for (std::size_t i = 0; i < stack.sources.size(); ++i) {
        const std::string &symbol = stack.stack.frames[i].symbol;
        if (std::ranges::find(throwers, symbol) == throwers.end() || !stack.sources[i].real_registers)
            continue;
        const WalkFrame &frame = stack.walk.frames[stack.sources[i].walked];
        if (auto exception = in_registers(modules, frame))
            return exception;
        if (symbol.ends_with("__cxa_throw"))
            return by_type_alone(modules, frame);
    }
    return std::nullopt;
}

} // namespace incident::postmortem
