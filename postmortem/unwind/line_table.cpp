#include "postmortem/unwind/line_table.h"

#include <cstring>

namespace incident::postmortem {

namespace {

constexpr std::size_t same_line_max = 1024; // rows of one line looked back over

capture::LinkAddress address_of(Dwarf_Lines *lines, std::size_t index) {
    Dwarf_Addr address = 0;
    dwarf_lineaddr(dwarf_onesrcline(lines, index), &address);
    return capture::LinkAddress(address);
}

bool ends_sequence(Dwarf_Line *line) {
    bool ends = false;
    return dwarf_lineendsequence(line, &ends) == 0 && ends;
}

bool begins_statement(Dwarf_Line *line) {
    bool begins = false;
    return dwarf_linebeginstatement(line, &begins) == 0 && begins;
}

int line_of(Dwarf_Line *line) {
    int number = 0;
    return dwarf_lineno(line, &number) == 0 ? number : 0;
}

const char *file_of(Dwarf_Line *line) {
    const char *file = dwarf_linesrc(line, nullptr, nullptr);
    return file ? file : "";
}

// The first row of the address that the row at `index` has, in its sequence.
std::size_t first_of_address(Dwarf_Lines *lines, std::size_t index) {
    const capture::LinkAddress address = address_of(lines, index);
    while (index > 0 && address_of(lines, index - 1) == address && !ends_sequence(dwarf_onesrcline(lines, index - 1)))
        --index;
    return index;
}

// gdb drops rows that continue their line in their file, once one of it had a discriminator (gdb/dwarf2/read.c,
// dwarf_record_line_p): what is before them then holds on.
bool is_dropped(Dwarf_Lines *lines, std::size_t index) {
    Dwarf_Line *line = dwarf_onesrcline(lines, index),
               *before = index > 0 ? dwarf_onesrcline(lines, index - 1) : nullptr;
    if (!before || ends_sequence(before) || line_of(before) != line_of(line) ||
        std::strcmp(file_of(before), file_of(line)) != 0)
        return false;
    for (std::size_t i = index + 1, looked = 0; i > 0 && looked < same_line_max; --i, ++looked) {
        Dwarf_Line *row = dwarf_onesrcline(lines, i - 1);
        unsigned discriminator = 0;
        if (line_of(row) != line_of(line) || ends_sequence(row))
            return false;
        if (dwarf_linediscriminator(row, &discriminator) == 0 && discriminator != 0)
            return true;
    }
    return false;
}

// The row that gdb's tables have of one address (gdb/dwarf2/read.c, lnp_state_machine::record_line, and
// gdb/symtab.c, find_pc_sect_line): the last one, but none of another file that begins no statement where
// one before it does; and if what that leaves begins none, the last one before it of its file that does.
Dwarf_Line *row_of_address(Dwarf_Lines *lines, std::size_t begin, std::size_t end) {
    Dwarf_Line *chosen = nullptr;
    bool statement_seen = false;
    for (std::size_t i = begin; i < end; ++i) {
        Dwarf_Line *line = dwarf_onesrcline(lines, i);
        const bool other_file = chosen && std::strcmp(file_of(chosen), file_of(line)) != 0;
        const bool ignored = other_file && !begins_statement(line) && statement_seen;
        if (line_of(line) != 0 && !ignored && !is_dropped(lines, i))
            chosen = line;
        statement_seen = statement_seen || begins_statement(line);
    }
    if (!chosen || begins_statement(chosen))
        return chosen;
    for (std::size_t i = end; i > begin; --i) {
        Dwarf_Line *line = dwarf_onesrcline(lines, i - 1);
        if (line_of(line) != 0 && begins_statement(line) && !is_dropped(lines, i - 1) &&
            std::strcmp(file_of(chosen), file_of(line)) == 0)
            return line;
    }
    return chosen;
}

SourceLine place_of(Dwarf_Line *line) {
    int column = 0;
    dwarf_linecol(line, &column);
    return {file_of(line), static_cast<unsigned>(line_of(line)), column > 0 ? static_cast<unsigned>(column) : 0u};
}

} // namespace

SourceLine source_line(Dwarf_Die &unit, capture::LinkAddress linked) {
    Dwarf_Lines *lines = nullptr;
    std::size_t count = 0;
    if (dwarf_getsrclines(&unit, &lines, &count) != 0 || count == 0)
        return {};
    std::size_t low = 0, high = count; // the first row above
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (address_of(lines, middle) <= linked)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return {};
    // Rows that belong to no line (0) leave it to the row before them.
    for (std::size_t end = low; end > 0;) {
        if (ends_sequence(dwarf_onesrcline(lines, end - 1)))
            return {};
        const std::size_t begin = first_of_address(lines, end - 1);
        if (Dwarf_Line *line = row_of_address(lines, begin, end))
            return place_of(line);
        end = begin;
    }
    return {};
}

std::string file_of_unit(Dwarf_Die &unit, std::uint64_t number) {
    Dwarf_Files *files = nullptr;
    std::size_t count = 0;
    if (number == 0 || dwarf_getsrcfiles(&unit, &files, &count) != 0 || number >= count)
        return "";
    const char *name = dwarf_filesrc(files, number, nullptr, nullptr);
    return name ? name : "";
}

} // namespace incident::postmortem
