// The table of functions that a Go program carries, which the crashed process's file has.
#include "postmortem/unwind/go_table.h"
#include "tests/fuzz/target.h"

namespace incident::fuzz {

namespace {

bool within(std::string_view part, std::span<const char> whole) {
    return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void look_up(const postmortem::GoTable &table, postmortem::LinkAddress address, std::span<const char> bytes) {
    const auto function = table.function_at(address);
    if (!function)
        return;
    must(function->entry <= address && address < function->end, "a function found has the address");
    must(!function->name.empty() && within(function->name, bytes), "a name is a part of the table");
    table.frame_size(*function, address);
    const auto places = table.places(*function, address);
    must(!places.empty() && places.size() <= postmortem::GoTable::inlined_max + 1, "inlined calls have a limit");
    must(!places.back().inlined && places.back().name == function->name, "the last place is the function itself");
    for (const auto &place : places) {
        must(within(place.name, bytes) && within(place.file, bytes), "names and files are parts of the table");
        must(place.name.size() <= postmortem::GoTable::name_max && place.file.size() <= postmortem::GoTable::name_max,
             "a name is not longer than its limit");
    }
}

} // namespace

// The trees of inlined calls with their length before them, two addresses, and the table.
FUZZ_TARGET(go_table) {
    Input bytes(input);
    const std::string_view trees = bytes.text();
    const std::uint64_t begin = bytes.number<std::uint64_t>(), other = bytes.number<std::uint64_t>();
    const std::string_view rest = bytes.rest();
    auto table = postmortem::GoTable::parse(rest);
    if (!table)
        return;
    table->set_trees(trees);
    must(table->names_at(postmortem::LinkAddress(0)).value <= rest.size(), "names begin in the table");
    look_up(*table, postmortem::LinkAddress(other), rest);
    constexpr std::uint64_t step = 4, steps = 64;
    for (std::uint64_t i = 0; i < steps; ++i)
        look_up(*table, postmortem::LinkAddress(begin + i * step), rest);
    if (table->needs_text()) { // as a position-independent program's, which is said by its symbols
        table->set_text(postmortem::LinkAddress(other));
        for (std::uint64_t i = 0; i < steps; ++i)
            look_up(*table, postmortem::LinkAddress(other + i * step), rest);
    }
}

} // namespace incident::fuzz
