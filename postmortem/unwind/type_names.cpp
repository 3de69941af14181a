#include "postmortem/unwind/type_names.h"

#include <dwarf.h>

namespace incident::postmortem {

namespace {

constexpr unsigned type_depth_max = 32; // pointers to pointers to …
constexpr std::size_t name_max = 512;

std::string own_name(Dwarf_Die *die, const char *keyword) {
    const char *name = dwarf_diename(die);
    return std::string(keyword) + (name ? std::string(name).substr(0, name_max) : "{…}");
}

bool type_die(Dwarf_Die *die, Dwarf_Die *type) {
    Dwarf_Attribute attribute;
    return dwarf_attr_integrate(die, DW_AT_type, &attribute) && dwarf_formref_die(&attribute, type);
}

std::string pointed_to(std::string name, char sign) {
    if (!name.ends_with('*') && !name.ends_with('&'))
        name += ' ';
    return name + sign;
}

TypeDescription describe(Dwarf_Die *die, unsigned depth);

TypeDescription described_target(Dwarf_Die *die, unsigned depth) {
    Dwarf_Die target;
    if (!type_die(die, &target))
        return {"void", std::nullopt, false, false, false};
    return describe(&target, depth + 1);
}

TypeDescription describe(Dwarf_Die *die, unsigned depth) {
    TypeDescription description;
    if (depth > type_depth_max)
        return description;
    const int tag = dwarf_tag(die);
    Dwarf_Word size = 0;
    if (dwarf_aggregate_size(die, &size) == 0)
        description.bytes = size;
    switch (tag) {
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type: {
        description.name = pointed_to(described_target(die, depth).name, tag == DW_TAG_pointer_type ? '*' : '&');
        if (tag == DW_TAG_rvalue_reference_type)
            description.name += '&';
        description.is_pointer = description.is_number = true;
        description.bytes = sizeof(std::uint64_t);
        return description;
    }
    case DW_TAG_const_type:
    case DW_TAG_volatile_type:
    case DW_TAG_restrict_type:
    case DW_TAG_atomic_type: {
        TypeDescription target = described_target(die, depth);
        const std::string word = tag == DW_TAG_const_type      ? "const"
                                 : tag == DW_TAG_volatile_type ? "volatile"
                                 : tag == DW_TAG_restrict_type ? "restrict"
                                                               : "_Atomic";
        target.name = target.is_pointer ? target.name + " " + word : word + " " + target.name;
        return target;
    }
    case DW_TAG_typedef: {
        TypeDescription target = described_target(die, depth);
        target.name = own_name(die, "");
        return target;
    }
    case DW_TAG_base_type: {
        description.name = own_name(die, "");
        Dwarf_Attribute attribute;
        Dwarf_Word encoding = 0;
        if (dwarf_attr_integrate(die, DW_AT_encoding, &attribute) && dwarf_formudata(&attribute, &encoding) == 0) {
            description.is_real = encoding == DW_ATE_float || encoding == DW_ATE_complex_float ||
                                  encoding == DW_ATE_imaginary_float || encoding == DW_ATE_decimal_float;
            description.is_number = !description.is_real;
        }
        return description;
    }
    case DW_TAG_enumeration_type:
        description.name = own_name(die, "enum ");
        description.is_number = true;
        return description;
    case DW_TAG_structure_type:
        description.name = own_name(die, "struct ");
        return description;
    case DW_TAG_class_type:
        description.name = own_name(die, "class ");
        return description;
    case DW_TAG_union_type:
        description.name = own_name(die, "union ");
        return description;
    case DW_TAG_array_type:
        description.name = described_target(die, depth).name + " []";
        return description;
    case DW_TAG_subroutine_type:
        description.name = described_target(die, depth).name + " ()";
        return description;
    default:
        description.name = own_name(die, "");
        return description;
    }
}

} // namespace

TypeDescription type_of(Dwarf_Die *die) {
    return described_target(die, 0);
}

} // namespace incident::postmortem
