#include "capture/core/core_handler.h"

#include "capture/os/proc_file.h"
#include "capture/os/users.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace incident::capture {

namespace {

// The program that the kernel starts for cores, as /proc/PID/exe names it; "" none.
std::string handler_program(const OsRoots &os) {
    const auto pattern = read_proc_file(AT_FDCWD, (os.proc + "/sys/kernel/core_pattern").c_str(), 4096);
    if (!pattern || !pattern->bytes.starts_with("|/"))
        return "";
    std::error_code error;
    return std::filesystem::canonical(pattern->bytes.substr(1, pattern->bytes.find_first_of(" \n") - 1), error);
}

} // namespace

CoreHandler core_handler_here(const OsRoots &os, std::optional<std::uint32_t> uid) {
    return {.uid = uid ? uid : uid_of_user("systemd-coredump"), // it may be installed at any time
            .exe = handler_program(os),
            .in_unit = ::access(os.systemd.c_str(), F_OK) == 0};
}

} // namespace incident::capture
