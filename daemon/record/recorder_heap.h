// The daemon's access to the kernel side of heap recording (bpf/heap.bpf.c).  It is loaded when the first rule asks for
// it, and each recorded process has its own maps.
#pragma once

#include "bpf/heap.h"
#include "capture/os/address.h"
#include "capture/os/result.h"
#include "capture/os/unique_fd.h"
#include "daemon/record/recorder.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace incident::daemon {

struct HeapSizes {
    std::uint32_t live = 0;    // allocations remembered
    std::uint32_t stacks = 0;  // different call stacks
    std::uint32_t history = 0; // records, a power of two; 0: none
    bool operator==(const HeapSizes &) const = default;
};

// The maps of one process.  They stay readable as long as this object lives, even after the process and its slot are
// gone.
class HeapMaps {
public:
    // The process may write meanwhile.  Each element that is returned is whole; a record of the history that is not is
    // left out.
    std::vector<std::pair<std::uint64_t, bpf::heap_allocation>> live() const;
    std::vector<std::pair<std::uint64_t, bpf::heap_stack>> stacks() const;
    // Oldest first.  written: account.history_next, as read before.
    std::vector<bpf::heap_record> history(std::uint64_t written) const;
    const HeapSizes &sizes() const { return sizes_; }

    HeapMaps(HeapMaps &&) = default;
    HeapMaps &operator=(HeapMaps &&) = default;

private:
    friend class HeapKernel;
    HeapMaps() = default;
    HeapSizes sizes_;
    UniqueFd live_, stacks_, history_;
    std::shared_ptr<const bpf::heap_record> mapped_; // the history
};

class HeapKernel {
public:
    // The Error names what this kernel lacks.
    static Result<std::unique_ptr<HeapKernel>> load(Attacher &attacher); // which must outlive it
    ~HeapKernel();

    Result<HeapMaps> make_maps(const HeapSizes &sizes) const;
    // Gives the slot these settings and maps, and sets its account to zero.
    Status begin(unsigned slot, const bpf::heap_account &settings, const HeapMaps &maps);
    // Call it when the probes are gone and nobody writes to the slot any more.
    void end(unsigned slot);
    // A copy of the account.  Settings may be changed while probes are attached.
    bpf::heap_account account(unsigned slot) const;
    void set_ranges(unsigned slot, const bpf::heap_account &settings);
    // mask: the number of records in the history - 1, or ~0 to keep none from now on.
    void set_history_mask(unsigned slot, std::uint64_t mask);

    enum class Role { Enter, Leave, LeaveAtRet, Free };
    // path: of the file (/proc/self/fd/N names exactly one inode).
    Result<Attached> attach(Role role, const std::string &path, capture::FileOffset offset, std::uint32_t pid,
                            std::uint64_t cookie);

    HeapKernel(const HeapKernel &) = delete;
    HeapKernel &operator=(const HeapKernel &) = delete;

private:
    HeapKernel() = default;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace incident::daemon
