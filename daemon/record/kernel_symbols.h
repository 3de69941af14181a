// Finds the names of kernel addresses.  Addresses are valid during this boot only, and those of modules and BPF
// programs even shorter, so the bundle gets names too.
//
// The kernel's own code never moves, so /proc/kallsyms (10 MB of text on a large kernel) is read once for it.  Modules
// and BPF programs come and go, and others get their addresses.  So for each incident with an address there, BPF
// programs are listed again by bpf(2), which knows where they end, and /proc/modules is read again; kallsyms is read
// again only if that has changed or an address is new.
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
        BpfCodeSource bpf_code = loaded_bpf_code;
    };
    explicit KernelSymbols(Sources sources);

    // "schedule+0x2f", "spa_sync+0x10 [zfs]"; "" if no known function contains the address.
    std::string name(std::uint64_t address);
    // Call it before each incident: modules and BPF programs may have changed since the last one.
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
    std::uint64_t text_start_ = 0, text_end_ = 0; // the kernel itself, without modules
    std::vector<BpfCode> bpf_code_;               // by address
    std::string modules_;                         // the text of /proc/modules when kallsyms was read
    std::set<std::uint64_t> nameless_;            // addresses that reading kallsyms again did not explain
    bool looked_ = false;                         // modules and BPF programs were read for this incident
    bool read_again_ = false;
};

} // namespace incident::daemon
