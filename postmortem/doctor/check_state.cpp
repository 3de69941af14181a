// Where bundles are kept: whose it is, and how much room there is.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"
#include "postmortem/times.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>

namespace incident::postmortem::doctor {

// 0700, or 0750 for the group that may read ([access] group), root's: bundles hold what processes had in memory.
Findings check_state_directory(const Host &host) {
    const std::string &state = host.questions().state;
    Findings findings;
    for (const std::string &directory : {state, state + "/incidents"}) {
        struct stat st {};
        if (::stat(directory.c_str(), &st) != 0) {
            if (errno != ENOENT)
                findings.push_back(unknown(fmt::format("{}: {}", directory, std::strerror(errno)), host.as_root()));
            else if (directory == state)
                return {bad(state + " is not there", "incidentd has not run yet on this host, or with another --state",
                            "systemctl enable --now incidentd")};
            continue; // incidents/ comes with the first
        }
        const mode_t mode = st.st_mode & 07777;
        const bool groups = mode == 0750 && st.st_gid != 0;
        if (!S_ISDIR(st.st_mode))
            findings.push_back(bad(directory + " is no directory", "no incident can be kept", ""));
        else if (st.st_uid != 0)
            findings.push_back(bad(fmt::format("{} belongs to uid {}", directory, st.st_uid),
                                   "who owns it can change and remove incidents",
                                   fmt::format("chown root {}", shell_word(directory))));
        else if (mode != 0700 && !groups)
            findings.push_back(bad(fmt::format("{} has mode {:04o}", directory, mode),
                                   "bundles hold memory and files of processes: others may look in",
                                   fmt::format("chmod 0700 {}", shell_word(directory))));
    }
    if (findings.empty())
        findings.push_back(ok(state));
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
