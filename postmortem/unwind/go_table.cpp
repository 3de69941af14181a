#include "postmortem/unwind/go_table.h"

#include <algorithm>
#include <cstring>

namespace incident::postmortem {

namespace {

// struct _func (src/runtime/runtime2.go), from the end of its first field, which is the entry: a pointer until 1.17, 32
// bits since.  startLine came with 1.20.
constexpr std::size_t at_name = 0, at_values_sp = 12, at_values_file = 16, at_values_line = 20, at_numbers = 24,
                      at_unit = 28, at_rest = 32;
constexpr std::size_t start_line_bytes = 4;
constexpr std::size_t at_flags = 1, at_tables = 3, rest_bytes = 4; // behind at_rest, and startLine where there is one

constexpr std::uint8_t flag_outermost = 1, flag_changes_stacks = 2; // funcFlag_TOPFRAME, funcFlag_SPWRITE
constexpr std::size_t values_inlined = 2;                           // PCDATA_InlTreeIndex
constexpr std::size_t data_inlined = 3;                             // FUNCDATA_InlTree
constexpr std::uint32_t no_data = ~0U;
constexpr std::size_t numbers_max = 64; // tables of one function

std::optional<std::uint32_t> varint(std::span<const char> bytes, std::size_t &at) {
    std::uint32_t value = 0;
    for (unsigned shift = 0; shift < 35 && at < bytes.size(); shift += 7) {
        const auto byte = static_cast<std::uint8_t>(bytes[at++]);
        value |= std::uint32_t{byte & 0x7fU} << shift;
        if ((byte & 0x80) == 0)
            return value;
    }
    return std::nullopt;
}

} // namespace

template <typename Number> std::optional<Number> GoTable::number(std::size_t at) const {
    Number value;
    if (at > bytes_.size() || bytes_.size() - at < sizeof value)
        return std::nullopt;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
}

std::string_view GoTable::text_at(std::size_t at) const {
    if (at >= bytes_.size())
        return {};
    const std::string_view rest(bytes_.data() + at, std::min(bytes_.size() - at, name_max));
    const std::size_t end = rest.find('\0');
    return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

std::optional<GoTable> GoTable::parse(std::span<const char> bytes) {
    GoTable table;
    table.bytes_ = bytes;
    const auto magic = table.number<std::uint32_t>(0);
    const auto padding = table.number<std::uint16_t>(4);
    if (!magic || !padding || *padding != 0)
        return std::nullopt;
    switch (*magic) {
    case 0xfffffffa:
        table.layout_ = Layout::of_1_16;
        break;
    case 0xfffffff0:
        table.layout_ = Layout::of_1_18;
        break;
    case 0xfffffff1:
        table.layout_ = Layout::of_1_20;
        break;
    default:
        return std::nullopt;
    }
    const auto quantum = table.number<std::uint8_t>(6), pointer = table.number<std::uint8_t>(7);
    if (!quantum || *quantum == 0 || pointer != sizeof(std::uint64_t))
        return std::nullopt;
    table.quantum_ = *quantum;
    std::size_t at = 8;
    bool whole = true;
    const auto next = [&](std::uint64_t most) {
        const auto value = table.number<std::uint64_t>(at);
        at += sizeof(std::uint64_t);
        whole = whole && value && *value <= most;
        return value.value_or(0);
    };
    table.functions_ = next(functions_max);
    next(UINT64_MAX); // how many files
    if (table.layout_ != Layout::of_1_16)
        table.text_ = LinkAddress(next(UINT64_MAX));
    for (std::uint64_t *part : {&table.names_, &table.units_, &table.files_, &table.values_, &table.table_})
        *part = next(bytes.size());
    if (!whole || table.functions_ == 0)
        return std::nullopt;
    return table;
}

std::size_t GoTable::module_trees_at() const {
    // Behind pcHeader, six slices, findfunctab, 13 addresses, 4 of types and rodata; 1.20 added two of coverage
    // (moduledata in src/runtime/symtab.go).
    return layout_ == Layout::of_1_16 ? 0 : layout_ == Layout::of_1_18 ? 304 : 320;
}

std::optional<LinkAddress> GoTable::entry_of(std::size_t index) const {
    if (layout_ == Layout::of_1_16) {
        const auto entry = number<std::uint64_t>(table_ + index * 16);
        return entry ? std::optional(LinkAddress(*entry)) : std::nullopt;
    }
    const auto offset = number<std::uint32_t>(table_ + index * 8);
    return offset && text_.value <= UINT64_MAX - *offset ? std::optional(text_ + *offset) : std::nullopt;
}

std::optional<GoTable::Function> GoTable::function_at(LinkAddress address) const {
    // Entries ascend; the last one, which is of no function, is where the code ends.
    std::size_t low = 0, high = functions_;
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        const auto entry = entry_of(middle);
        if (!entry)
            return std::nullopt;
        if (*entry <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return std::nullopt;
    const auto entry = entry_of(low - 1), end = entry_of(low);
    if (!entry || !end || address < *entry || address >= *end)
        return std::nullopt;
    const bool old = layout_ == Layout::of_1_16;
    const auto offset = old ? number<std::uint64_t>(table_ + (low - 1) * 16 + 8)
                            : std::optional<std::uint64_t>(number<std::uint32_t>(table_ + (low - 1) * 8 + 4));
    if (!offset || *offset > bytes_.size() - table_)
        return std::nullopt;
    Function function{*entry, *end, {}, false, false, table_ + *offset + (old ? 8 : 4)};
    // The record says where it begins as well.
    const auto again = old ? number<std::uint64_t>(function.record - 8)
                           : std::optional<std::uint64_t>(number<std::uint32_t>(function.record - 4));
    const auto name = field(function, at_name);
    if (again != (old ? entry->value : *entry - text_) || !name || *name > bytes_.size() - names_)
        return std::nullopt;
    function.name = text_at(names_ + *name);
    const std::size_t rest = at_rest + (layout_ == Layout::of_1_20 ? start_line_bytes : 0);
    const auto flags = number<std::uint8_t>(function.record + rest + at_flags);
    if (function.name.empty() || !flags)
        return std::nullopt;
    // 1.16 has no flags: the functions are those of which later ones have them.
    constexpr std::string_view outermost[] = {"runtime.goexit", "runtime.mstart", "runtime.rt0_go"};
    constexpr std::string_view changing[] = {"runtime.systemstack", "runtime.mcall",      "runtime.morestack",
                                             "runtime.gogo",        "runtime.asmcgocall", "runtime.cgocallback"};
    const std::string_view bare = function.name.substr(0, function.name.find(".abi"));
    function.outermost = (*flags & flag_outermost) || std::ranges::find(outermost, bare) != std::end(outermost);
    function.changes_stacks = (*flags & flag_changes_stacks) || std::ranges::find(changing, bare) != std::end(changing);
    return function;
}

std::optional<std::uint32_t> GoTable::field(const Function &function, std::size_t at) const {
    return number<std::uint32_t>(function.record + at);
}

// src/runtime/symtab.go, pcvalue(): pairs of variable length, of which the first has the difference to the value
// before, zigzag, and the second how much code it is for.  A difference of 0 ends it, except at the beginning.
std::optional<std::int32_t> GoTable::value(std::uint32_t table, const Function &function, LinkAddress address) const {
    if (table == 0)
        return std::nullopt;
    std::size_t at = values_ + table;
    std::uint32_t value = ~0U;
    LinkAddress end = function.entry;
    for (std::size_t step = 0; step < steps_max; ++step) {
        const auto difference = varint(bytes_, at);
        if (!difference || (*difference == 0 && step != 0))
            return std::nullopt;
        const auto length = varint(bytes_, at);
        if (!length || end.value > UINT64_MAX - std::uint64_t{*length} * quantum_)
            return std::nullopt;
        value += (*difference & 1) ? ~(*difference >> 1) : *difference >> 1;
        end = end + std::uint64_t{*length} * quantum_;
        if (address < end)
            return static_cast<std::int32_t>(value);
    }
    return std::nullopt;
}

std::string_view GoTable::file(const Function &function, std::int32_t file) const {
    const auto unit = field(function, at_unit);
    if (!unit || file < 0)
        return {};
    const auto offset = number<std::uint32_t>(units_ + (std::uint64_t{*unit} + static_cast<std::uint32_t>(file)) * 4);
    return offset && *offset != no_data ? text_at(files_ + *offset) : std::string_view();
}

void GoTable::place(Place &place, const Function &function, LinkAddress address) const {
    const auto files = field(function, at_values_file), lines = field(function, at_values_line);
    const auto line = lines ? value(*lines, function, address) : std::nullopt;
    const auto number = files ? value(*files, function, address) : std::nullopt;
    if (!line || *line <= 0 || !number)
        return;
    place.file = file(function, *number);
    place.line = place.file.empty() ? 0 : static_cast<unsigned>(*line);
}

std::vector<GoTable::Place> GoTable::places(const Function &function, LinkAddress address) const {
    std::vector<Place> places;
    const Place itself{function.name, {}, 0, false};
    const std::size_t rest = function.record + at_rest + (layout_ == Layout::of_1_20 ? start_line_bytes : 0);
    const auto numbers = field(function, at_numbers);
    const auto data = number<std::uint8_t>(rest + at_tables);
    if (!numbers || *numbers > numbers_max || !data)
        return {itself};
    const std::size_t tables = rest + rest_bytes;
    std::optional<std::int32_t> inlined;
    if (*numbers > values_inlined)
        if (const auto table = number<std::uint32_t>(tables + values_inlined * 4); table && *table != 0)
            inlined = value(*table, function, address);
    // The tree of what is inlined.  Until 1.17 its address stands there, and is not followed.
    std::optional<std::uint32_t> tree;
    if (layout_ != Layout::of_1_16 && *data > data_inlined && !trees_.empty())
        tree = number<std::uint32_t>(tables + std::size_t{*numbers} * 4 + data_inlined * 4);
    const bool parented = layout_ == Layout::of_1_18; // struct inlinedCall
    const std::size_t each = parented ? 20 : 16;
    LinkAddress at = address;
    for (std::size_t depth = 0; inlined && *inlined >= 0; ++depth) {
        const std::uint64_t call = std::uint64_t{tree.value_or(0)} + static_cast<std::uint32_t>(*inlined) * each;
        if (!tree || *tree == no_data || depth >= inlined_max || call > trees_.size() || trees_.size() - call < each)
            return {itself};
        std::uint32_t words[5] = {};
        std::memcpy(words, trees_.data() + call, each);
        const std::uint32_t name = words[parented ? 3 : 1], parent_pc = words[parented ? 4 : 2];
        Place inner{name <= bytes_.size() - names_ ? text_at(names_ + name) : std::string_view(), {}, 0, true};
        place(inner, function, at);
        if (inner.name.empty() || parent_pc >= function.end - function.entry)
            return {itself};
        places.push_back(inner);
        // The call's own place is that of an instruction at parentPc.
        at = function.entry + parent_pc;
        inlined = value(*number<std::uint32_t>(tables + values_inlined * 4), function, at);
    }
    Place outer = itself;
    place(outer, function, at);
    places.push_back(outer);
    return places;
}

std::optional<std::uint64_t> GoTable::frame_size(const Function &function, LinkAddress address) const {
    const auto table = field(function, at_values_sp);
    const auto size = table ? value(*table, function, address) : std::nullopt;
    return size && *size >= 0 && *size % 8 == 0 ? std::optional<std::uint64_t>(*size) : std::nullopt;
}

} // namespace incident::postmortem
