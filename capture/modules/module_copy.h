// What is kept of an ELF file that a process has mapped: what unwinding and naming need of it later, when the file is
// gone.  That is its headers, unwind tables, symbols, notes and version, without its code and data.
//
// A copy is an ELF file with everything at the offset where the file has it, and nothing between.  Sections that it
// lacks are SHT_NOBITS in its section headers, as in a separate debug file (objcopy --only-keep-debug).
#pragma once

#include "capture/os/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace incident::capture {

struct ModuleCopy {
    struct Piece {
        std::uint64_t offset = 0;
        std::string bytes;
    };
    std::vector<Piece> pieces; // in the order of the file, apart from each other
    std::string build_id;      // hex; "" none
    std::string name;          // of the copy in a store: kept_name()

    std::uint64_t bytes() const; // of all pieces
};

// Copies at most `most` bytes of an open regular file, which may change meanwhile; of one that would need more all but
// the full symbol table.  Errors: it is not ELF, cannot be read, or what is to be kept has more bytes even so.
Result<ModuleCopy> copy_module(int fd, std::uint64_t most);

} // namespace incident::capture
