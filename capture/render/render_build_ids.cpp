// modules.json: the files of which code was mapped, with their build-ids as they were then, and the names of the copies
// that are kept of them.  By them a reader knows later, or elsewhere, which files and debug files are the right ones.
#include "capture/decode/decode_text.h"
#include "capture/modules/kept_name.h"
#include "capture/os/lines.h"
#include "capture/render/render_modules.h"
#include "capture/render/render_parts.h"

#include <nlohmann/json.hpp>

#include <set>

namespace incident::capture {

std::map<std::pair<std::string, std::uint64_t>, std::string> paths_on_host(const RenderContext &context) {
    std::map<std::pair<std::string, std::uint64_t>, std::string> paths;
    const std::string *file = context.collected.file("process/host_paths");
    for (const std::string_view line : lines_of(file ? std::string_view(*file) : std::string_view()))
        if (const Json json = Json::parse(line, nullptr, false); member(json, "path").is_string() &&
                                                                 member(json, "host").is_string() &&
                                                                 member(json, "inode").is_number_unsigned())
            paths.emplace(
                std::pair(member(json, "path").get<std::string>(), member(json, "inode").get<std::uint64_t>()),
                member(json, "host").get<std::string>());
    return paths;
}

nlohmann::ordered_json modules_of(const RenderContext &context, const Redactor &redactor) {
    const Modules modules(context);
    const auto on_host = paths_on_host(context);
    std::set<std::pair<std::string, std::uint64_t>> seen;
    Json list = Json::array();
    for (const Mapping &mapping : modules.all()) {
        if (!mapping.execute || !mapping.is_file() || !seen.emplace(mapping.path, mapping.inode).second)
            continue;
        const auto &copy_of = context.input.kept_copy_of;
        std::string kept = copy_of ? copy_of(mapping) : std::string();
        const std::string &build_id = modules.build_id(mapping);
        if (!build_id.empty() && build_id_in(kept) != build_id) // of a file that had its place before
            kept.clear();
        const auto host = mapping.deleted ? on_host.end() : on_host.find({mapping.path, mapping.inode});
        list.push_back({{"path", valid_utf8(redactor.text(mapping.path))},
                        {"inode", mapping.inode},
                        {"build_id", build_id.empty() ? Json() : Json(build_id)},
                        {"on_host", host == on_host.end() ? Json() : text_or_null(redactor.text(host->second))},
                        {"kept", kept.empty() ? Json() : Json(kept)}});
    }
    return list;
}

} // namespace incident::capture
