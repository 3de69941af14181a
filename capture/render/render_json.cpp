#include "capture/render/render_json.h"

namespace incident::capture {

namespace {

bool plain(char c) {
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

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
    out += '"';
    while (!text.empty()) {
        std::size_t run = 0;
        while (run < text.size() && plain(text[run]))
            ++run;
        out.append(text.substr(0, run));
        text.remove_prefix(run);
        if (text.empty())
            break;
        const CodePoint point = next_code_point(text);
        if (!point.valid)
            out += "\xef\xbf\xbd";
        else if (point.length == 1)
            append_ascii_escape(out, text.front());
        else
            out.append(text.substr(0, point.length));
        text.remove_prefix(point.length);
    }
    out += '"';
}

} // namespace incident::capture
