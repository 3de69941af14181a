#include "capture/os/config_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace incident::capture {

namespace fs = std::filesystem;

namespace {

constexpr std::uintmax_t file_limit = 1 << 20; // it is text a person wrote

bool is_mask(const fs::path &path) {
    std::error_code error;
    return fs::is_symlink(path, error) && fs::read_symlink(path, error) == "/dev/null";
}

} // namespace

Result<std::string> read_config_file(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
        return fail(Error::system("reading " + path));
    std::error_code error;
    if (fs::is_regular_file(path, error) && fs::file_size(path, error) > file_limit)
        return fail(fmt::format("{}: larger than {} bytes", path, file_limit));
    std::ostringstream text;
    text << file.rdbuf();
    if (file.bad())
        return fail(Error::system("reading " + path));
    return text.str();
}

Result<ConfigFiles> read_config_files(const std::vector<std::string> &directories, bool required) {
    std::map<std::string, fs::path> paths; // by name: the last directory wins
    for (const auto &directory : directories) {
        std::error_code error;
        fs::directory_iterator entries(directory, error);
        if (error) {
            if (!required && error == std::errc::no_such_file_or_directory)
                continue;
            return fail(fmt::format("rules directory {}: {}", directory, error.message()));
        }
        for (const auto &entry : entries)
            if (entry.path().extension() == ".toml")
                paths[entry.path().filename().string()] = entry.path();
    }
    ConfigFiles read;
    for (const auto &[name, path] : paths) {
        if (is_mask(path)) {
            read.masked.push_back(name);
            continue;
        }
        auto text = read_config_file(path.string());
        if (!text)
            return fail(std::move(text.error()));
        read.files.push_back({path.string(), std::move(*text)});
    }
    return read;
}

} // namespace incident::capture
