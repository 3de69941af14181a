// Reads coredump.conf and journald.conf as systemd does: first the main file, then the drop-ins of all directories,
// sorted by name. If two directories have the same name, /etc comes before /run and /run before /usr. The last
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

    // nullptr if it is not set, or is empty.
    const Setting *find(const std::string &key) const;
    std::string text(const std::string &key, const std::string &fallback) const;
};

// name: "coredump.conf".
SystemdConfig read_systemd_config(const std::string &root, const std::string &name);

// The files of a configuration that is split over directories ("/etc/tmpfiles.d", …), by name and without the root. The
// first directory that has a name counts. The result includes links to /dev/null, which turn a file off.
std::map<std::string, std::string> files_by_name(const std::string &root, const std::vector<std::string> &directories,
                                                 std::vector<std::string> &unreadable);

// "3d", "2w 12h", "30s", "90" seconds (systemd.time(7)); nullopt: not a span of time.
std::optional<double> systemd_span_seconds(std::string_view text);

// "2G", "512M", "1.5T", "4096", to the base of 1024; "infinity": ~0.  nullopt: not a size; systemd ignores it.
std::optional<std::uint64_t> systemd_size(std::string_view text);

} // namespace incident::postmortem::doctor
