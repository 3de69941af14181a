#include "capture/render/render_json.h"

namespace incident::capture {

namespace {

void append_ascii_escape(std::string &out, char c) {
    switch (c) {
    case '"':
        out += "\\\"";
        return;
    case '\\':
        out += "\\\\";
        return;
    case '\n':
        out += "\\n";
        return;
    case '\t':
        out += "\\t";
        return;
    case '\r':
        out += "\\r";
        return;
    default:
        break;
    }
    constexpr char digits[] = "0123456789abcdef";
    out += "\\u00";
    out += digits[c >> 4 & 7];
    out += digits[c & 15];
}

} // namespace

void append_json_string(std::string &out, std::string_view text) {
    append_in_quotes(out, text, [&](std::string_view rest) {
        const CodePoint point = next_code_point(rest);
        if (!point.valid)
            out += "\xef\xbf\xbd";
        else if (point.length == 1)
            append_ascii_escape(out, rest.front());
        else
            out.append(rest.substr(0, point.length));
        return point.length;
    });
}

} // namespace incident::capture
