#include "capture/bundle/json_member.h"

#include "capture/decode/decode_text.h"

#include <nlohmann/json.hpp>

namespace incident::capture {

const Json &member(const Json &object, const char *key) {
    static const Json none;
    if (!object.is_object())
        return none;
    const auto it = object.find(key);
    return it == object.end() ? none : *it;
}

Json text_or_null(std::string_view text) {
    return text.empty() ? Json() : Json(valid_utf8(text));
}

} // namespace incident::capture
