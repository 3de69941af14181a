// MANIFEST: the list of the files of a bundle, which is written last.
//
//   <sha256> <size> <path>\n      one line a file, in writing order
//   end <number of files>\n       so that a truncated manifest is not a shorter one
#pragma once

#include "capture/bundle/bundle.h"

#include <memory>

struct evp_md_ctx_st; // OpenSSL's EVP_MD_CTX

namespace incident::capture {

inline constexpr std::string_view MANIFEST_NAME = "MANIFEST";
inline constexpr std::uint64_t MANIFEST_CAP = 4u << 20;
inline constexpr std::size_t MANIFEST_FILES_MAX = 16384;

std::string format_manifest(std::span<const ManifestEntry> files);
Result<std::vector<ManifestEntry>> parse_manifest(std::string_view text);

class Sha256 {
public:
    Sha256();
    void add(std::span<const std::uint8_t> bytes);
    std::string hex(); // ends the sum

private:
    struct Free {
        void operator()(evp_md_ctx_st *context) const;
    };
    std::unique_ptr<evp_md_ctx_st, Free> context_;
    bool ok_ = false;
};

// Valid as long as the text is.
inline std::span<const std::uint8_t> bytes_of_text(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t *>(text.data()), text.size()};
}

} // namespace incident::capture
