#include "postmortem/read/json_skim.h"

#include "postmortem/read/json_view.h"

#include <cstring>

namespace incident::postmortem {

namespace {

class Skimmer {
public:
    Skimmer(std::string_view text, std::span<const std::string_view> paths, std::vector<std::string> &values)
        : at_(text.data()), end_(text.data() + text.size()), paths_(paths), values_(values), missing_(paths.size()) {}

    bool object(std::string_view parent) {
        if (!take('{'))
            return false;
        if (take('}'))
            return true;
        do {
            std::string_view key;
            if (!string(key) || !take(':') || !member(parent, key))
                return false;
            if (missing_ == 0)
                return true;
        } while (take(','));
        return take('}');
    }

private:
    bool take(char wanted) {
        while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r'))
            ++at_;
        if (at_ == end_ || *at_ != wanted)
            return false;
        ++at_;
        return true;
    }

    bool peek(char wanted) {
        if (!take(wanted))
            return false;
        --at_;
        return true;
    }

    // Between the quotes, escapes as written.
    bool string(std::string_view &inside) {
        if (!take('"'))
            return false;
        const char *start = at_;
        while (at_ < end_) {
            const auto *quote = static_cast<const char *>(std::memchr(at_, '"', static_cast<std::size_t>(end_ - at_)));
            if (!quote)
                return false;
            const char *before = quote;
            while (before > start && before[-1] == '\\')
                --before;
            at_ = quote + 1;
            if ((quote - before) % 2 == 0) {
                inside = {start, quote};
                return true;
            }
        }
        return false;
    }

    bool member(std::string_view parent, std::string_view key) {
        for (std::size_t i = 0; i < paths_.size(); ++i) {
            std::string_view path = paths_[i];
            if (!parent.empty()) {
                if (!path.starts_with(parent) || path.size() <= parent.size() || path[parent.size()] != '.')
                    continue;
                path.remove_prefix(parent.size() + 1);
            }
            if (path == key)
                return scalar(values_[i]);
            if (parent.empty() && path.size() > key.size() && path.starts_with(key) && path[key.size()] == '.' &&
                peek('{'))
                return object(key);
        }
        return skip();
    }

    bool scalar(std::string &value) {
        if (peek('{') || peek('['))
            return skip();
        const char *start = at_;
        if (!skip())
            return false;
        std::string_view text(start, at_);
        if (value.empty() && missing_ > 0)
            --missing_;
        if (text.starts_with('"') && text.find('\\') == std::string_view::npos)
            value = text.substr(1, text.size() - 2);
        else if (text == "null")
            value.clear();
        else if (const auto parsed = parse_json(text)) // escapes: the parser's work
            value = JsonView(*parsed).shown();
        return true;
    }

    bool skip() {
        std::string_view inside;
        if (peek('"'))
            return string(inside);
        std::size_t depth = 0;
        for (; at_ < end_; ++at_) {
            if (*at_ == '"') {
                if (!string(inside))
                    return false;
                --at_;
            } else if (*at_ == '{' || *at_ == '[') {
                ++depth;
            } else if (*at_ == '}' || *at_ == ']') {
                if (depth == 0)
                    return true;
                if (--depth == 0) {
                    ++at_;
                    return true;
                }
            } else if (*at_ == ',' && depth == 0) {
                return true;
            }
        }
        return false;
    }

    const char *at_;
    const char *end_;
    std::span<const std::string_view> paths_;
    std::vector<std::string> &values_;
    std::size_t missing_;
};

} // namespace

bool skim_json(std::string_view text, std::span<const std::string_view> paths, std::vector<std::string> &values) {
    values.assign(paths.size(), "");
    return Skimmer(text, paths, values).object("");
}

} // namespace incident::postmortem
