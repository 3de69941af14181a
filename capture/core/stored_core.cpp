#include "capture/core/stored_core.h"

#include "capture/os/dir_at.h"
#include "capture/os/number.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>

namespace incident::capture {

namespace {

constexpr const char *symbolic_link = "the core file is a symbolic link";

bool others_write(const struct stat &st) {
    return (st.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

std::string_view stored_name(std::string_view file) {
    const std::size_t slash = file.rfind('/');
    return slash == std::string_view::npos ? file : file.substr(slash + 1);
}

// Why the file is not one that systemd-coredump wrote; "".
std::string no_stored_core(const OsRoots &os, const struct stat &st) {
    if (S_ISLNK(st.st_mode)) // open_beneath() without openat2(2)
        return symbolic_link;
    if (!S_ISREG(st.st_mode))
        return "the core file is not a regular file";
    if (st.st_uid != os.coredump_owner)
        return fmt::format("the core file belongs to uid {}, and systemd-coredump's to uid {}", st.st_uid,
                           os.coredump_owner);
    if (st.st_nlink != 1)
        return fmt::format("the core file has {} names (hard links), and systemd-coredump's have one", st.st_nlink);
    if (others_write(st))
        return "others than its owner may write the core file";
    return "";
}

} // namespace

Result<StoredCore> find_stored_core(const OsRoots &os, const std::string &file) {
    const std::string below = os.coredump + "/";
    const std::string name = file.starts_with(below) ? file.substr(below.size()) : "";
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos)
        return fail("the core is said to be a file outside " + os.coredump);
    // The directory itself may be a link that the administrator made.
    const UniqueFd directory(retry([&] { return ::open(os.coredump.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC); }));
    struct stat st;
    if (!directory || ::fstat(directory.get(), &st) != 0)
        return fail(Error::system(os.coredump));
    if (st.st_uid != os.coredump_owner || others_write(st))
        return fail(fmt::format("others than uid {} can put files into {}", os.coredump_owner, os.coredump));
    StoredCore core;
    core.path = open_beneath(directory.get(), name, O_PATH);
    if (!core.path && errno == ELOOP)
        return fail(symbolic_link);
    if (!core.path || ::fstat(core.path.get(), &st) != 0)
        return fail(Error::system("the core file"));
    if (std::string why = no_stored_core(os, st); !why.empty())
        return fail(std::move(why));
    core.bytes = static_cast<std::uint64_t>(st.st_size);
    return core;
}

Result<UniqueFd> open_stored_core(const StoredCore &core) {
    const std::string self = fmt::format("/proc/self/fd/{}", core.path.get());
    UniqueFd file(retry([&] { return ::open(self.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); }));
    if (!file)
        return fail(Error::system("open"));
    return file;
}

std::optional<StoredCoreName> StoredCoreName::parse(std::string_view file) {
    std::string_view rest = stored_name(file);
    // The comm has no dots: make_filename() writes them as \x2e.
    constexpr std::size_t parts_least = 6; // "core", comm, uid, boot, pid, time; then how it is compressed
    std::array<std::string_view, parts_least + 1> parts;
    std::size_t count = 0;
    for (bool more = true; more; ++count) {
        if (count == parts.size())
            return std::nullopt;
        parts[count] = rest.substr(0, rest.find('.'));
        more = parts[count].size() < rest.size();
        rest.remove_prefix(parts[count].size() + (more ? 1 : 0));
    }
    constexpr std::size_t boot_id_digits = 32;
    const auto uid = whole_number<std::uint32_t>(parts[2]), pid = whole_number<std::uint32_t>(parts[4]);
    const auto death_us = whole_number<std::uint64_t>(parts[5]);
    if (count < parts_least || parts[0] != "core" || parts[3].size() != boot_id_digits || !uid || !pid || !death_us)
        return std::nullopt;
    return StoredCoreName{.uid = *uid, .pid = *pid, .boot_id = parts[3], .death = {*death_us * 1000}};
}

std::string StoredCoreName::contradiction(const DeathIdentity &death) const {
    if (boot_id != death.boot_id)
        return "its core file is of another boot";
    if (pid != death.process.pid)
        return fmt::format("its core file is of pid {}", pid);
    if (death.uid != ~0u && uid != death.uid)
        return fmt::format("its core file is of a process of uid {}", uid);
    return "";
}

} // namespace incident::capture
