// What a bundle's directory name says, and which names are bundles at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace incident::capture {

struct BundleName {
    std::string_view time; // "20261121T150405.123Z"
    std::string_view what; // "<rule>-<comm>"; both may hold dashes, so it is not split
    std::uint32_t pid = 0;
    std::string_view short_id;
};

// Views into name.  nullopt: not a bundle's name ("lost+found", ".partial-…", …).
std::optional<BundleName> parse_bundle_name(std::string_view name);

// Paths within a bundle: up to four components of [A-Za-z0-9._-], none of which
// begins with a dot; so no path leads out, hides, or breaks a MANIFEST line.
bool valid_bundle_path(std::string_view path);

// Directories beside the bundles, each followed by the bundle's name.
inline constexpr std::string_view PARTIAL_PREFIX = ".partial-";
inline constexpr std::string_view AMEND_PREFIX = ".amend-";
// The old bundle, for a moment, on file systems without RENAME_EXCHANGE.
inline constexpr std::string_view REPLACED_PREFIX = ".replaced-";
inline constexpr std::string_view REMOVED_PREFIX = ".removed-";
inline constexpr std::string_view UNREPORTED_PREFIX = ".unreported-"; // an empty file

} // namespace incident::capture
