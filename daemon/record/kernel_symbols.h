// Kernel addresses to names.  They are valid for this boot, modules' and BPF programs' for even less, so the bundle
// gets names, not addresses alone.
//
// The kernel's own text never moves: /proc/kallsyms, 10 MB of text on a large kernel, is read once for it.  Modules and
// BPF programs come and go, and the kernel gives their places to others: what is known of them is looked at again for
// each incident that asks about an address there, BPF programs by bpf(2), which knows where they end, modules by
// /proc/modules, and kallsyms again only where that has changed or an address is new.
#pragma once

#include "daemon/record/bpf_programs.h"

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace incident::daemon {

class KernelSymbols {
public:
    struct Sources {
        std::string kallsyms = "/proc/kallsyms", modules = "/proc/modules";
        std::function<std::vector<BpfCode>()> bpf_code = loaded_bpf_code;
    };
    explicit KernelSymbols(Sources sources);

    // "schedule+0x2f", "spa_sync+0x10 [zfs]"; "" where no function is known to reach as far.
    std::string name(std::uint64_t address);
    // What is asked from now on is of another incident: what comes and goes may have.
    void next_incident();
    bool empty() const { return symbols_.empty(); }

private:
    struct Symbol {
        std::uint64_t address;
        std::uint32_t text; // offset into names_
    };
    void read();
    void look_again();
    std::string by_symbol(std::uint64_t address) const;
    bool of_kernel(std::uint64_t address) const { return address >= text_start_ && address < text_end_; }

    Sources sources_;
    std::vector<Symbol> symbols_; // by address
    std::string names_;
    std::uint64_t text_start_ = 0, text_end_ = 0; // of the kernel itself, without modules
    std::vector<BpfCode> bpf_code_;               // by address
    std::string modules_;                         // where they were when kallsyms was read
    std::set<std::uint64_t> nameless_;            // addresses that reading kallsyms again did not explain
    bool looked_ = false;                         // for this incident, at what comes and goes
    bool read_again_ = false;
};

} // namespace incident::daemon
