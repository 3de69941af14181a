// The heap recorder's kernel side as the daemon sees it (bpf/heap.bpf.c): loaded when the first
// rule asks for it, with maps of its own for each process recorded.
#pragma once

#include "bpf/heap.h"
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
    std::uint32_t stacks = 0;  // call stacks told apart
    std::uint32_t history = 0; // records, a power of two; 0: none
    bool operator==(const HeapSizes &) const = default;
};

// One process's maps.  They stay readable as long as this lives, whatever becomes of the process
// and its slot.
class HeapMaps {
public:
    // Reading while others write: each element is whole or, of the history, left out.
    std::vector<std::pair<std::uint64_t, bpf::heap_allocation>> live() const;
    std::vector<std::pair<std::uint64_t, bpf::heap_stack>> stacks() const;
    // Oldest first; written: account.history_next as read before.
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
    // Error: what this kernel lacks.
    static Result<std::unique_ptr<HeapKernel>> load();
    ~HeapKernel();

    Result<HeapMaps> make_maps(const HeapSizes &sizes) const;
    // The slot's account begins at zero, with these settings, and its maps are these from now on.
    Status begin(unsigned slot, const bpf::heap_account &settings, const HeapMaps &maps);
    // Nobody writes to the slot any more: its probes are gone.
    void end(unsigned slot);
    // A copy of the account; settings may be changed while probes are attached.
    bpf::heap_account account(unsigned slot) const;
    void set_ranges(unsigned slot, const bpf::heap_account &settings);
    // Records of the history - 1, or ~0: none is kept from now on.
    void set_history_mask(unsigned slot, std::uint64_t mask);

    enum class Role { Enter, Leave, LeaveAtRet, Free };
    // path: of the file, /proc/self/fd/N pins the very inode; offset: bytes in it.
    Result<Attached> attach(Role role, const std::string &path, std::uint64_t offset, std::uint32_t pid,
                            std::uint64_t cookie);

    HeapKernel(const HeapKernel &) = delete;
    HeapKernel &operator=(const HeapKernel &) = delete;

private:
    HeapKernel() = default;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace incident::daemon
