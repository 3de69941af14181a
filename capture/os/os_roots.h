// The directories where the operating system is read.
#pragma once

#include <cstdint>
#include <string>

namespace incident::capture {

// Tests set them to trees that are checked in.
struct OsRoots {
    std::string proc = "/proc";
    std::string sys = "/sys";
    std::string cgroup = "/sys/fs/cgroup";
    std::string dev_kmsg = "/dev/kmsg";
    std::string coredump = "/var/lib/systemd/coredump"; // where systemd-coredump stores cores
    std::uint32_t coredump_owner = 0;                   // whose that directory and its files are
    std::string host; // before the paths where container runtimes write down what they run; "" the host's own
    std::string systemd = "/run/systemd/system"; // there if systemd runs this machine (sd_booted(3))
};

} // namespace incident::capture
