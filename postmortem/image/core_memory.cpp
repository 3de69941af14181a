#include "postmortem/image/core_memory.h"

#include "postmortem/image/elf_layout.h"

#include <algorithm>
#include <elf.h>

namespace incident::postmortem {

// One segment more, and one at each page where another mapping or an ELF file begins.
std::uint64_t CoreMemory::cost(std::uint64_t bytes) {
    return bytes + core_segment_overhead * (1 + bytes / page_size);
}

bool CoreMemory::add(std::uint64_t address, std::string_view bytes) {
    if (bytes.empty())
        return true;
    if (cost(bytes.size()) > room_)
        return false;
    room_ -= cost(bytes.size());
    memory_.add(address, bytes);
    return true;
}

std::vector<CoreSegment> CoreMemory::segments(const capture::Maps &maps) const {
    std::vector<CoreSegment> segments;
    for (const auto &[start, bytes] : memory_.pieces()) {
        std::string_view rest(bytes);
        for (std::uint64_t at = start; !rest.empty();) {
            std::uint64_t end = at + rest.size();
            if (const auto next = beginnings_.upper_bound(at); next != beginnings_.end())
                end = std::min(end, *next);
            std::uint32_t flags = PF_R | PF_W; // where nothing is mapped: known all the same, so most likely a stack
            if (const capture::Mapping *mapping = maps.find(UserAddress(at))) {
                flags = (mapping->read ? PF_R : 0) | (mapping->write ? PF_W : 0) | (mapping->execute ? PF_X : 0);
                if (mapping->end.value % page_size == 0)
                    end = std::min(end, mapping->end.value);
            }
            segments.push_back({at, flags, rest.substr(0, end - at)});
            rest.remove_prefix(end - at);
            at = end;
        }
    }
    return segments;
}

} // namespace incident::postmortem
