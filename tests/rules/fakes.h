// Answers to the parser's questions that are the same on every machine.
#pragma once

#include "rules/files/parse.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace incident::rules {

inline std::string read(const std::filesystem::path &path) {
    std::ifstream in(path, std::ios::binary);
    EXPECT_TRUE(in) << path;
    return {std::istreambuf_iterator<char>(in), {}};
}

inline std::optional<std::uint32_t> fake_uid_of(const std::string &user) {
    if (user == "root")
        return 0;
    if (user == "nobody")
        return 65534;
    return std::nullopt;
}

inline const std::vector<std::string> &fake_syscall_names() {
    static const std::vector<std::string> names = {"read",    "write",      "open",      "openat", "close",  "fsync",
                                                   "connect", "fdatasync",  "sync",      "syncfs", "execve", "exit",
                                                   "mmap",    "exit_group", "io_submit", "unlink"};
    return names;
}

// tests/data/tracepoints/CATEGORY-NAME.format, as real kernels print them.
inline std::optional<std::string> fake_tracepoint_format(const std::string &category, const std::string &name) {
    const std::filesystem::path file = TEST_DATA "/tracepoints/" + category + "-" + name + ".format";
    return std::filesystem::exists(file) ? std::optional(read(file)) : std::nullopt;
}

inline std::vector<std::string> fake_tracepoints(const std::string &category) {
    std::vector<std::string> found;
    for (const auto &entry : std::filesystem::directory_iterator(TEST_DATA "/tracepoints")) {
        const std::string name = entry.path().stem();
        const std::size_t dash = name.find('-');
        if (category.empty())
            found.push_back(name.substr(0, dash));
        else if (name.substr(0, dash) == category)
            found.push_back(name.substr(dash + 1));
    }
    std::sort(found.begin(), found.end());
    return found;
}

inline Lookups fake_lookups() {
    return {fake_uid_of, fake_syscall_names, fake_tracepoint_format, fake_tracepoints, true};
}

// The rules of a text that has nothing wrong with it.
inline std::vector<Rule> good_rules(const std::string &text, const Lookups &lookups = fake_lookups()) {
    auto parsed = parse_rules({{"test.toml", text}}, lookups);
    for (const Diagnostic &d : parsed.diagnostics)
        ADD_FAILURE() << d.text();
    return std::move(parsed.rules);
}

// Equal but for where they stand.
inline bool same(const Rule &a, const Rule &b) {
    return a.name == b.name && a.kind == b.kind && a.enabled == b.enabled && a.match == b.match && a.limit == b.limit &&
           a.context == b.context && a.dump == b.dump && a.combine == b.combine && a.within == b.within &&
           a.conditions == b.conditions && a.text == b.text;
}

} // namespace incident::rules
