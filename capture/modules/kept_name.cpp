#include "capture/modules/kept_name.h"

#include <algorithm>

namespace incident::capture {

namespace {

constexpr std::string_view without = "none";
constexpr std::size_t build_id_digits_max = 128, hash_digits = 64;

bool is_hex(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

} // namespace

std::string kept_name(std::string_view build_id, std::string_view sha256) {
    std::string name(build_id.empty() ? without : build_id);
    return name.append(".").append(sha256);
}

bool is_kept_name(std::string_view name) {
    const std::size_t dot = name.find('.');
    if (dot == std::string_view::npos)
        return false;
    const std::string_view id = name.substr(0, dot), hash = name.substr(dot + 1);
    return (id == without || (!id.empty() && id.size() <= build_id_digits_max && is_hex(id))) &&
           hash.size() == hash_digits && is_hex(hash);
}

std::string_view build_id_in(std::string_view kept_name) {
    const std::string_view id = kept_name.substr(0, kept_name.find('.'));
    return id == without ? std::string_view() : id;
}

} // namespace incident::capture
