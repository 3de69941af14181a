// The symbols of an ELF file, by address.
#pragma once

#include "capture/os/address.h"

#include <libelf.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace incident::postmortem {

using capture::LinkAddress;

struct Symbol {
    LinkAddress address;
    std::uint64_t size = 0;
    LinkAddress section_end;     // a symbol does not reach beyond its section
    const char *name = nullptr;  // in the ELF file's own string table
    std::uint8_t preference = 0; // between symbols at one address: higher is better
    bool function = false;       // true: code; false: data
};

class Symbols {
public:
    static constexpr std::size_t symbols_max = 4u << 20; // for one file; cut() says if there were more

    // Adds .symtab and .dynsym; elf must outlive this.
    void add(Elf *elf);
    void sort(); // to be called once, when all are added

    // The code symbol that an address lies in, with its best name. A symbol without a size reaches to the next one, or
    // to the end of its section.
    const Symbol *function_at(LinkAddress address) const;
    const Symbol *data_at(LinkAddress address) const; // a data symbol that begins there or contains the address
    // The address of a code symbol with this name (without its version).
    std::optional<LinkAddress> address_of(std::string_view name) const;
    bool is_called(LinkAddress address, std::string_view name) const; // true if a symbol of this name begins there
    bool empty() const { return functions_.empty(); }
    bool cut() const { return cut_; }

private:
    const Symbol *at(const std::vector<Symbol> &symbols, LinkAddress address) const;
    std::vector<Symbol> functions_, data_;
    mutable std::unordered_map<std::string_view, LinkAddress> by_name_; // made from functions_ when first needed
    bool cut_ = false;
};

} // namespace incident::postmortem
