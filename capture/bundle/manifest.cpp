#include "capture/bundle/manifest.h"

#include "capture/bundle/bundle_name.h"
#include "capture/os/number.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <unordered_set>

namespace incident::capture {

namespace {

constexpr std::size_t SHA256_HEX = 64;

bool is_sha256(std::string_view text) {
    return text.size() == SHA256_HEX &&
           std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::unexpected<Error> broken(std::size_t line, std::string_view why) {
    return fail(std::string(MANIFEST_NAME) + ":" + std::to_string(line) + ": " + std::string(why));
}

} // namespace

std::string format_manifest(std::span<const ManifestEntry> files) {
    std::string text;
    for (const ManifestEntry &file : files)
        text += file.sha256 + " " + std::to_string(file.size) + " " + file.path + "\n";
    return text + "end " + std::to_string(files.size()) + "\n";
}

Result<std::vector<ManifestEntry>> parse_manifest(std::string_view text) {
    std::vector<ManifestEntry> files;
    std::unordered_set<std::string_view> paths;
    for (std::size_t number = 1;; ++number) {
        const std::size_t newline = text.find('\n');
        if (newline == std::string_view::npos)
            return broken(number, "cut off: no \"end\" line");
        const std::string_view line = text.substr(0, newline);
        text.remove_prefix(newline + 1);
        if (line.starts_with("end ")) {
            std::uint64_t count = 0;
            if (!whole_number(line.substr(4), count) || count != files.size())
                return broken(number, "counts other files than it lists");
            if (!text.empty())
                return broken(number, "bytes after the \"end\" line");
            return files;
        }
        ManifestEntry entry;
        const std::size_t first = line.find(' ');
        const std::size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
        if (second == std::string_view::npos || !is_sha256(line.substr(0, first)) ||
            !whole_number(line.substr(first + 1, second - first - 1), entry.size))
            return broken(number, "not \"<sha256> <size> <path>\"");
        const std::string_view path = line.substr(second + 1);
        if (!valid_bundle_path(path) || path == MANIFEST_NAME)
            return broken(number, "not a path of a bundle");
        if (!paths.insert(path).second)
            return broken(number, "lists a file twice");
        if (files.size() == MANIFEST_FILES_MAX)
            return broken(number, "lists too many files");
        entry.sha256 = line.substr(0, first);
        entry.path = path;
        files.push_back(std::move(entry));
    }
}

void Sha256::Free::operator()(evp_md_ctx_st *context) const {
    ::EVP_MD_CTX_free(context);
}

// These fail only without memory or without a provider for SHA-256.  The sum is then
// "", which no manifest line accepts: such a bundle cannot be committed.
Sha256::Sha256() : context_(::EVP_MD_CTX_new()) {
    ok_ = context_ && ::EVP_DigestInit_ex(context_.get(), ::EVP_sha256(), nullptr) == 1;
}

void Sha256::add(std::span<const std::uint8_t> bytes) {
    ok_ = ok_ && ::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1;
}

std::string Sha256::hex() {
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (!ok_ || ::EVP_DigestFinal_ex(context_.get(), sum, &length) != 1)
        return "";
    ok_ = false;
    return fmt::format("{:02x}", fmt::join(std::span(sum, length), ""));
}

} // namespace incident::capture
