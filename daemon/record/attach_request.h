// What the daemon asks of the process that may load and attach BPF programs, and what that answers: see attacher.h.
#pragma once

#include "capture/os/address.h"
#include "daemon/os/servant.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace incident::daemon {

// One datagram.  Names are only ever compared with those of the recorder's own programs, or looked up by the kernel.
struct AttachRequest {
    enum class What : std::uint32_t {
        Program,       // `program`, where its section says; the link
        Tracepoint,    // `program` at `category`:`name`, with `cookie`; the link
        Uprobe,        // `program` at `offset` of the file that comes along, in process `pid` (0: in all); the link
        Kprobe,        // `program` at kernel function `name`; the link
        TxgFentry,     // the programs of bpf/txg_fentry.bpf.c; their links
        CountRunTimes, // what counts while it is open
        LoadedCode,    // a file of lines "START LENGTH NAME", see bpf_programs.h
        LoadHeap,      // the maps heap_accounts, heap_live, heap_stacks, heap_history
        MakeHeapMaps,  // of one process, with `entries`: live, stacks, history
    };

    What what = What::Program;
    std::uint32_t pid = 0;
    std::uint32_t on_return = 0;
    std::array<std::uint32_t, 3> entries{};
    std::uint64_t offset = 0, semaphore = 0, cookie = 0; // semaphore: of USDT, as an offset in the file; 0: none
    std::array<char, 32> program{};
    std::array<char, 128> category{}, name{};
};

// false: it has no room.
template <std::size_t N> bool put_name(std::array<char, N> &into, std::string_view name) {
    if (name.size() >= N)
        return false;
    name.copy(into.data(), name.size());
    return true;
}

using AttachAnswer = Servant::Answer;

} // namespace incident::daemon
