#include "postmortem/unwind/debug_info.h"

#include "postmortem/unwind/capped_child.h"
#include "postmortem/unwind/line_table.h"
#include "postmortem/unwind/names.h"

#include <dwarf.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace incident::postmortem {

namespace {

constexpr std::size_t unit_dies_max = 8u << 20; // looked at in one unit
constexpr std::size_t ranges_max = 4096;        // of one DIE
constexpr std::size_t units_max = 1u << 20;     // of one file
constexpr unsigned die_depth_max = 128;         // of DIEs within DIEs
constexpr std::size_t name_parts_max = 64;      // namespaces and classes of a name

using Range = std::function<void(LinkAddress low, LinkAddress high)>;

// Address 0 is where linkers leave what they discarded.
void each_range(Dwarf_Die *die, const Range &range) {
    Dwarf_Addr base = 0, low = 0, high = 0;
    ptrdiff_t at = 0;
    for (std::size_t i = 0; i < ranges_max && (at = dwarf_ranges(die, at, &base, &low, &high)) > 0; ++i)
        if (low != 0 && low < high)
            range(LinkAddress(low), LinkAddress(high));
}

bool has_code_address(Dwarf_Die *die) {
    return dwarf_hasattr(die, DW_AT_low_pc) || dwarf_hasattr(die, DW_AT_ranges);
}

// Functions may stand in any of these.
bool may_hold_functions(int tag) {
    switch (tag) {
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_subprogram:
    case DW_TAG_lexical_block:
        return true;
    default:
        return false;
    }
}

// Visits the DIEs below one; the visitor says whether to go deeper.
void walk(Dwarf_Die *parent, std::size_t &left, unsigned depth, const std::function<bool(Dwarf_Die *)> &visit) {
    Dwarf_Die die;
    if (depth > die_depth_max || dwarf_child(parent, &die) != 0)
        return;
    do {
        if (left-- == 0) {
            left = 0;
            return;
        }
        if (visit(&die))
            walk(&die, left, depth + 1, visit);
    } while (left > 0 && dwarf_siblingof(&die, &die) == 0);
}

// The block or inlined call directly within a DIE that holds an address.
bool inner_scope(Dwarf_Die *of, LinkAddress address, Dwarf_Die *inner) {
    bool found = false;
    std::size_t left = unit_dies_max;
    walk(of, left, 0, [&](Dwarf_Die *die) {
        const int tag = dwarf_tag(die);
        const bool scope = tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_try_block ||
                           tag == DW_TAG_catch_block;
        if (!scope || found)
            return false;
        if (!has_code_address(die)) // a block that only groups what is in it
            return tag == DW_TAG_lexical_block;
        if (dwarf_haspc(die, address.value) == 1) {
            *inner = *die;
            found = true;
            left = 0;
        }
        return false;
    });
    return found;
}

std::string qualified_name(Dwarf_Die *die, const char *name) {
    Dwarf_Attribute attribute;
    Dwarf_Die declared = *die;
    for (const unsigned link : {DW_AT_abstract_origin, DW_AT_specification})
        if (Dwarf_Die target; dwarf_attr(&declared, link, &attribute) && dwarf_formref_die(&attribute, &target))
            declared = target;
    Dwarf_Die *scopes = nullptr;
    const int count = dwarf_getscopes_die(&declared, &scopes);
    const std::unique_ptr<Dwarf_Die, Free> owner(scopes);
    std::string text = name;
    for (int i = 1; i < std::min<int>(count, name_parts_max); ++i) {
        const int tag = dwarf_tag(&scopes[i]);
        if (tag != DW_TAG_namespace && tag != DW_TAG_class_type && tag != DW_TAG_structure_type &&
            tag != DW_TAG_union_type)
            break;
        const char *part = dwarf_diename(&scopes[i]);
        if (!part && tag != DW_TAG_namespace) // as gdb: a lambda's is plain "operator()"
            break;
        text.insert(0, std::string(part                      ? part
                                   : tag == DW_TAG_namespace ? "(anonymous namespace)"
                                                             : "{unnamed}") +
                           "::");
    }
    return text;
}

bool is_cxx(Dwarf_Die *die) {
    Dwarf_Die unit;
    switch (dwarf_diecu(die, &unit, nullptr, nullptr) ? dwarf_srclang(&unit) : -1) {
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
        return true;
    default:
        return false;
    }
}

// The unit that holds the functions: of a skeleton the one in the .dwo file it stands for.
Dwarf_Die body_of(Dwarf_Die &unit) {
    std::uint8_t type = 0;
    Dwarf_Die split{};
    if (dwarf_cu_info(unit.cu, nullptr, &type, nullptr, &split, nullptr, nullptr, nullptr) == 0 &&
        type == DW_UT_skeleton && split.addr)
        return split;
    return unit;
}

} // namespace

std::uint64_t number_of(Dwarf_Die *die, unsigned attribute_name) {
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    if (!dwarf_attr_integrate(die, attribute_name, &attribute) || dwarf_formudata(&attribute, &value) != 0)
        return 0;
    return value;
}

LinkAddress entry_of(Dwarf_Die *function) {
    Dwarf_Addr entry = 0;
    if (dwarf_entrypc(function, &entry) == 0)
        return LinkAddress(entry);
    LinkAddress first;
    each_range(function, [&](LinkAddress low, LinkAddress) { first = first.value ? first : low; });
    return first;
}

std::string name_of_die(Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    for (const unsigned kind : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name})
        if (dwarf_attr_integrate(die, kind, &attribute))
            if (const char *linkage = dwarf_formstring(&attribute); linkage && *linkage)
                return function_name(linkage);
    const char *name = dwarf_diename(die);
    if (!name)
        return "";
    return is_cxx(die) ? qualified_name(die, name) : name;
}

