// Where a file that a process sees below its own root is on the host.
//
// A path is followed from the mount that the process sees it in to the layers of an overlay, or to the same file system
// where it is mounted on the host.  The text of mountinfo is the kernel's, but what it names may have been mounted by
// the process itself, in a user namespace of its own.  So each answer is a guess until the file there has proved to be
// it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace incident::capture {

struct MountPoint {
    unsigned major = 0, minor = 0;
    std::string root;    // within the file system
    std::string point;   // as whoever reads it sees it
    std::string type;    // "overlay"
    std::string options; // of the file system, escapes included
};

// /proc/PID/mountinfo (proc(5)), in its order.  Lines that the kernel does not print are left out.
std::vector<MountPoint> parse_mountinfo(std::string_view text);

class HostPaths {
public:
    // process: its mounts; host: those of the daemon.  root: where its root is for the daemon (/proc/PID/root as a
    // link), "/" if it is in a mount namespace of its own.
    HostPaths(std::vector<MountPoint> process, std::vector<MountPoint> host, std::string root);

    // The places where the file may be, the likeliest first, `path` itself not among them, and none with control
    // characters in its name: a process chooses what it mounts.
    std::vector<std::string> of(std::string_view path) const;

    // Whether the mount that the process sees a path in is of this device, as maps has it.
    bool is_on(std::string_view path, unsigned major, unsigned minor) const;

private:
    std::vector<MountPoint> process_, host_;
    std::string root_;
};

} // namespace incident::capture
