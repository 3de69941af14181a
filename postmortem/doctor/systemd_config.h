// coredump.conf and journald.conf as systemd reads them: the main file, then the drop-ins of all
// directories by name, of one name the first directory's (/etc before /run before /usr); the last
// assignment counts (coredump.conf(5), systemd.syntax(7)).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem::doctor {

struct SystemdConfig {
    struct Setting {
        std::string value, file; // file: without the root
    };
    std::map<std::string, Setting> settings; // "Section.Key"
    std::vector<std::string> unreadable;     // files that are there but could not be read

    // nullptr where it is not set, or set to nothing.
    const Setting *find(const std::string &key) const;
    std::string text(const std::string &key, const std::string &fallback) const;
};

// name: "coredump.conf".
SystemdConfig read_systemd_config(const std::string &root, const std::string &name);

// "2G", "512M", "1.5T", "4096", to the base of 1024; "infinity": ~0.  nullopt: no size, systemd ignores it.
std::optional<std::uint64_t> systemd_size(std::string_view text);

} // namespace incident::postmortem::doctor
