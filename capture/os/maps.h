// Finds mappings by address in the text of /proc/PID/maps.  The process chooses the paths in it, so they are hostile.
#pragma once

#include "capture/os/address.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace incident::capture {

struct Mapping {
    UserAddress start, end; // [start, end)
    FileOffset offset;      // of start
    std::uint64_t inode = 0;
    std::uint32_t major = 0, minor = 0; // of the file system's device
    bool read = false, write = false, execute = false, shared = false;
    bool deleted = false; // the path ended with " (deleted)", which is cut off
    std::string path;     // as the kernel prints it (newline as \012); "[heap]", "[vdso]"; "": anonymous

    bool is_file() const { return path.starts_with('/') && inode != 0; }
    FileOffset offset_of(UserAddress address) const { return offset + (address - start); }
};

class Maps {
public:
    static constexpr std::size_t mappings_max = 1u << 20;

    // Lines that the kernel does not print are left out.
    static Maps parse(std::string_view text);
    static Maps of(std::vector<Mapping> mappings);

    // The mapping that contains the address; null if none does.
    const Mapping *find(UserAddress address) const;
    const std::vector<Mapping> &all() const { return mappings_; } // by start
    bool empty() const { return mappings_.empty(); }

private:
    std::vector<Mapping> mappings_;
};

// Whether the text ends too early, because the process's memory went while it was read: the kernel says nothing then
// (fs/proc/task_mmu.c, m_start).  own: the whole text of a process of this kernel.  A 64-bit process's last line is
// that of [vsyscall], where the kernel has one.
bool maps_end_early(std::string_view text, std::string_view own);

} // namespace incident::capture
