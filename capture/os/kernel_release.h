// Reads the version of a kernel from uname(2)'s release.
#pragma once

#include <compare>
#include <optional>
#include <string_view>

namespace incident::capture {

struct KernelVersion {
    unsigned major = 0, minor = 0;
    auto operator<=>(const KernelVersion &) const = default;
};

inline constexpr KernelVersion oldest_kernel{6, 1}; // the oldest one that has what the BPF programs need

// release: such as "6.1.0-13-amd64"; nullopt: it does not begin with two numbers.
std::optional<KernelVersion> kernel_version(std::string_view release);

} // namespace incident::capture
