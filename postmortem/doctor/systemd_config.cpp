#include "postmortem/doctor/systemd_config.h"

#include "capture/os/config_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

namespace incident::postmortem::doctor {

namespace fs = std::filesystem;

namespace {

// CONF_PATHS_NULSTR, src/basic/constants.h.
constexpr std::array directories{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd",
                                 "/lib/systemd"};

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos)
        return {};
    return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

void parse(std::string_view text, const std::string &file, SystemdConfig &into) {
    std::string section, joined;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line = trimmed(text.substr(at, end - at));
        at = end + 1;
        if (line.starts_with('#') || line.starts_with(';'))
            continue; // a comment does not end a continued line either
        if (line.ends_with('\\')) {
            joined.append(line.substr(0, line.size() - 1)).append(" ");
            continue;
        }
        const std::string whole = joined + std::string(line);
        joined.clear();
        if (whole.starts_with('[') && whole.ends_with(']')) {
            section = whole.substr(1, whole.size() - 2);
            continue;
        }
        const std::size_t equals = whole.find('=');
        if (equals == std::string::npos)
            continue;
        const std::string key = section + "." + std::string(trimmed(std::string_view(whole).substr(0, equals)));
        into.settings[key] = {std::string(trimmed(std::string_view(whole).substr(equals + 1))), file};
    }
}

void read_one(const std::string &root, const std::string &file, SystemdConfig &into) {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(root + file, error)))
        return;
    if (const auto text = capture::read_config_file(root + file))
        parse(*text, file, into);
    else
        into.unreadable.push_back(file);
}

} // namespace

const SystemdConfig::Setting *SystemdConfig::find(const std::string &key) const {
    const auto found = settings.find(key);
    return found == settings.end() || found->second.value.empty() ? nullptr : &found->second;
}

std::string SystemdConfig::text(const std::string &key, const std::string &fallback) const {
    const Setting *setting = find(key);
    return setting ? setting->value : fallback;
}

SystemdConfig read_systemd_config(const std::string &root, const std::string &name) {
    SystemdConfig config;
    // One main file: /etc's; newer systemd (256) also takes the vendor's where /etc has none.
    for (const std::string directory : directories) {
        std::error_code error;
        if (!fs::exists(fs::symlink_status(root + directory + "/" + name, error)))
            continue;
        read_one(root, directory + "/" + name, config);
        break;
    }
    std::vector<std::string> drop_in_directories;
    drop_in_directories.reserve(std::size(directories));
    for (const std::string directory : directories)
        drop_in_directories.push_back(directory + "/" + name + ".d");
    // A link to /dev/null, which masks, reads as an empty file.
    for (const auto &[unused, file] : files_by_name(root, drop_in_directories, config.unreadable))
        read_one(root, file, config);
    return config;
}

std::map<std::string, std::string> files_by_name(const std::string &root, const std::vector<std::string> &directories,
                                                 std::vector<std::string> &unreadable) {
    std::map<std::string, std::string> files;
    for (const std::string &directory : directories) {
        std::error_code error;
        for (fs::directory_iterator entry(root + directory, error), end; !error && entry != end; entry.increment(error))
            if (const std::string name = entry->path().filename().string(); name.ends_with(".conf"))
                files.try_emplace(name, directory + "/" + name);
        if (error && error != std::errc::no_such_file_or_directory)
            unreadable.push_back(directory);
    }
    return files;
}

std::optional<double> systemd_span_seconds(std::string_view text) {
    struct Unit {
        std::string_view names; // between commas
        double seconds;
    };
    static constexpr std::array units{
        Unit{",,s,sec,second,seconds,", 1},
        Unit{",m,min,minute,minutes,", 60},
        Unit{",h,hr,hour,hours,", 3600},
        Unit{",d,day,days,", 86400},
        Unit{",w,week,weeks,", 7 * 86400},
        Unit{",M,month,months,", 30.44 * 86400},
        Unit{",y,year,years,", 365.25 * 86400},
        Unit{",ms,msec,", 1e-3},
        Unit{",us,usec,", 1e-6},
    };
    text = trimmed(text);
    if (text.empty())
        return std::nullopt;
    double sum = 0;
    while (!text.empty()) {
        double value = 0;
        const auto [end, error] =
            std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
        if (error != std::errc() || value < 0)
            return std::nullopt;
        text = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
        const std::string_view word = text.substr(0, text.find_first_of(" \t0123456789"));
        const auto unit = std::ranges::find_if(units, [&](const Unit &each) {
            return each.names.find("," + std::string(word) + ",") != std::string_view::npos;
        });
        if (unit == units.end())
            return std::nullopt;
        sum += value * unit->seconds;
        text = trimmed(text.substr(word.size()));
    }
    return sum;
}

std::optional<std::uint64_t> systemd_size(std::string_view text) {
    text = trimmed(text);
    if (text == "infinity")
        return ~0ull;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    if (error != std::errc() || value < 0)
        return std::nullopt;
    const std::string_view suffix = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
    if (suffix.empty() || suffix == "B")
        return static_cast<std::uint64_t>(value);
    const std::size_t power = std::string_view("KMGTPE").find(suffix.front());
    if (suffix.size() != 1 || power == std::string_view::npos)
        return std::nullopt;
    const double bytes = value * std::ldexp(1.0, 10 * (static_cast<int>(power) + 1));
    return bytes >= 18446744073709551615.0 ? ~0ull : static_cast<std::uint64_t>(bytes);
}

} // namespace incident::postmortem::doctor
