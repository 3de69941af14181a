// What lies at an address: module, build-id, offset in the file.  From the collected maps; where
// they could not be read, from the few mappings the kernel side copied.  Internal to capture/.
#pragma once

#include "capture/os/maps.h"
#include "capture/render/render.h"

#include <map>
#include <string>

namespace incident::capture {

class Modules {
public:
    explicit Modules(const RenderContext &context);

    // The mapping of an address; null where it is in none, or in none known.
    const Mapping *mapping(std::uint64_t address) const { return maps_.find(address); }
    const std::vector<Mapping> &all() const { return maps_.all(); }
    bool executable(std::uint64_t address) const {
        const Mapping *found = mapping(address);
        return found && found->execute;
    }
    // Build-id of a mapped file: of its head as mapped, else of the file of this path and inode.
    const std::string &build_id(const Mapping &mapping) const;
    // false: maps_ are the kernel side's, of the addresses in the registers only
    bool whole() const { return whole_; }
    static std::uint64_t file_offset(const Mapping &mapping, std::uint64_t address) {
        return address - mapping.start + mapping.offset;
    }

private:
    const RenderContext &context_;
    Maps maps_;
    bool whole_ = false;
    mutable std::map<std::pair<std::uint64_t, std::string>, std::string> build_ids_; // by inode and path
};

} // namespace incident::capture
