// Checks the directory of the bundles: its owner and its free space.
#include "capture/os/dir_at.h"
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"
#include "postmortem/terminal/times.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <sys/stat.h>

namespace incident::postmortem::doctor {

namespace {

struct Entry {
    std::string path;
    struct stat st {};
    mode_t mode() const { return st.st_mode & 07777; }
};

std::string mode_text(const Entry &entry) {
    return fmt::format("{} has mode {:04o} and group {}", entry.path, entry.mode(), entry.st.st_gid);
}

std::string restart_or(const std::string &command) {
    return "systemctl restart incidentd   # it sets what [access] says; or: " + command;
}

// May they pass through the directory to what is in it?
bool all_enter(const Entry &directory) {
    return directory.mode() & 001;
}
bool group_enters(const Entry &directory, std::uint32_t gid) {
    return all_enter(directory) || (directory.st.st_gid == gid && (directory.mode() & 010));
}

// Who may look into or change an entry of the state directory that should not: what counts is what they reach, so an
// entry of root's alone is safe in a directory that all may list.  gid: the group that [access] lets read.
Findings judge_entry(const Entry &state, const Entry &entry, std::optional<std::uint32_t> gid) {
    const bool is_incidents = entry.path.ends_with("/incidents");
    const std::string path = shell_word(entry.path);
    if (entry.st.st_uid != 0)
        return {bad(fmt::format("{} belongs to uid {}", entry.path, entry.st.st_uid),
                    "who owns it can change and remove incidents", "chown root " + path)};
    const bool others = all_enter(state) && (entry.mode() & 007);
    const bool strange_group =
        entry.st.st_gid != 0 && entry.st.st_gid != gid && (entry.mode() & 070) && group_enters(state, entry.st.st_gid);
    if (others || strange_group)
        return {bad(mode_text(entry), "bundles hold memory and files of processes: others may look in",
                    restart_or(gid && is_incidents ? fmt::format("chgrp {0} {1} && chmod 2750 {1}", *gid, path)
                                                   : fmt::format("chmod go-rwx {}", path)))};
    if (gid && is_incidents && (entry.st.st_gid != *gid || (entry.mode() & 050) != 050))
        return {bad(mode_text(entry), "the group of [access] cannot read the incidents",
                    restart_or(fmt::format("chgrp {0} {1} && chmod 2750 {1}", *gid, path)))};
    return {};
}

Findings judge_state(const Host &host, std::optional<std::uint32_t> gid) {
    Entry state{host.questions().state};
    if (::stat(state.path.c_str(), &state.st) != 0)
        return {unknown(Error::system(state.path).what, host.as_root())};
    if (!S_ISDIR(state.st.st_mode))
        return {bad(state.path + " is no directory", "no incident can be kept", "")};
    const std::string path = shell_word(state.path);
    Findings findings;
    if (state.st.st_uid != 0)
        return {bad(fmt::format("{} belongs to uid {}", state.path, state.st.st_uid),
                    "who owns it can change and remove incidents", "chown root " + path)};
    if ((state.mode() & 002) || ((state.mode() & 020) && state.st.st_gid != 0))
        findings.push_back(bad(mode_text(state), "others can put their own files in place of incidents",
                               restart_or("chmod go-w " + path)));
    if (gid && !group_enters(state, *gid))
        findings.push_back(
            bad(mode_text(state), "the group of [access] cannot read the incidents", restart_or("chmod 0711 " + path)));
    const UniqueFd directory(::open(state.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) {
        findings.push_back(unknown(Error::system(state.path).what, host.as_root()));
        return findings;
    }
    auto entries = capture::list_dir(directory.get());
    if (!entries) {
        findings.push_back(unknown(fmt::format("{}: {}", state.path, entries.error().what), host.as_root()));
        return findings;
    }
    std::ranges::sort(*entries, {}, &capture::DirEntry::name);
    for (const capture::DirEntry &found : *entries) {
        Entry entry{state.path + "/" + found.name};
        if (::lstat(entry.path.c_str(), &entry.st) == 0 && !S_ISLNK(entry.st.st_mode))
            std::ranges::move(judge_entry(state, entry, gid), std::back_inserter(findings));
    }
    return findings;
}

} // namespace

// Root's alone, or with [access] group as daemon/write/access.cpp sets them.
Findings check_state_directory(const Host &host) {
    const std::string &state = host.questions().state, &group = host.config().access.group;
    struct stat st {};
    if (::stat(state.c_str(), &st) != 0 && errno == ENOENT)
        return {bad(state + " is not there", "incidentd has not run yet on this host, or with another --state",
                    "systemctl enable --now incidentd")};
    const std::optional<std::uint32_t> gid = group.empty() ? std::nullopt : host.gid_of_group(group);
    if (!group.empty() && !gid)
        return {bad(fmt::format("[access] group = \"{}\": there is no such group", group),
                    "its members cannot read incidents", "groupadd --system " + shell_word(group))};
    Findings findings = judge_state(host, gid);
    return or_else(std::move(findings), ok(gid ? fmt::format("{}, the incidents for group {}", state, group) : state));
}

Findings check_state_space(const Host &host) {
    const std::string &state = host.questions().state;
    const auto space = host.space(state);
    if (!space)
        return {}; // what is wrong with it is told above
    if (space->read_only)
        return {bad(state + " is on a read-only file system", "no incident can be written", "")};
    Findings findings;
    if (space->in_memory)
        findings.push_back(
            warn(state + " is in memory (tmpfs)", "incidents are gone with the next boot", "mount a disk there"));
    constexpr std::uint64_t few = 1000; // a bundle has some twenty files
    if (space->free_inodes && *space->free_inodes < few)
        findings.push_back(bad(fmt::format("{} inodes are free", *space->free_inodes),
                               "no incident can be written, whatever space there is",
                               fmt::format("du -x --inodes --max-depth=3 $(findmnt -no TARGET -T {}) | sort -n | tail",
                                           shell_word(state))));
    const auto &budget = host.config().budget;
    const std::string fact = fmt::format("{} free, [budget] keeps {} free and may take {}", size_text(space->free),
                                         size_text(budget.keep_free), size_text(budget.bytes));
    const std::string mend =
        fmt::format("du -xh --max-depth=3 $(findmnt -no TARGET -T {}) | sort -h | tail", shell_word(state));
    if (space->free < budget.keep_free)
        findings.push_back(bad(fact, "each new incident takes the place of an older one", mend));
    else if (space->free - budget.keep_free < budget.bytes / 4)
        findings.push_back(warn(fact, "incidents will be removed long before [budget] bytes is reached", mend));
    else
        findings.push_back(ok(fact));
    return findings;
}

} // namespace incident::postmortem::doctor
