// Writes an ELF core from notes and memory: headers, program headers, the notes, the bytes.
// Only known memory gets a PT_LOAD. The kernel writes one for each mapping, with p_filesz 0 if it dumped nothing. For
// such a segment gdb 13 shows memory that is in no file as zeros (core_target::xfer_partial: "sections with no
// contents"). Without a segment gdb says that the memory cannot be accessed, which is true. A file's bytes gdb takes
// from the file that NT_FILE names in both cases. lldb 14 and elfutils 0.188 behave the same with and without such
// segments.
#pragma once

#include "capture/os/isa.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

struct CoreSegment {
    std::uint64_t address = 0;
    std::uint32_t flags = 0; // PF_*
    std::string_view bytes;
};

// segments: sorted by address, without overlaps; of i386 all of them within its 4 GiB.
std::string write_core_file(std::string_view notes, const std::vector<CoreSegment> &segments,
                            capture::Isa isa = capture::Isa::x86_64);
// The file is at most this long: core_file_overhead + notes + each segment's bytes and core_segment_overhead.
inline constexpr std::uint64_t core_file_overhead = 256, core_segment_overhead = 72;

} // namespace incident::postmortem
