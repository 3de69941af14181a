// Opens the cores that systemd-coredump stored.
//
// The name of such a file comes from a journal entry or from a bundle, and whoever reads it is root.  So it is only a
// claim: the file must be in systemd-coredump's own directory, which only root can write, and must be root's own.
#pragma once

#include "capture/core/core_link.h"
#include "capture/os/unique_fd.h"

#include <optional>
#include <string_view>

namespace incident::capture {

struct StoredCore {
    UniqueFd path;           // stands for the file (O_PATH), whatever happens to its name
    std::uint64_t bytes = 0; // its length
};

// Error code ENOENT: there is no such file (any more).
Result<StoredCore> find_stored_core(const OsRoots &os, const std::string &file);
// For reading.  Error code EACCES: this user may not.
Result<UniqueFd> open_stored_core(const StoredCore &core);

// systemd-coredump names its files core.COMM.UID.BOOT.PID.TIME, with what the kernel told it (make_filename(),
// coredump.c).  Only it can put a file into that directory, so the name says whose core it is.
struct StoredCoreName {
    std::uint32_t uid = 0, pid = 0;
    std::string_view boot_id;
    WallTime death; // COREDUMP_TIMESTAMP: whole seconds

    // nullopt: it is not such a name.  The result refers to `file`.
    static std::optional<StoredCoreName> parse(std::string_view file);
    // "" or what contradicts the death.
    std::string contradiction(const DeathIdentity &death) const;
};

} // namespace incident::capture
