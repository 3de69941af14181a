#include "daemon/kernel_symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

namespace incident::daemon {

namespace {

constexpr std::uint64_t largest_function = 1 << 20; // beyond this an address is not the symbol's

} // namespace

KernelSymbols KernelSymbols::load(const std::string &path) {
    KernelSymbols table;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        // "ffffffff81000000 T _text" or "... t name\t[module]"
        std::uint64_t address = 0;
        const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), address, 16);
        if (error != std::errc() || !address || end + 3 >= line.data() + line.size())
            continue;
        const char type = end[1];
        if (type != 't' && type != 'T' && type != 'w' && type != 'W')
            continue;
        std::string_view name(end + 3, static_cast<std::size_t>(line.data() + line.size() - end - 3));
        table.symbols_.push_back({address, static_cast<std::uint32_t>(table.names_.size())});
        for (const char c : name)
            table.names_.push_back(c == '\t' ? ' ' : c);
        table.names_.push_back('\0');
    }
    table.names_.shrink_to_fit();
    table.symbols_.shrink_to_fit();
    std::ranges::stable_sort(table.symbols_, {}, &Symbol::address);
    return table;
}

std::string KernelSymbols::name(std::uint64_t address) const {
    auto after = std::ranges::upper_bound(symbols_, address, {}, &Symbol::address);
    if (after == symbols_.begin())
        return {};
    const Symbol &symbol = *--after;
    if (address - symbol.address > largest_function)
        return {};
    std::string_view text(names_.c_str() + symbol.text);
    const auto module = text.find(" [");
    return fmt::format("{}+{:#x}{}", text.substr(0, module), address - symbol.address,
                       module == text.npos ? "" : text.substr(module));
}

} // namespace incident::daemon
