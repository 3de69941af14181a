#include "capture/container/container.h"

#include "capture/os/number.h"
#include "capture/os/path_parts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace incident::capture {

namespace {

constexpr std::size_t id_length = 64; // hex digits

bool is_hex(std::string_view text) {
    return std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) || (c >= 'a' && c <= 'f'); });
}

bool is_id(std::string_view text) {
    return text.size() == id_length && is_hex(text);
}

// "\x2d" of a systemd unit name back to '-'.
std::string unit_text(std::string_view name) {
    std::string text;
    for (std::size_t i = 0; i < name.size(); ++i) {
        const auto digit = [&](std::size_t at) { return std::string_view("0123456789abcdef").find(name[at]); };
        if (name.substr(i, 2) == "\\x" && i + 3 < name.size() && is_hex(name.substr(i + 2, 2))) {
            text += static_cast<char>(digit(i + 2) * 16 + digit(i + 3));
            i += 3;
        } else {
            text += name[i];
        }
    }
    return text;
}

std::string_view between(std::string_view name, std::string_view head, std::string_view tail) {
    if (name.size() <= head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail))
        return {};
    return name.substr(head.size(), name.size() - head.size() - tail.size());
}

struct Named {
    std::string id;
    std::string_view runtime;
};

// Whose group has such a name: podman's and cri-o's monitors, conmon, stand in groups of their own outside.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> prefixes{{{"libpod-", "podman"},
                                                                                 {"docker-", "docker"},
                                                                                 {"cri-containerd-", "containerd"},
                                                                                 {"nerdctl-", "containerd"},
                                                                                 {"crio-", "cri-o"}}};
// With the cgroupfs driver the bare id stands below a group of the runtime's.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> parents{
    {{"docker", "docker"}, {"default", "containerd"}}};

// The container one component names, if any.  before: the component it lies in.
std::optional<Named> named_by(std::string_view name, std::string_view before) {
    std::string_view stem = name.ends_with(".scope") ? name.substr(0, name.size() - 6) : name;
    if (stem.size() >= id_length && stem.find("conmon") == std::string_view::npos) {
        const std::string_view id = stem.substr(stem.size() - id_length),
                               head = stem.substr(0, stem.size() - id_length);
        if (is_hex(id) && (head.empty() || head.ends_with('-'))) {
            std::string_view runtime;
            for (const auto &[key, value] : prefixes)
                if (head == key)
                    runtime = value;
            for (const auto &[key, value] : parents)
                if (head.empty() && before == key)
                    runtime = value;
            return Named{std::string(id), runtime};
        }
    }
    if (const std::string_view lxc = between(name, "lxc.payload.", ""); !lxc.empty())
        return Named{std::string(lxc), "lxc"};
    if (before == "lxc" || before == "lxc.payload") // lxc 3 and older
        return Named{std::string(name), "lxc"};
    // machined's scopes are virtual machines too, but those are named "qemu-N-NAME".
    if (const std::string_view machine = between(name, "machine-", ".scope");
        !machine.empty() && !machine.starts_with("qemu\\x2d"))
        return Named{unit_text(machine), "machined"};
    if (const std::string_view machine = between(name, "systemd-nspawn@", ".service"); !machine.empty())
        return Named{unit_text(machine), "machined"};
    return std::nullopt;
}

// kubelet: "kubepods-burstable-podUID.slice" with the UID's '-' as '_', or "podUID".  podman: "…-libpod_pod_ID.slice",
// or the bare ID below its own group.
std::string pod_of(std::string_view name, std::string_view before) {
    if (const std::size_t at = name.find("-libpod_pod_"); at != std::string_view::npos)
        if (const std::string_view id = between(name.substr(at), "-libpod_pod_", ".slice"); is_id(id))
            return std::string(id);
    if (before == "libpod_parent" && is_id(name))
        return std::string(name);
    std::string_view uid;
    if (name.starts_with("kubepods-") && name.ends_with(".slice")) {
        if (const std::size_t at = name.find("-pod"); at != std::string_view::npos)
            uid = between(name.substr(at), "-pod", ".slice");
    } else if (before == "kubepods" || before == "burstable" || before == "besteffort") {
        uid = between(name, "pod", "");
    }
    std::string id(uid);
    std::ranges::replace(id, '_', '-');
    return id;
}

} // namespace

std::optional<Container> container_at(const std::string &cgroup) {
    Container found;
    std::string_view before, rest = skip_slashes(cgroup);
    while (!rest.empty()) {
        const std::string_view name = first_part(rest);
        if (std::string pod = pod_of(name, before); !pod.empty()) {
            found.pod_id = std::move(pod);
        } else if (auto named = named_by(name, before)) {
            found.id = std::move(named->id);
            found.runtime = named->runtime;
            return found;
        } else if (const auto user = between(name, "user@", ".service"); !user.empty()) {
            found.uid = whole_number<std::uint32_t>(std::string(user));
            if (!found.uid)
                return std::nullopt; // of whom it would be is not known
        }
        before = name;
        rest = skip_slashes(rest.substr(name.size()));
    }
    return std::nullopt;
}

std::string container_of_cgroup(const std::string &cgroup) {
    std::string found;
    std::string_view before, rest = skip_slashes(cgroup);
    while (!rest.empty()) {
        const std::string_view name = first_part(rest);
        if (pod_of(name, before).empty())
            if (auto named = named_by(name, before))
                found = std::move(named->id);
        before = name;
        rest = skip_slashes(rest.substr(name.size()));
    }
    return found;
}

std::string words_for(const Container &container, std::uint32_t pid) {
    // An id as docker and podman shorten it.
    const std::string id = is_id(container.id) ? container.id.substr(0, 12) : container.id;
    std::string text = container.name.empty() ? id : container.name, about = container.runtime;
    if (!container.name.empty() && container.name != container.id)
        about += (about.empty() ? "" : " ") + id;
    if (!container.image.empty())
        about += (about.empty() ? "image " : ", image ") + container.image;
    if (!about.empty())
        text += " (" + about + ")";
    if (const std::string &pod = container.pod.empty() ? container.pod_id : container.pod; !pod.empty())
        text += ", pod " + pod + (container.pod_namespace.empty() ? "" : " in " + container.pod_namespace);
    if (pid)
        text += "; it is pid " + std::to_string(pid) + " there";
    return text;
}

} // namespace incident::capture