DebugInfo::DebugInfo(Elf *module, DebugFile file, const std::string &root, std::vector<std::string> &notes)
    : file_(std::move(file)) {
    dwarf_.reset(dwarf_begin_elf(file_.elf ? file_.elf.get() : module, DWARF_C_READ, nullptr));
    if (!dwarf_)
        return;
    dwarf_new_oom_handler(dwarf_.get(), exit_out_of_memory); // libdw's own prints and exits
    alternate_file_ = find_alternate(dwarf_.get(), root, file_, notes);
    if (alternate_file_.elf)
        alternate_.reset(dwarf_begin_elf(alternate_file_.elf.get(), DWARF_C_READ, nullptr));
    if (alternate_)
        dwarf_setalt(dwarf_.get(), alternate_.get());
}

FrameHandle DebugInfo::debug_frame(LinkAddress linked) {
    Dwarf_CFI *cfi = dwarf_ ? dwarf_getcfi(dwarf_.get()) : nullptr; // owned by dwarf_
    Dwarf_Frame *frame = nullptr;
    return cfi && dwarf_cfi_addrframe(cfi, linked.value, &frame) == 0 ? FrameHandle(frame) : nullptr;
}

// .debug_aranges is quick, but not every compiler writes it.
bool DebugInfo::unit_at(LinkAddress linked, Dwarf_Die &unit) {
    if (!dwarf_)
        return false;
    if (!units_indexed_ && dwarf_addrdie(dwarf_.get(), linked.value, &unit))
        return true;
    if (!units_indexed_)
        index_units();
    auto it = std::ranges::upper_bound(units_, linked, {}, &UnitRange::low);
    while (it != units_.begin()) {
        --it;
        if (linked < it->high)
            return dwarf_offdie(dwarf_.get(), it->unit, &unit) != nullptr;
        if (linked - it->low > UINT32_MAX) // none that begins so far before reaches here
            break;
    }
    return false;
}

void DebugInfo::index_units() {
    units_indexed_ = true;
    Dwarf_CU *cu = nullptr;
    Dwarf_Die die;
    std::uint8_t type = 0;
    for (std::size_t i = 0; i < units_max && dwarf_get_units(dwarf_.get(), cu, &cu, nullptr, &type, &die, nullptr) == 0;
         ++i) {
        if (type != DW_UT_compile && type != DW_UT_skeleton)
            continue;
        const Dwarf_Off offset = dwarf_dieoffset(&die);
        each_range(&die, [&](LinkAddress low, LinkAddress high) { units_.push_back({low, high, offset}); });
    }
    std::ranges::sort(units_, {}, &UnitRange::low);
}

const std::vector<DebugInfo::Function> &DebugInfo::functions_of(Dwarf_Die &unit) {
    const auto [it, fresh] = functions_.try_emplace(unit.addr);
    std::vector<Function> &functions = it->second;
    if (!fresh)
        return functions;
    std::size_t left = unit_dies_max;
    walk(&unit, left, 0, [&](Dwarf_Die *die) {
        const int tag = dwarf_tag(die);
        if (tag == DW_TAG_subprogram)
            each_range(die, [&](LinkAddress low, LinkAddress high) { functions.push_back({low, high, *die}); });
        return may_hold_functions(tag);
    });
    std::ranges::stable_sort(functions, {}, &Function::low);
    return functions;
}

bool DebugInfo::function_at(LinkAddress linked, Dwarf_Die &unit, Dwarf_Die &function) {
    if (!unit_at(linked, unit))
        return false;
    Dwarf_Die body = body_of(unit);
    const std::vector<Function> &functions = functions_of(body);
    auto it = std::ranges::upper_bound(functions, linked, {}, &Function::low);
    for (std::size_t looked = 0; it != functions.begin() && looked < 64; ++looked) {
        --it;
        if (linked < it->high) {
            function = it->die;
            return true;
        }
    }
    return false;
}

const std::vector<Place> &DebugInfo::places(LinkAddress linked) {
    const auto [it, fresh] = places_.try_emplace(linked);
    if (fresh)
        it->second = find_places(linked);
    return it->second;
}

std::vector<Place> DebugInfo::find_places(LinkAddress linked) {
    Dwarf_Die unit, scope;
    if (!function_at(linked, unit, scope))
        return {};
    const auto place_of = [](Dwarf_Die &die, bool inlined) {
        Place place;
        place.die = die;
        place.inlined = inlined;
        place.name = name_of_die(&die);
        place.entry = entry_of(&die);
        return place;
    };
    const bool assembler = dwarf_srclang(&unit) == DW_LANG_Mips_Assembler;
    std::vector<Place> outer_first{place_of(scope, false)};
    for (unsigned depth = 0; depth < die_depth_max && inner_scope(&scope, linked, &scope); ++depth)
        if (dwarf_tag(&scope) == DW_TAG_inlined_subroutine)
            outer_first.push_back(place_of(scope, true));
    // A function's place is where it calls the next inner one.
    for (std::size_t i = 0; i + 1 < outer_first.size(); ++i) {
        Dwarf_Die *call = &outer_first[i + 1].die;
        outer_first[i].file = file_of_unit(unit, number_of(call, DW_AT_call_file));
        outer_first[i].line = static_cast<unsigned>(number_of(call, DW_AT_call_line));
        outer_first[i].column = static_cast<unsigned>(number_of(call, DW_AT_call_column));
    }
    const SourceLine line = source_line(unit, linked);
    outer_first.back().file = line.file;
    outer_first.back().line = line.line;
    outer_first.back().column = line.column;
    for (Place &place : outer_first)
        place.assembler = assembler;
    std::ranges::reverse(outer_first);
    return outer_first;
}

} // namespace incident::postmortem
