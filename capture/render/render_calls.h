// One system call with the records that are left of it, and what it did to the table of descriptors.  Internal to
// capture/.
#pragma once

#include "capture/collect/snapshot.h"
#include "capture/render/render_fds.h"

#include <cstdint>
#include <optional>
#include <string>

namespace incident::capture {

// A call has at least one record.
struct Call {
    std::uint32_t tid = 0;
    const bpf::syscall_record *record = nullptr;
    const bpf::memory_record *memory = nullptr;
    const CallPath *path = nullptr;       // beside a syscall record
    const CallAddress *address = nullptr; // likewise
    const CallEvents *events = nullptr;   // likewise
    const CallPayload *payload = nullptr; // likewise
    const Request *request = nullptr;     // it is none, but a request that does the same

    std::uint64_t start() const {
        if (record)
            return record->start_ns;
        return memory->start_ns ? memory->start_ns : memory->t_ns;
    }
    int nr() const { return record ? record->nr : memory->nr; }
    bool compat() const { return (record ? record->flags : memory->flags) & bpf::SYSCALL_COMPAT; }
    std::uint64_t duration() const {
        if (record)
            return record->duration_ns;
        return memory->start_ns && memory->t_ns > memory->start_ns ? memory->t_ns - memory->start_ns : NO_DURATION;
    }
    bool in_flight() const { return duration() == IN_FLIGHT; }
    bool timed() const { return duration() < NO_DURATION; } // the call has returned, and its entry was recorded
    std::int64_t ret() const { return record ? record->ret : static_cast<std::int64_t>(memory->address); }
    // Of a call that opens a file: O_CLOEXEC and the like, as far as they are known.
    std::uint64_t open_flags() const;
    // The directory below which its path stands; AT_FDCWD if it takes none.
    int directory() const;
    std::uint64_t end() const { return timed() ? start() + duration() : start(); } // for a call that has returned
};

// What a call does to the table of descriptors, and when.
struct FdChange {
    enum class What { Open, Close, CloseRange, Duplicate, Exec, Connect } what;
    std::uint64_t t_ns = 0;
    bool after = false; // after the call's own line; else before the lines of the same nanosecond
    int fd = -1;        // opened, closed, duplicated from, connected
    int to = -1;        // duplicated to
    std::uint32_t first = 0, last = 0;
    bool close_on_exec = false;
    std::uint32_t call = 0; // which call it was, as the caller numbers them

    void announce(FdTable &table) const;
    // name: of what was opened, or connected to; "" if it is not known.
    void apply(FdTable &table, std::string name) const;
};
std::optional<FdChange> change_of(const Call &call);

} // namespace incident::capture
