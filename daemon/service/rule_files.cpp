#include "daemon/service/rule_files.h"

#include "capture/decode/syscalls.h"
#include "capture/os/users.h"
#include "daemon/os/tracefs.h"

#include <filesystem>
#include <vector>

namespace incident::daemon {

Result<LoadedRules> load_rules(const std::vector<std::string> &directories, bool explicit_directories,
                               bool allow_dump) {
    auto read = capture::read_config_files(directories, explicit_directories);
    if (!read)
        return fail(read.error());
    LoadedRules loaded;
    loaded.masked = std::move(read->masked);
    loaded.files = read->files.size();
    std::vector<rules::Source> sources;
    for (auto &file : read->files)
        sources.push_back({std::move(file.path), std::move(file.text)});
    rules::Lookups lookups;
    lookups.uid_of = capture::uid_of_user;
    lookups.syscall_names = []() -> const std::vector<std::string> & { return capture::syscall_names(); };
    lookups.tracepoint_format = tracepoint_format;
    lookups.tracepoints = tracepoint_names;
    lookups.allow_dump = allow_dump;
    loaded.parsed = rules::parse_rules(sources, lookups);
    return loaded;
}

Result<rules::ParsedConfig> load_config(const std::string &file, bool explicit_file) {
    std::error_code error;
    if (!explicit_file && !std::filesystem::exists(file, error))
        return rules::ParsedConfig{};
    auto text = capture::read_config_file(file);
    if (!text)
        return fail(std::move(text.error()));
    return rules::parse_config({file, std::move(*text)});
}

std::vector<std::string> rule_directories(const Options &options) {
    return options.rules.empty() ? default_rule_dirs : options.rules;
}

Result<LoadedRules> load_rules_of(const Options &options, bool allow_dump) {
    return load_rules(rule_directories(options), !options.rules.empty(), allow_dump);
}

Result<rules::ParsedConfig> load_config_of(const Options &options) {
    return load_config(options.config.empty() ? default_config : options.config, !options.config.empty());
}

} // namespace incident::daemon
