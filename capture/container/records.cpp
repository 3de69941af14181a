// What the runtimes write down of the containers they run, each in its own files, at their usual places.
#include "capture/container/container.h"

#include "capture/os/dir_at.h"
#include "capture/os/lines.h"
#include "capture/os/process_files.h"
#include "capture/os/users.h"

#include <nlohmann/json.hpp>

#include <fcntl.h>

#include <array>
#include <string_view>

namespace incident::capture {

namespace {

using Json = nlohmann::json;

// The list of all containers of a host is one file.  A parsed document may take 80 times the memory of its text, and
// the text of a user's own may be made for that.
constexpr std::uint64_t roots_record_max = 4u << 20, users_record_max = 256u << 10;
constexpr std::size_t text_max = 1024;

std::string cut(std::string_view text) {
    return std::string(text.substr(0, text_max));
}

// The text that stands at the end of a path of members; "" if it is none.
std::string text_at(const Json &json, std::initializer_list<const char *> path) {
    const Json *at = &json;
    for (const char *key : path) {
        const auto found = at->is_object() ? at->find(key) : at->end();
        if (found == at->end())
            return "";
        at = &*found;
    }
    return at->is_string() ? cut(at->get_ref<const std::string &>()) : "";
}

// The first of these annotations that there is.
std::string annotation(const Json &config, std::initializer_list<const char *> keys) {
    for (const char *key : keys)
        if (std::string text = text_at(config, {"annotations", key}); !text.empty())
            return text;
    return "";
}

// A regular file of the one whose runtime it is.  Root's paths may lead over links, to another disk; a user's may not,
// or they would lead to what another user's runtime says.
std::optional<std::string> read_of(const OsRoots &os, const std::optional<std::uint32_t> &uid, const std::string &dir,
                                   const std::string &path) {
    UniqueFd file;
    if (uid) {
        const UniqueFd home(::open((os.host + dir).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (home)
            file = open_beneath(home.get(), path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    } else if (auto opened = open_regular(-1, os.host + dir + "/" + path)) {
        file = std::move(*opened);
    }
    struct stat st;
    if (!file || ::fstat(file.get(), &st) != 0 || st.st_uid != uid.value_or(os.host.empty() ? 0 : st.st_uid))
        return std::nullopt;
    auto text = read_open_file(file.get(), path, uid ? users_record_max : roots_record_max);
    return text ? std::optional(std::move(*text)) : std::nullopt;
}

std::optional<Json> json_of(const std::optional<std::string> &text) {
    if (!text)
        return std::nullopt;
    Json json = Json::parse(*text, nullptr, false);
    return json.is_discarded() ? std::nullopt : std::optional(std::move(json));
}

// containers/storage, which podman and cri-o use: containers.json, a list of {id, names, image, metadata}, where
// metadata is JSON in a text (github.com/containers/storage, containers.go; its "metadata" is of libpod's
// RuntimeContainerMetadata).
bool storage_record(const OsRoots &os, Container &container, const std::string &dir, const std::string &below) {
    for (const char *driver : {"overlay", "vfs", "btrfs", "zfs"}) {
        const std::string containers = below + driver + "-containers/", list = containers + "containers.json";
        const auto json = json_of(read_of(os, container.uid, dir, list));
        if (!json || !json->is_array())
            continue;
        for (const Json &entry : *json) {
            if (text_at(entry, {"id"}) != container.id)
                continue;
            const auto metadata = json_of(text_at(entry, {"metadata"}));
            if (const auto names = entry.find("names");
                names != entry.end() && names->is_array() && !names->empty() && names->front().is_string())
                container.name = cut(names->front().get_ref<const std::string &>());
            container.image_id = text_at(entry, {"image"});
            if (metadata)
                container.image = text_at(*metadata, {"image-name"});
            container.from = dir + "/" + list;
            // cri-o's annotations of the pod (github.com/cri-o/cri-o, pkg/annotations)
            if (const auto config =
                    json_of(read_of(os, container.uid, dir, containers + container.id + "/userdata/config.json"))) {
                container.pod = annotation(*config, {"io.kubernetes.pod.name", "io.kubernetes.cri-o.SandboxName"});
                container.pod_namespace = annotation(*config, {"io.kubernetes.pod.namespace"});
                if (const std::string name = annotation(*config, {"io.kubernetes.container.name"}); !name.empty())
                    container.name = name;
            }
            return true;
        }
    }
    return false;
}

// docker: config.v2.json (github.com/moby/moby, container/container.go)
bool docker_record(const OsRoots &os, Container &container) {
    const std::string dir = "/var/lib/docker/containers/" + container.id;
    const auto json = json_of(read_of(os, std::nullopt, dir, "config.v2.json"));
    if (!json)
        return false;
    container.name = text_at(*json, {"Name"});
    if (container.name.starts_with('/'))
        container.name.erase(0, 1);
    container.image = text_at(*json, {"Config", "Image"});
    container.image_id = text_at(*json, {"Image"});
    container.pod = text_at(*json, {"Config", "Labels", "io.kubernetes.pod.name"});
    container.pod_namespace = text_at(*json, {"Config", "Labels", "io.kubernetes.pod.namespace"});
    container.from = dir + "/config.v2.json";
    return true;
}

// containerd: the OCI bundle of the running task, with what its client has annotated (github.com/containerd/containerd,
// pkg/cri/annotations; nerdctl's labels).
bool containerd_record(const OsRoots &os, Container &container) {
    for (const char *client : {"k8s.io", "default", "moby"}) {
        const std::string dir =
            "/run/containerd/io.containerd.runtime.v2.task/" + std::string(client) + "/" + container.id;
        const auto json = json_of(read_of(os, std::nullopt, dir, "config.json"));
        if (!json)
            continue;
        container.runtime = "containerd";
        container.name = annotation(*json, {"io.kubernetes.cri.container-name", "nerdctl/name"});
        container.image = annotation(*json, {"io.kubernetes.cri.image-name", "nerdctl/image"});
        container.pod = annotation(*json, {"io.kubernetes.cri.sandbox-name"});
        container.pod_namespace = annotation(*json, {"io.kubernetes.cri.sandbox-namespace"});
        container.from = dir + "/config.json";
        return true;
    }
    return false;
}

// machined: lines "KEY=value", values quoted where they have to be (src/machine/machine.c, machine_save())
bool machine_record(const OsRoots &os, Container &container) {
    if (container.id.find('/') != std::string::npos || container.id.starts_with('.'))
        return false;
    const auto text = read_of(os, std::nullopt, "/run/systemd/machines", container.id);
    if (!text)
        return false;
    container.name = container.id;
    container.from = "/run/systemd/machines/" + container.id;
    for (const std::string_view line : lines_of(*text))
        if (line.starts_with("ROOT=")) {
            std::string_view root = line.substr(5);
            if (root.size() >= 2 && root.starts_with('"') && root.ends_with('"'))
                root = root.substr(1, root.size() - 2);
            container.image = cut(root);
        }
    return true;
}

} // namespace

void look_up(const OsRoots &os, Container &container) {
    if (container.uid) { // of a user's runtimes only podman writes down what can be found; what is root's is another's
        const std::string home = container.runtime == "podman" ? home_of_user(*container.uid) : "";
        if (!home.empty())
            storage_record(os, container, home, ".local/share/containers/storage/");
        return;
    }
    if (container.runtime == "lxc")
        return void(container.name = container.id);
    if (container.runtime == "machined")
        return void(machine_record(os, container));
    // Where the path does not name the runtime, as below kubelet's groups, whoever knows the id runs it.
    const auto named = [&](const char *name) { return container.runtime == name || container.runtime.empty(); };
    if ((named("podman") || named("cri-o")) && storage_record(os, container, "/var/lib/containers/storage", ""))
        return void(container.runtime = container.runtime.empty() ? "cri-o" : container.runtime);
    if (named("docker") && docker_record(os, container))
        return void(container.runtime = "docker");
    if (named("containerd"))
        containerd_record(os, container);
}

} // namespace incident::capture
