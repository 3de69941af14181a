#include "daemon/record/kernel_symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

namespace incident::daemon {

namespace {

// How far a function may reach where no other follows it: a module's last one, and what the kernel generates a page of
// (BPF and ftrace trampolines, arch/x86/net/bpf_jit_comp.c and arch/x86/kernel/ftrace.c).
constexpr std::uint64_t last_of_module = 1 << 16, generated = 4096;

constexpr std::size_t nameless_max = 4096;

// "NAME ADDRESS" of each module; what else /proc/modules has, how often each is used, changes all the time.
std::string places_of_modules(const std::string &path) {
    std::string places;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string name, size, uses, users, state, address;
        words >> name >> size >> uses >> users >> state >> address;
        places.append(name).append(" ").append(address).append("\n");
    }
    return places;
}

} // namespace

KernelSymbols::KernelSymbols(Sources sources) : sources_(std::move(sources)) {
    read();
}

void KernelSymbols::read() {
    symbols_.clear();
    names_.clear();
    std::string modules = places_of_modules(sources_.modules);
    if (modules != modules_)
        nameless_.clear();
    modules_ = std::move(modules);
    std::uint64_t first = ~std::uint64_t{0}, last = 0, start = 0, end_of_text = 0;
    std::ifstream file(sources_.kallsyms);
    for (std::string line; std::getline(file, line);) {
        // "ffffffff81000000 T _text" or "... t name\t[module]"
        std::uint64_t address = 0;
        const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), address, 16);
        if (error != std::errc() || !address || end + 3 >= line.data() + line.size())
            continue;
        const char type = end[1];
        const std::string_view name(end + 3, static_cast<std::size_t>(line.data() + line.size() - end - 3));
        if (name == "_stext")
            start = address;
        if (name == "_etext")
            end_of_text = address;
        if (type != 't' && type != 'T' && type != 'w' && type != 'W')
            continue;
        if (name.starts_with("bpf_prog_") && name.ends_with("[bpf]"))
            continue; // without an end, and perhaps another's place by now: see bpf_code_
        if (name.find('\t') == name.npos) {
            first = std::min(first, address);
            last = std::max(last, address);
        }
        symbols_.push_back({address, static_cast<std::uint32_t>(names_.size())});
        for (const char c : name)
            names_.push_back(c == '\t' ? ' ' : c);
        names_.push_back('\0');
    }
    text_start_ = start ? start : first;
    text_end_ = end_of_text ? end_of_text : last ? last + last_of_module : 0;
    names_.shrink_to_fit();
    symbols_.shrink_to_fit();
    std::ranges::stable_sort(symbols_, {}, &Symbol::address);
}

void KernelSymbols::next_incident() {
    looked_ = read_again_ = false;
}

void KernelSymbols::look_again() {
    looked_ = true;
    bpf_code_ = sources_.bpf_code();
    if (places_of_modules(sources_.modules) != modules_) {
        read();
        read_again_ = true;
    }
}

std::string KernelSymbols::by_symbol(std::uint64_t address) const {
    auto after = std::ranges::upper_bound(symbols_, address, {}, &Symbol::address);
    if (after == symbols_.begin())
        return {};
    const Symbol &symbol = *std::prev(after);
    const std::string_view text(names_.c_str() + symbol.text);
    const auto module = text.find(" [");
    const std::uint64_t offset = address - symbol.address;
    const bool made =
        text.ends_with(" [bpf]") || text.ends_with(" [__builtin__ftrace]") || text.ends_with(" [__builtin__kprobes]");
    if (of_kernel(symbol.address) != of_kernel(address))
        return {};
    // Without a module, beyond the kernel's text: its end, or code of the start that is gone.
    if (!of_kernel(address) && (module == text.npos || offset >= (made ? generated : last_of_module)))
        return {};
    return fmt::format("{}+{:#x}{}", text.substr(0, module), offset, module == text.npos ? "" : text.substr(module));
}

std::string KernelSymbols::name(std::uint64_t address) {
    if (of_kernel(address))
        return by_symbol(address);
    if (!looked_)
        look_again();
    auto after = std::ranges::upper_bound(bpf_code_, address, {}, &BpfCode::start);
    if (after != bpf_code_.begin())
        if (const BpfCode &code = *std::prev(after); address - code.start < code.length)
            return fmt::format("{}+{:#x} [bpf]", code.name, address - code.start);
    std::string known = by_symbol(address);
    // Without modules having changed it can be a trampoline that is new.
    if (!known.empty() || read_again_ || !(address >> 63) || nameless_.contains(address))
        return known;
    read();
    read_again_ = true;
    known = by_symbol(address);
    if (known.empty() && nameless_.size() < nameless_max)
        nameless_.insert(address);
    return known;
}

} // namespace incident::daemon
