// Collects the memory for a core: pieces from several sources, until the core is full.
#pragma once

#include "capture/os/maps.h"
#include "postmortem/image/core_file.h"
#include "postmortem/image/image_memory.h"

#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

namespace incident::postmortem {

class CoreMemory {
public:
    // By how many bytes a piece makes the file longer, at most.
    static std::uint64_t cost(std::uint64_t bytes);
    // Allows the file to become this much longer, in addition to what is left of earlier allowances.
    void allow(std::uint64_t bytes) { room_ += bytes; }
    // Known bytes are not overwritten, as in ImageMemory. Returns false and adds nothing if there is no room.
    bool add(std::uint64_t address, std::string_view bytes);
    // Notes that an ELF file begins there. Readers look for its headers at the start of a segment.
    void begins(std::uint64_t address) { beginnings_.insert(address); }
    // The segments by address; each is within one mapping and has its rights. They refer to this object's bytes.
    std::vector<CoreSegment> segments(const capture::Maps &maps) const;

private:
    std::uint64_t room_ = 0;
    ImageMemory memory_;
    std::set<std::uint64_t> beginnings_;
};

} // namespace incident::postmortem
