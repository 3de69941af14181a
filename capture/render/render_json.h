// Writes JSON objects directly into a string.  A timeline has tens of thousands of lines, and a document model for each
// would cost ten times as much.  Internal to capture/.
#pragma once

#include "capture/decode/decode_text.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace incident::capture {

// Appends a JSON string (RFC 8259) in valid UTF-8.  Invalid bytes become U+FFFD.
void append_json_string(std::string &out, std::string_view text);

// One object with its members in the order of the calls; end() closes it.  Keys are literals in the code.
class JsonObject {
public:
    explicit JsonObject(std::string &out) : out_(out) { out_ += '{'; }

    void text(std::string_view key, std::string_view value) {
        name(key);
        append_json_string(out_, value);
    }
    template <typename Integer> void number(std::string_view key, Integer value) {
        name(key);
        append_number(out_, value);
    }
    void boolean(std::string_view key, bool value) {
        name(key);
        out_ += value ? "true" : "false";
    }
    void null(std::string_view key) {
        name(key);
        out_ += "null";
    }
    void hex(std::string_view key, std::uint64_t value) {
        name(key);
        out_ += '"';
        append_hex(out_, value);
        out_ += '"';
    }
    template <typename Range> void texts(std::string_view key, const Range &values) {
        name(key);
        out_ += '[';
        bool first = true;
        for (const auto &value : values) {
            if (!first)
                out_ += ',';
            first = false;
            append_json_string(out_, value);
        }
        out_ += ']';
    }
    // Begins a member; the caller writes its value.
    std::string &open(std::string_view key) {
        name(key);
        return out_;
    }
    void end() { out_ += '}'; }

private:
    // Each key is one append, because keys are a third of what writing a line costs.
    void name(std::string_view key) {
        char text[64];
        std::size_t length = 0;
        if (!first_)
            text[length++] = ',';
        first_ = false;
        text[length++] = '"';
        length += key.copy(text + length, sizeof text - 4);
        text[length++] = '"';
        text[length++] = ':';
        out_.append(text, length);
    }

    std::string &out_;
    bool first_ = true;
};

} // namespace incident::capture
