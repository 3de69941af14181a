// Finds the module, the build-id and the offset in the file of an address.  It uses the collected maps, or, if these
// could not be read, the few mappings that the kernel side copied.  Internal to capture/.
#pragma once

#include "capture/os/maps.h"
#include "capture/render/render.h"

#include <map>
#include <string>

namespace incident::capture {

class Modules {
public:
    explicit Modules(const RenderContext &context);

    // The mapping that contains the address; null if no known mapping does.
    const Mapping *mapping(UserAddress address) const { return maps_.find(address); }
    const std::vector<Mapping> &all() const { return maps_.all(); }
    bool executable(UserAddress address) const {
        const Mapping *found = mapping(address);
        return found && found->execute;
    }
    // The build-id of a mapped file, from its first bytes as mapped, else from the file of this path and inode.
    const std::string &build_id(const Mapping &mapping) const;
    // false: maps_ come from the kernel side and cover only the addresses in the registers
    bool whole() const { return whole_; }

private:
    const RenderContext &context_;
    Maps maps_;
    bool whole_ = false;
    mutable std::map<std::pair<std::uint64_t, std::string>, std::string> build_ids_; // by inode and path
};

// Where mapped files lie on the host, by their paths as the process sees them and their inodes; those that lie there,
// or of which it is not known, are not among them.
std::map<std::pair<std::string, std::uint64_t>, std::string> paths_on_host(const RenderContext &context);

} // namespace incident::capture
