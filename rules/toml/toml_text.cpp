#include "rules/toml/toml_text.h"

#include "rules/text/signals.h"

#include <fmt/format.h>

namespace incident::rules {

std::string toml(const std::string &text) {
    std::string out = "\"";
    for (char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            out += {'\\', c};
        else if (byte < 0x20 || byte == 0x7F)
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(byte));
        else
            out += c;
    }
    return out + "\"";
}

std::string toml(std::uint32_t number) {
    return std::to_string(number);
}

std::string toml_signals(const std::bitset<65> &signals) {
    std::string out;
    for (int number = 1; number <= last_signal; ++number)
        if (signals.test(static_cast<std::size_t>(number))) {
            const std::string name = signal_name(number);
            out += (out.empty() ? "" : ", ") + (name.starts_with("SIG") ? toml(name) : name);
        }
    return "[" + out + "]";
}

std::string toml_status(const std::bitset<256> &status) {
    if (status == std::bitset<256>().set().reset(0))
        return toml(std::string("nonzero"));
    std::string out;
    for (std::size_t first = 0; first < status.size(); ++first) {
        if (!status.test(first))
            continue;
        std::size_t last = first;
        while (last + 1 < status.size() && status.test(last + 1))
            ++last;
        out += out.empty() ? "" : ", ";
        out += first == last ? std::to_string(first) : fmt::format("\"{}-{}\"", first, last);
        first = last;
    }
    return "[" + out + "]";
}

std::string TomlKeys::lines() const {
    std::string out;
    for (const auto &[key, value] : keys_)
        out += fmt::format("{} = {}\n", key, value);
    return out;
}

std::string TomlKeys::inline_table() const {
    std::string out;
    for (const auto &[key, value] : keys_)
        out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", key, value);
    return "{ " + out + " }";
}

} // namespace incident::rules
