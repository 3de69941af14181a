#include "postmortem/read/json_view.h"

#include "capture/os/number.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::postmortem {

namespace {

bool too_deep(std::string_view text) {
    // Most texts have too few brackets to be deep, and counting them is quick.
    if (std::ranges::count(text, '{') + std::ranges::count(text, '[') <= static_cast<std::ptrdiff_t>(json_depth_max))
        return false;
    std::size_t depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\')
                ++i;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > json_depth_max)
                return true;
        } else if ((c == '}' || c == ']') && depth > 0) {
            --depth;
        }
    }
    return false;
}

std::string place(std::string_view text, std::size_t byte) {
    const std::string_view before = text.substr(0, std::min(byte > 0 ? byte - 1 : 0, text.size()));
    const auto line = std::ranges::count(before, '\n') + 1;
    const std::size_t start = before.rfind('\n');
    const std::size_t column = start == std::string_view::npos ? before.size() + 1 : before.size() - start;
    return fmt::format("line {}, column {}", line, column);
}

template <typename Document> std::string dump(const Document &document) {
    return document.dump(-1, ' ', true, Document::error_handler_t::replace);
}

template <typename Number> std::optional<Number> number_in(std::string_view text) {
    int base = 10;
    if (text.starts_with("0x") || text.starts_with("0X")) {
        base = 16;
        text.remove_prefix(2);
    }
    return capture::whole_number<Number>(text, base);
}

} // namespace

Result<Json> parse_json(std::string_view text) {
    if (too_deep(text))
        return fail(fmt::format("JSON nested deeper than {} levels", json_depth_max));
    try {
        return Json::parse(text.begin(), text.end());
    } catch (const Json::parse_error &error) {
        return fail(text.empty() ? "empty file" : "not JSON from " + place(text, error.byte) + " on");
    } catch (const std::exception &error) {
        return fail(std::string("not readable as JSON: ") + error.what());
    }
}

std::string dump_json(const Json &document) {
    return dump(document);
}
std::string dump_json(const nlohmann::ordered_json &document) {
    return dump(document);
}

JsonView JsonView::operator[](std::string_view key) const {
    if (!is_object())
        return {};
    const auto found = value_->find(key);
    return found == value_->end() ? JsonView() : JsonView(*found);
}

JsonView JsonView::at(std::size_t index) const {
    return is_array() && index < value_->size() ? JsonView((*value_)[index]) : JsonView();
}

std::string_view JsonView::text() const {
    return is_text() ? std::string_view(*value_->get_ptr<const std::string *>()) : std::string_view();
}

std::optional<std::int64_t> JsonView::integer() const {
    if (!value_)
        return std::nullopt;
    if (const auto *natural = value_->get_ptr<const std::uint64_t *>())
        return *natural <= INT64_MAX ? std::optional(static_cast<std::int64_t>(*natural)) : std::nullopt;
    if (const auto *integer = value_->get_ptr<const std::int64_t *>())
        return *integer;
    return number_in<std::int64_t>(text());
}

std::optional<std::uint64_t> JsonView::natural() const {
    if (!value_)
        return std::nullopt;
    if (const auto *natural = value_->get_ptr<const std::uint64_t *>())
        return *natural;
    if (const auto *integer = value_->get_ptr<const std::int64_t *>())
        return *integer >= 0 ? std::optional(static_cast<std::uint64_t>(*integer)) : std::nullopt;
    return number_in<std::uint64_t>(text());
}

double JsonView::real() const {
    return value_ && value_->is_number() ? value_->get<double>() : 0;
}

bool JsonView::flag(bool fallback) const {
    return value_ && value_->is_boolean() ? *value_->get_ptr<const bool *>() : fallback;
}

void JsonView::each(const std::function<void(JsonView)> &element) const {
    if (is_array())
        for (const Json &value : *value_)
            element(value);
}

void JsonView::members(const std::function<void(const std::string &, JsonView)> &member) const {
    if (is_object())
        for (auto it = value_->begin(); it != value_->end(); ++it)
            member(it.key(), it.value());
}

std::string JsonView::shown() const {
    if (!present())
        return {};
    return is_text() ? std::string(text()) : dump_json(*value_);
}

} // namespace incident::postmortem
