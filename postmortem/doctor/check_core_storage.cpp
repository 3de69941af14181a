// Checks whether systemd-coredump keeps the cores: compares coredump.conf(5) with the sizes of the watched processes
// and the free space.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"
#include "postmortem/terminal/times.h"

#include <algorithm>
#include <fmt/format.h>
#include <sstream>

namespace incident::postmortem::doctor {

namespace {

constexpr std::uint64_t gibibyte = 1ull << 30;
constexpr std::uint64_t size_default = 32 * gibibyte;     // since systemd 250; before 2 GiB
constexpr std::uint64_t space_default_max = 4 * gibibyte; // coredump-vacuum.c
const char *const cores = "/var/lib/systemd/coredump";
const std::vector<std::string> tmpfiles_directories{"/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d",
                                                    "/usr/lib/tmpfiles.d"};

std::string drop_in(std::string_view setting) {
    return fmt::format("mkdir -p /etc/systemd/coredump.conf.d && printf '[Coredump]\\n{}\\n' "
                       "> /etc/systemd/coredump.conf.d/60-local.conf",
                       setting);
}

struct Limit {
    std::uint64_t bytes;
    std::string from; // " (FILE)"; "" the default
};

Limit limit_of(const SystemdConfig &config, const char *key, std::uint64_t fallback) {
    if (const auto *setting = config.find(std::string("Coredump.") + key))
        if (const auto bytes = systemd_size(setting->value))
            return {*bytes, fmt::format(" ({})", setting->file)};
    return {fallback, ""};
}

const Process *largest(const Host &host) {
    const auto found = std::ranges::max_element(host.processes(), {}, &Process::memory_bytes);
    return found == host.processes().end() ? nullptr : &*found;
}

std::string name_of(const Process &process) {
    return fmt::format("{}[{}]", process.facts.comm, process.facts.pid);
}

} // namespace

Findings check_core_storage(const Host &host) {
    Findings findings;
    const SystemdConfig &config = host.coredump_conf();
    for (const std::string &file : config.unreadable)
        findings.push_back(unknown(file + " cannot be read", host.as_root()));
    for (const char *key : {"ProcessSizeMax", "ExternalSizeMax", "JournalSizeMax", "MaxUse", "KeepFree"})
        if (const auto *setting = config.find(std::string("Coredump.") + key); setting && !systemd_size(setting->value))
            findings.push_back(warn(fmt::format("{}={} in {} is no size", key, setting->value, setting->file),
                                    "systemd-coredump ignores it", "edit " + shell_word(setting->file)));
    const std::string storage = config.text("Coredump.Storage", "external");
    if (storage == "none")
        findings.push_back(bad(fmt::format("Storage=none ({})", config.find("Coredump.Storage")->file),
                               "no core is kept: gdb opens mini.core at best", drop_in("Storage=external")));
    else if (storage == "journal")
        findings.push_back(warn(fmt::format("Storage=journal ({})", config.find("Coredump.Storage")->file),
                                "cores larger than JournalSizeMax= are not kept, and incidentctl opens only those "
                                "that are files",
                                drop_in("Storage=external")));
    else
        findings.push_back(ok("cores are kept in " + std::string(cores)));
    return findings;
}

// A core larger than both limits is cut. A core larger than ExternalSizeMax is not kept, unless it is smaller when
// compressed. A core larger than ProcessSizeMax has no stack in its journal entry.
Findings check_core_sizes(const Host &host) {
    const Process *process = largest(host);
    if (!process)
        return {unknown("no watched process runs whose size could be compared with coredump.conf's limits")};
    const Limit processed = limit_of(host.coredump_conf(), "ProcessSizeMax", size_default);
    const Limit kept = limit_of(host.coredump_conf(), "ExternalSizeMax", size_default);
    const std::string size =
        fmt::format("{} is the largest watched process, {}", name_of(*process), size_text(process->memory_bytes));
    const auto wanted = fmt::format("{}G", process->memory_bytes * 2 / gibibyte + 1);
    if (process->memory_bytes > kept.bytes)
        return {bad(fmt::format("{}; ExternalSizeMax={}{}", size, size_text(kept.bytes), kept.from),
                    "its core is cut or not kept",
                    drop_in(fmt::format("ProcessSizeMax={0}\\nExternalSizeMax={0}", wanted)))};
    if (process->memory_bytes > processed.bytes)
        return {warn(fmt::format("{}; ProcessSizeMax={}{}", size, size_text(processed.bytes), processed.from),
                     "its core is kept, but coredumpctl has no stack of it (the incident has)",
                     drop_in("ProcessSizeMax=" + wanted))};
    return {ok(fmt::format("{}; limits are {} processed, {} kept", size, size_text(processed.bytes),
                           kept.bytes == ~0ull ? "any size" : size_text(kept.bytes)))};
}

Findings check_core_space(const Host &host) {
    if (host.coredump_conf().text("Coredump.Storage", "external") != "external")
        return {};
    const auto space = host.space(host.os().coredump);
    if (!space && !host.exists(cores))
        return {bad(fmt::format("{} is not there", cores), "systemd-coredump has nowhere to put a core",
                    "systemd-tmpfiles --create systemd.conf")};
    if (!space)
        return {unknown(fmt::format("the space below {} cannot be seen", cores), host.as_root())};
    Findings findings;
    if (space->read_only)
        return {bad(fmt::format("{} is on a read-only file system", cores), "no core can be kept", "")};
    if (space->in_memory)
        findings.push_back(warn(fmt::format("{} is in memory (tmpfs)", cores), "cores are gone with the next boot",
                                fmt::format("mount a disk at {}", cores)));
    const Process *process = largest(host);
    const std::uint64_t needed = process ? process->memory_bytes : 0;
    const Limit keep = limit_of(host.coredump_conf(), "KeepFree", std::min(space->total / 20 * 3, space_default_max));
    const Limit use = limit_of(host.coredump_conf(), "MaxUse", std::min(space->total / 10, space_default_max));
    const std::string free = fmt::format("{} free below {}", size_text(space->free), cores);
    const std::string mend = fmt::format("du -xh --max-depth=3 $(findmnt -no TARGET -T {}) | sort -h | tail", cores);
    if (space->free < needed)
        findings.push_back(bad(fmt::format("{}; {} takes {}", free, name_of(*process), size_text(needed)),
                               "its core would be cut: it is written whole before it is compressed", mend));
    else if (keep.bytes > 0 && space->free < keep.bytes)
        findings.push_back(warn(fmt::format("{}; KeepFree={}{}", free, size_text(keep.bytes), keep.from),
                                "each new core has the older ones removed", mend));
    else if (use.bytes > 0 && use.bytes < needed)
        findings.push_back(warn(fmt::format("MaxUse={}{}; {} takes {}", size_text(use.bytes), use.from,
                                            name_of(*process), size_text(needed)),
                                "the next core removes its core, if it compresses badly",
                                drop_in(fmt::format("MaxUse={}G", needed * 3 / gibibyte + 1))));
    else
        findings.push_back(ok(fmt::format("{}; at most {} are used", free,
                                          use.bytes == 0 || use.bytes == ~0ull ? "all" : size_text(use.bytes))));
    return findings;
}

// systemd-tmpfiles removes old cores; the line of the file that comes first by name counts (tmpfiles.d(5)).
Findings check_core_age(const Host &host) {
    constexpr double week = 7 * 86400; // a crash before a long weekend
    if (host.coredump_conf().text("Coredump.Storage", "external") != "external")
        return {};
    std::vector<std::string> unreadable;
    for (const auto &[unused, file] : files_by_name(host.path(""), tmpfiles_directories, unreadable)) {
        const auto text = host.read(file);
        if (!text) {
            unreadable.push_back(file);
            continue;
        }
        std::istringstream lines(*text);
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string type, path, mode, user, group, age;
            words >> type >> path >> mode >> user >> group >> age;
            if (path.ends_with('/'))
                path.pop_back();
            if (type.starts_with('#') || path != cores)
                continue;
            const std::string_view span = std::string_view(age).substr(age.find_last_of(":~") + 1); // "aA:3d", "~3d"
            const auto seconds = systemd_span_seconds(span);
            if (!seconds)
                return {ok("old ones are not removed by their age")};
            const std::string fact = fmt::format("removed after {} ({})", span, file);
            if (*seconds < week)
                return {warn(fact, "of a crash found later there is mini.core, and no core",
                             fmt::format("echo 'd {} 0755 root root 4w' > /etc/tmpfiles.d/50-cores.conf", cores))};
            return {ok(fact)};
        }
    }
    if (!unreadable.empty())
        return {unknown(unreadable.front() + " cannot be read", host.as_root())};
    return {ok("old ones are not removed by their age")};
}

} // namespace incident::postmortem::doctor
