#include "capture/os/kernel_release.h"

#include <charconv>

namespace incident::capture {

std::optional<KernelVersion> kernel_version(std::string_view release) {
    KernelVersion version;
    const char *const end = release.data() + release.size();
    const auto [dot, wrong_major] = std::from_chars(release.data(), end, version.major);
    if (wrong_major != std::errc() || dot == end || *dot != '.')
        return std::nullopt;
    const auto [rest, wrong_minor] = std::from_chars(dot + 1, end, version.minor);
    if (wrong_minor != std::errc())
        return std::nullopt;
    return version;
}

} // namespace incident::capture
