#include "daemon/rule_files.h"

#include <fmt/format.h>
#include <pwd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace incident::daemon {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t file_limit = 1 << 20; // a rule file is text a person wrote

Result<std::string> read_file(const fs::path &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
        return fail(Error::system("reading " + path.string()));
    std::error_code error;
    if (fs::is_regular_file(path, error) && fs::file_size(path, error) > file_limit)
        return fail(fmt::format("{}: larger than {} bytes", path.string(), file_limit));
    std::ostringstream text;
    text << file.rdbuf();
    if (file.bad())
        return fail(Error::system("reading " + path.string()));
    return text.str();
}

std::optional<std::uint32_t> uid_of(const std::string &name) {
    passwd entry{}, *found = nullptr;
    std::vector<char> buffer(16384);
    if (::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) || !found)
        return std::nullopt;
    return entry.pw_uid;
}

bool is_mask(const fs::path &path) {
    std::error_code error;
    return fs::is_symlink(path, error) && fs::read_symlink(path, error) == "/dev/null";
}

} // namespace

Result<LoadedRules> load_rules(const std::vector<std::string> &directories, bool explicit_directories) {
    std::map<std::string, fs::path> files; // by name: the last directory wins
    for (const auto &directory : directories) {
        std::error_code error;
        fs::directory_iterator entries(directory, error);
        if (error) {
            if (!explicit_directories && error == std::errc::no_such_file_or_directory)
                continue;
            return fail(fmt::format("rules directory {}: {}", directory, error.message()));
        }
        for (const auto &entry : entries)
            if (entry.path().extension() == ".toml")
                files[entry.path().filename().string()] = entry.path();
    }
    LoadedRules loaded;
    std::vector<rules::Source> sources;
    for (const auto &[name, path] : files) {
        if (is_mask(path)) {
            loaded.masked.push_back(name);
            continue;
        }
        auto text = read_file(path);
        if (!text)
            return fail(std::move(text.error()));
        sources.push_back({path.string(), std::move(*text)});
    }
    loaded.files = sources.size();
    loaded.parsed = rules::parse_rules(sources, uid_of);
    return loaded;
}

Result<rules::ParsedConfig> load_config(const std::string &file, bool explicit_file) {
    std::error_code error;
    if (!explicit_file && !fs::exists(file, error))
        return rules::ParsedConfig{};
    auto text = read_file(file);
    if (!text)
        return fail(std::move(text.error()));
    return rules::parse_config({file, std::move(*text)});
}

} // namespace incident::daemon
