// Where the machine code of all loaded BPF programs is, whoever has loaded them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace incident::daemon {

struct BpfCode {
    std::uint64_t start = 0, length = 0; // bytes
    std::string name;                    // "bpf_prog_6c506a629097e8d3_signal_taken", as /proc/kallsyms calls them
};

// The functions of all programs by address, each under the name of its program.  Empty if the kernel does not tell
// (this needs CAP_SYS_ADMIN, and CAP_SYSLOG for the addresses).
std::vector<BpfCode> loaded_bpf_code();
using BpfCodeSource = std::function<std::vector<BpfCode>()>;

} // namespace incident::daemon
