#include "postmortem/unwind/names.h"

#include <cxxabi.h>

#include <cctype>
#include <cstdlib>
#include <memory>
#include <optional>

namespace incident::postmortem {

namespace {

// Prefixes tried of one name; each costs a demangling of what is tried.
constexpr std::size_t prefixes_max = 2048;

std::optional<std::string> demangled(const std::string &name) {
    int status = -1;
    struct FreeText {
        void operator()(char *text) const { std::free(text); }
    };
    const std::unique_ptr<char, FreeText> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status));
    return status == 0 && text ? std::optional<std::string>(text.get()) : std::nullopt;
}

// A mangled function is <name> <types of return and parameters>.  A name alone demangles as that of a
// variable, so the shortest prefix that does is the name without types - unless the template
// arguments (I…E) or ABI tags (B…) of an unqualified name follow.
// https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangle.encoding
std::optional<std::string> name_part(std::string_view mangled) {
    const bool nested = mangled.starts_with("_ZN"); // ends in E
    std::size_t tried = 0;
    for (std::size_t length = 3; length <= mangled.size() && tried < prefixes_max; ++length) {
        const char last = mangled[length - 1], next = length < mangled.size() ? mangled[length] : '\0';
        if (next == 'I' || next == 'B' || (nested && last != 'E' && length < mangled.size()))
            continue;
        ++tried;
        if (auto name = demangled(std::string(mangled.substr(0, length))))
            return name;
    }
    return std::nullopt;
}

void cut_qualifiers(std::string &name) {
    for (bool more = true; more;) {
        more = false;
        for (const std::string_view qualifier : {" const", " volatile", " &&", " &"})
            if (name.ends_with(qualifier)) {
                name.erase(name.size() - qualifier.size());
                more = true;
            }
    }
}

// Rust's older mangling ends in a hash: "…17h0123456789abcdefE".
void cut_rust_hash(std::string &name) {
    constexpr std::size_t length = 19; // ::h and 16 digits
    if (name.size() <= length || name.compare(name.size() - length, 3, "::h") != 0)
        return;
    for (std::size_t i = name.size() - 16; i < name.size(); ++i)
        if (!std::isxdigit(static_cast<unsigned char>(name[i])))
            return;
    name.erase(name.size() - length);
}

} // namespace

std::string function_name(std::string_view linkage_name) {
    const std::size_t version = linkage_name.find('@'); // foo@@VERS_1
    std::string_view mangled = version == 0 ? linkage_name : linkage_name.substr(0, version);
    if (!mangled.starts_with("_Z") || mangled.size() > linkage_name_max)
        return std::string(mangled.substr(0, linkage_name_max));
    // The suffix of a clone, or a name as a whole that is not what it begins like.
    const std::size_t dot = mangled.find('.');
    auto name = name_part(mangled.substr(0, dot));
    if (!name)
        return std::string(linkage_name);
    cut_qualifiers(*name);
    cut_rust_hash(*name);
    return *name;
}

std::string type_name_of_typeinfo(std::string_view linkage_name) {
    if (linkage_name.size() > linkage_name_max)
        return "";
    if (linkage_name.starts_with("_ZTI"))
        linkage_name.remove_prefix(4);
    else if (linkage_name.starts_with('_'))
        return "";
    // A type's mangling alone demangles as such; "*" before it marks a name that is not unique (type_info).
    if (linkage_name.starts_with('*'))
        linkage_name.remove_prefix(1);
    return demangled(std::string(linkage_name.substr(0, linkage_name.find('@')))).value_or("");
}

} // namespace incident::postmortem
