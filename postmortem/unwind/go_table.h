// Reads what every Go program carries of its functions, stripped or not: .gopclntab, with names, files, lines, inlined
// calls and the depth of each function's frame at each instruction (src/runtime/symtab.go, src/debug/gosym).  Three
// layouts are known, by their magic: those of Go 1.16, 1.18 and 1.20.  The bytes may be hostile.
#pragma once

#include "capture/os/address.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

using capture::LinkAddress;

class GoTable {
public:
    static constexpr std::size_t name_max = 16384;         // bytes of a name or file that are read
    static constexpr std::size_t inlined_max = 64;         // calls inlined into each other
    static constexpr std::size_t steps_max = 1u << 18;     // of a table of one function's values
    static constexpr std::size_t functions_max = 4u << 20; // a table that claims more is refused

    // Not set: it is none, or of a layout that is not known. `bytes` must outlive the table.
    static std::optional<GoTable> parse(std::span<const char> bytes);

    // Where runtime.text is linked, as its header says; 0: that is filled in when it is loaded (PIE), or is not said.
    LinkAddress text() const { return text_; }
    bool needs_text() const { return layout_ != Layout::of_1_16; }
    void set_text(LinkAddress text) { text_ = text; }
    // What go.func.* has, from there on: where trees of inlined calls are.
    void set_trees(std::span<const char> trees) { trees_ = trees; }
    // Offset of a runtime.moduledata's fields, which is needed to find those trees; 0: not known of this layout.
    std::size_t module_trees_at() const;
    // Where this table, linked at `address`, says that its names begin: the second word of moduledata.
    LinkAddress names_at(LinkAddress address) const { return address + names_; }

    struct Function {
        LinkAddress entry, end; // end: where the next one begins
        std::string_view name;
        bool outermost = false;      // it has no caller: TOPFRAME
        bool changes_stacks = false; // it writes the stack pointer, so its table does not tell its caller: SPWRITE
        std::size_t record = 0;      // where it is in the table
    };
    std::optional<Function> function_at(LinkAddress address) const;

    struct Place {
        std::string_view name;
        std::string_view file; // "" unknown
        unsigned line = 0;     // 0 unknown
        bool inlined = false;
    };
    // Innermost inlined function first; the last one is `function` itself. Where it is known that something is inlined
    // there but not what, there is only the function, without a line.
    std::vector<Place> places(const Function &function, LinkAddress address) const;
    // Bytes between the stack pointer and the return address at an instruction.
    std::optional<std::uint64_t> frame_size(const Function &function, LinkAddress address) const;

private:
    enum class Layout { of_1_16, of_1_18, of_1_20 };

    template <typename Number> std::optional<Number> number(std::size_t at) const;
    std::string_view text_at(std::size_t at) const;
    std::optional<LinkAddress> entry_of(std::size_t index) const;
    // The value of a table of pairs (value, length of code) for an instruction.
    std::optional<std::int32_t> value(std::uint32_t table, const Function &function, LinkAddress address) const;
    std::string_view file(const Function &function, std::int32_t number) const;
    std::optional<std::uint32_t> field(const Function &function, std::size_t at) const;
    void place(Place &place, const Function &function, LinkAddress address) const;

    std::span<const char> bytes_, trees_;
    Layout layout_ = Layout::of_1_20;
    std::uint8_t quantum_ = 1;
    LinkAddress text_;
    std::uint64_t functions_ = 0, names_ = 0, units_ = 0, files_ = 0, values_ = 0, table_ = 0;
};

} // namespace incident::postmortem
