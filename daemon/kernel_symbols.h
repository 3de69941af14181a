// Kernel addresses to names, from /proc/kallsyms as read once: they are only valid for
// this boot, so the bundle gets names, not addresses alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace incident::daemon {

class KernelSymbols {
public:
    static KernelSymbols load(const std::string &path = "/proc/kallsyms");
    // "schedule+0x2f", "spa_sync+0x10 [zfs]"; "" where unknown.
    std::string name(std::uint64_t address) const;
    bool empty() const { return symbols_.empty(); }

private:
    struct Symbol {
        std::uint64_t address;
        std::uint32_t text; // offset into names_
    };
    std::vector<Symbol> symbols_; // by address
    std::string names_;
};

} // namespace incident::daemon
