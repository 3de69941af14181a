#include "capture/decode/kernel_path.h"

#include "capture/decode/decode_text.h"

#include <algorithm>

namespace incident::capture {

namespace {

std::string_view names_of(const bpf::kernel_path &path) {
    return {path.names, std::min<std::size_t>(path.length, sizeof path.names)};
}

// Up to its NUL; what follows it is left in rest.
std::string_view take_name(std::string_view &rest) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    const std::string_view name = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return name;
}

} // namespace

std::string path_of(const bpf::kernel_path &path) {
    std::string text;
    std::string_view rest = names_of(path);
    for (__u32 part = 0; part < std::min<__u32>(path.parts, PATH_PARTS) && !rest.empty(); ++part)
        text.insert(0, "/" + std::string(take_name(rest)));
    return text;
}

std::string_view file_name_of(const bpf::kernel_path &path) {
    std::string_view rest = path.parts ? names_of(path) : std::string_view();
    return take_name(rest);
}

std::string cgroup_of_event(const bpf::death_event &event) {
    if (!event.cgroup_parts && !event.cgroup_id)
        return "";
    std::string path;
    for (std::size_t i = std::min<std::size_t>(event.cgroup_parts, std::size(event.cgroup)); i-- > 0;)
        path.append("/").append(fixed_text(event.cgroup[i]));
    return path.empty() ? "/" : path;
}

} // namespace incident::capture
