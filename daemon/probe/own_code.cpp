#include "daemon/probe/own_code.h"

#include "capture/os/maps.h"

#include <fstream>
#include <iterator>
#include <string>

namespace incident::daemon {

Result<capture::FileOffset> own_file_offset(capture::UserAddress address) {
    std::ifstream file("/proc/self/maps");
    const auto maps = capture::Maps::parse(std::string(std::istreambuf_iterator<char>(file), {}));
    const capture::Mapping *mapping = maps.find(address);
    if (!mapping || !mapping->is_file())
        return fail("the daemon's own code was not found in its mappings");
    return mapping->offset_of(address);
}

} // namespace incident::daemon
