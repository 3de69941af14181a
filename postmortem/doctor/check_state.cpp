// Where bundles are kept: whose it is, and how much room there is.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"
#include "postmortem/times.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <sys/stat.h>

namespace incident::postmortem::doctor {

namespace {

struct Wanted {
    std::string path;
    mode_t mode;
    std::uint32_t gid;
};

Findings compare(const Host &host, const Wanted &wanted) {
    struct stat st {};
    if (::stat(wanted.path.c_str(), &st) != 0)
        return {unknown(fmt::format("{}: {}", wanted.path, std::strerror(errno)), host.as_root())};
    const mode_t mode = st.st_mode & 07777;
    if (!S_ISDIR(st.st_mode))
        return {bad(wanted.path + " is no directory", "no incident can be kept", "")};
    if (st.st_uid != 0)
        return {bad(fmt::format("{} belongs to uid {}", wanted.path, st.st_uid),
                    "who owns it can change and remove incidents", "chown root " + shell_word(wanted.path))};
    if (mode == wanted.mode && (mode == 0700 || st.st_gid == wanted.gid))
        return {};
    const bool open = (mode & ~wanted.mode & 077) != 0 || ((mode & 070) != 0 && st.st_gid != wanted.gid);
    return {bad(fmt::format("{} has mode {:04o} and group {}", wanted.path, mode, st.st_gid),
                open ? "bundles hold memory and files of processes: others may look in"
                     : "the group of [access] cannot read the incidents",
                "systemctl restart incidentd   # it sets what [access] says; or: " +
                    (wanted.mode == 0700 ? fmt::format("chmod 0700 {}", shell_word(wanted.path))
                                         : fmt::format("chgrp {0} {2} && chmod {1:04o} {2}", wanted.gid, wanted.mode,
                                                       shell_word(wanted.path))))};
}

} // namespace

// Root's alone, or with [access] group as daemon/access.cpp sets them.
Findings check_state_directory(const Host &host) {
    const std::string &state = host.questions().state, &group = host.config().access.group;
    struct stat st {};
    if (::stat(state.c_str(), &st) != 0 && errno == ENOENT)
        return {bad(state + " is not there", "incidentd has not run yet on this host, or with another --state",
                    "systemctl enable --now incidentd")};
    std::optional<std::uint32_t> gid;
    if (!group.empty() && !(gid = host.gid_of_group(group)))
        return {bad(fmt::format("[access] group = \"{}\": there is no such group", group),
                    "its members cannot read incidents", "groupadd --system " + shell_word(group))};
    Findings findings = compare(host, {state, static_cast<mode_t>(gid ? 0711 : 0700), st.st_gid});
    if (const std::string incidents = state + "/incidents"; ::stat(incidents.c_str(), &st) == 0 || errno != ENOENT)
        std::ranges::move(compare(host, {incidents, static_cast<mode_t>(gid ? S_ISGID | 0750 : 0700), gid.value_or(0)}),
                          std::back_inserter(findings));
    if (findings.empty())
        findings.push_back(ok(gid ? fmt::format("{}, the incidents for group {}", state, group) : state));
    return findings;
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
        findings.push_back(bad(fact, "each new incident removes the one before it", mend));
    else if (space->free - budget.keep_free < budget.bytes / 4)
        findings.push_back(warn(fact, "incidents will be removed long before [budget] bytes is reached", mend));
    else
        findings.push_back(ok(fact));
    return findings;
}

} // namespace incident::postmortem::doctor
