// The memory a core is to hold: pieces from several sources, until it is full.
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
    // How much longer a piece makes the file, at most.
    static std::uint64_t cost(std::uint64_t bytes);
    // The file may become so much longer, in addition to what is left of earlier allowances.
    void allow(std::uint64_t bytes) { room_ += bytes; }
    // What was added first stays, as in ImageMemory.  False, and nothing is added: no room.
    bool add(std::uint64_t address, std::string_view bytes);
    // An ELF file begins there.  Readers look for its headers where a segment begins.
    void begins(std::uint64_t address) { beginnings_.insert(address); }
    // By address; each within one mapping, with its rights.  Refers to this object's bytes.
    std::vector<CoreSegment> segments(const capture::Maps &maps) const;

private:
    std::uint64_t room_ = 0;
    ImageMemory memory_;
    std::set<std::uint64_t> beginnings_;
};

} // namespace incident::postmortem
