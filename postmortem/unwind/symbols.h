// The symbols of an ELF file, by address.
#pragma once

#include <libelf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace incident::postmortem {

struct Symbol {
    std::uint64_t address = 0, size = 0; // as linked
    std::uint64_t section_end = 0;       // no name reaches beyond its section
    const char *name = nullptr;          // in the ELF file's own string table
    std::uint8_t preference = 0;         // among those of one address: higher is better
    bool function = false;               // code, else data
};

class Symbols {
public:
    static constexpr std::size_t symbols_max = 4u << 20; // of one file; said by cut()

    // Adds .symtab and .dynsym; elf must outlive this.
    void add(Elf *elf);
    void sort(); // once, when all are added

    // The code symbol an address lies in: its best name.  One without a size reaches to the next, or to the end of
    // its section.
    const Symbol *function_at(std::uint64_t address) const;
    const Symbol *data_at(std::uint64_t address) const; // that begins there, or spans it
    // Where a code symbol of this name (without its version) begins.
    std::optional<std::uint64_t> address_of(std::string_view name) const;
    bool is_called(std::uint64_t address, std::string_view name) const; // it begins there, by this or another name
    bool empty() const { return functions_.empty(); }
    bool cut() const { return cut_; }

private:
    const Symbol *at(const std::vector<Symbol> &symbols, std::uint64_t address) const;
    std::vector<Symbol> functions_, data_;
    mutable std::unordered_map<std::string_view, std::uint64_t> by_name_; // of functions_, when first asked for
    bool cut_ = false;
};

} // namespace incident::postmortem
