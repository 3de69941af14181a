// Which container a process is in: as its cgroup's path says, and what the container's runtime has written down of it
// on the host.
//
// A path proves nothing.  Whoever owns a part of the tree names the groups in it, so a process can put itself into one
// that is named like another's container.  Of nested containers the outermost is looked up, because that name is the
// host's own; one below a user's manager (user@UID.service) is looked up with that user's runtime alone.
#pragma once

#include "capture/os/os_roots.h"

#include <cstdint>
#include <optional>
#include <string>

namespace incident::capture {

// Texts may be anything, and are "" where nothing is known.
struct Container {
    std::string id;      // 64 hex digits; the name, of lxc's and machined's
    std::string runtime; // "podman", "docker", "containerd", "cri-o", "lxc", "machined"
    std::string name, image, image_id;
    std::string pod, pod_id, pod_namespace;
    std::string from;                 // the file that name and image stand in
    std::optional<std::uint32_t> uid; // of the user whose manager runs it
};

// The outermost container of a cgroup path, with what the path tells: id, runtime, pod_id, uid.
std::optional<Container> container_at(const std::string &cgroup);
// The id of the innermost one: a container may run containers.  "" if there is none.
std::string container_of_cgroup(const std::string &cgroup);

// Adds what its runtime has written down.  It reads the host's files, which are root's or that user's, and may hang as
// long as their file system does.
void look_up(const OsRoots &os, Container &container);

// "web1 (podman 290666fd7395, image localhost/shop:1.4), pod shop in prod; it is pid 12 there".  pid: as the process
// knows itself, 0 not known.
std::string words_for(const Container &container, std::uint32_t pid);

} // namespace incident::capture
