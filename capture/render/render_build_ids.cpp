// modules.json: the files of which code was mapped, with their build-ids as they were then, and the names of the copies
// that are kept of them.  By them a reader knows later, or elsewhere, which files and debug files are the right ones.
#include "capture/decode/decode_text.h"
#include "capture/modules/kept_name.h"
#include "capture/render/render_modules.h"
#include "capture/render/render_parts.h"

#include <nlohmann/json.hpp>

#include <set>

namespace incident::capture {

nlohmann::ordered_json modules_of(const RenderContext &context, const Redactor &redactor) {
    using Json = nlohmann::ordered_json;
    const Modules modules(context);
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
        list.push_back({{"path", valid_utf8(redactor.text(mapping.path))},
                        {"inode", mapping.inode},
                        {"build_id", build_id.empty() ? Json() : Json(build_id)},
                        {"kept", kept.empty() ? Json() : Json(kept)}});
    }
    return list;
}

} // namespace incident::capture
