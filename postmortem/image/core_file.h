// An ELF core out of notes and memory: headers, program headers, the notes, the bytes.
//
// Only what is known gets a PT_LOAD.  The kernel has one for each mapping, with p_filesz 0 where it dumped
// nothing; gdb 13 then takes a file's bytes from the file NT_FILE names, segment or not, but shows what
// is in no file as zeros (core_target::xfer_partial: "sections with no contents").  Without a segment it
// says that the memory cannot be accessed, which is the truth.  lldb 14 and elfutils 0.188 make no difference.
#pragma once

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

// segments: by address, not overlapping.
std::string write_core_file(std::string_view notes, const std::vector<CoreSegment> &segments);
// How long that becomes at most: core_file_overhead + notes + for each segment its bytes and core_segment_overhead.
inline constexpr std::uint64_t core_file_overhead = 256, core_segment_overhead = 72;

} // namespace incident::postmortem
