// Copies a core, decompressed, to where gdb or the user wants it.
#pragma once

#include "postmortem/core/core_decoder.h"

#include <functional>
#include <optional>

namespace incident::postmortem {

struct CopyControl {
    // Bytes of the compressed file done and in all, a few times a second.
    std::function<void(std::uint64_t done, std::uint64_t all)> progress;
    // Asked between blocks; true ends the copy with an Error.
    std::function<bool()> interrupted;
};

struct CopiedCore {
    std::uint64_t bytes = 0;
    // What its headers promise is not all there: the core was cut when it was written.
    bool truncated = false;
};

// into: a file (zero blocks become holes; enough space is checked first) or, with
// stream, a pipe.  place: how errors call it.  What is no ELF core is refused, and so is what
// goes on far beyond the end its own headers state.
Result<CopiedCore> copy_core(CoreDecoder &core, int into, bool stream, const std::string &place,
                             const CopyControl &control);

// Where a core ends according to its ELF header and program headers; head: its first
// bytes.  nullopt: more of it is needed.  An Error: this is no ELF core.
Result<std::optional<std::uint64_t>> stated_core_size(std::span<const std::uint8_t> head);

} // namespace incident::postmortem
