// Writes values as TOML, for a rule's effective text.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace incident::rules {

std::string toml(const std::string &text);
std::string toml(std::uint32_t number);
std::string toml_signals(const std::bitset<65> &signals);
std::string toml_status(const std::bitset<256> &status); // "nonzero", or [1, "3-7"]

template <typename T> std::string toml(const std::vector<T> &values) {
    std::string out;
    for (const T &value : values)
        out += (out.empty() ? "" : ", ") + toml(value);
    return "[" + out + "]";
}

// Keys and their values, as lines or as an inline table.
class TomlKeys {
public:
    template <typename T> void list(const char *key, const std::vector<T> &values) {
        if (!values.empty())
            add(key, toml(values));
    }
    void add(std::string key, std::string value) { keys_.emplace_back(std::move(key), std::move(value)); }
    void add(std::string key, bool value) { add(std::move(key), std::string(value ? "true" : "false")); }
    void add(std::string key, const char *) = delete; // deleted because it would be converted to bool
    bool empty() const { return keys_.empty(); }
    std::string lines() const;
    std::string inline_table() const;

private:
    std::vector<std::pair<std::string, std::string>> keys_;
};

} // namespace incident::rules
