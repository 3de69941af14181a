// Reads JSON that somebody else may have written. Every access is typed and none throws. A value that is missing or has
// another type becomes a fallback.
#pragma once

#include "capture/os/result.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace incident::postmortem {

using Json = nlohmann::json;

// Deeper documents are refused, because nlohmann prints recursively (it parses without recursion).
inline constexpr std::size_t json_depth_max = 64;

// An Error says at which line and column the text stops being JSON.
Result<Json> parse_json(std::string_view text);

// One line, ASCII only, so that printing it to a terminal is safe whatever it holds.
std::string dump_json(const Json &document);
std::string dump_json(const nlohmann::ordered_json &document);

class JsonView {
public:
    JsonView() = default;
    JsonView(const Json &value) : value_(&value) {}

    // A member of an object, or an element of an array; an empty view if there is none.
    JsonView operator[](std::string_view key) const;
    JsonView at(std::size_t index) const;

    bool present() const { return value_ && !value_->is_null(); }
    bool is_object() const { return value_ && value_->is_object(); }
    bool is_array() const { return value_ && value_->is_array(); }
    bool is_text() const { return value_ && value_->is_string(); }
    std::size_t size() const { return is_array() || is_object() ? value_->size() : 0; }

    // "" if it is not a string. The result is valid as long as the document.
    std::string_view text() const;
    // Whole numbers; also "0x1f" and "31", the forms in which addresses are written.
    std::optional<std::int64_t> integer() const;
    std::optional<std::uint64_t> natural() const;
    std::uint64_t count() const { return natural().value_or(0); }
    double real() const; // 0 if it is not a number
    bool flag(bool fallback = false) const;

    // Calls back for each element of an array; does nothing for other values.
    void each(const std::function<void(JsonView)> &element) const;
    // Calls back for each member of an object; does nothing for other values.
    void members(const std::function<void(const std::string &key, JsonView)> &member) const;

    // A scalar as text without quotes, another value as JSON; "" if there is no value.
    std::string shown() const;
    const Json *raw() const { return value_; }

private:
    const Json *value_ = nullptr;
};

} // namespace incident::postmortem
