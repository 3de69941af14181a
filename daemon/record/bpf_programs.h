// The machine code of the BPF programs that are loaded, anybody's: what of the kernel's addresses is theirs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace incident::daemon {

struct BpfCode {
    std::uint64_t start = 0, length = 0; // bytes
    std::string name;                    // "bpf_prog_6c506a629097e8d3_signal_taken", as /proc/kallsyms calls them
};

// By address.  Of each program the functions it has, all by the program's name.  Empty where the kernel does not tell
// (needs CAP_SYS_ADMIN, and CAP_SYSLOG for the addresses).
std::vector<BpfCode> loaded_bpf_code();

} // namespace incident::daemon
