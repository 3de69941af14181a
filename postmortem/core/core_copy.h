// Decompresses a core and copies it to where gdb or the user wants it.
#pragma once

#include "postmortem/core/core_decoder.h"

#include <functional>
#include <optional>

namespace incident::postmortem {

struct CopyControl {
    // Called a few times a second with the bytes of the compressed file that are done, and with all of them.
    std::function<void(std::uint64_t done, std::uint64_t all)> progress;
    // Called between blocks; if it returns true, the copy ends with an Error.
    std::function<bool()> interrupted;
};

struct CopiedCore {
    std::uint64_t bytes = 0;
    // The core is shorter than its headers say: it was cut when it was written.
    bool truncated = false;
};

// `into` is a file (zero blocks become holes, and the free space is checked first) or, with `stream`, a pipe. `place`
// is its name in errors. A file that is not an ELF core is refused, and so is one that is much longer than its headers
// say.
Result<CopiedCore> copy_core(CoreDecoder &core, int into, bool stream, const std::string &place,
                             const CopyControl &control);

// The size that a core has according to its ELF header and program headers. `head` is its first bytes; nullopt if more
// of them are needed. Returns an Error if this is not an ELF core.
Result<std::optional<std::uint64_t>> stated_core_size(std::span<const std::uint8_t> head);

} // namespace incident::postmortem
