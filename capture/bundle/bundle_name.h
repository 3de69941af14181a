// Reads what the name of a bundle's directory says, and tells which names are bundles.
#pragma once

#include <cstdint>
#include <optional>
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

// Whether this is a path within a bundle: up to four components of [A-Za-z0-9._-], none of which begins with a dot.  So
// no path leads out of the bundle, is hidden, or breaks a line of the MANIFEST.
bool valid_bundle_path(std::string_view path);

// Directories beside the bundles, each followed by the bundle's name.
inline constexpr std::string_view PARTIAL_PREFIX = ".partial-";
inline constexpr std::string_view AMEND_PREFIX = ".amend-";
// The old bundle between the two renames that replace it on file systems without RENAME_EXCHANGE.
inline constexpr std::string_view REPLACED_PREFIX = ".replaced-";
inline constexpr std::string_view REMOVED_PREFIX = ".removed-";
// Empty files.
inline constexpr std::string_view UNREPORTED_PREFIX = ".unreported-";
inline constexpr std::string_view PINNED_PREFIX = ".pinned-";

} // namespace incident::capture
