#include "capture/container/container.h"
#include "capture/container/host_paths.h"
#include "capture/os/users.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace incident::capture {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string id(64, 'a'), other(64, 'b');

std::string told(const std::string &cgroup) {
    const auto found = container_at(cgroup);
    if (!found)
        return "none";
    return found->runtime + " " + found->id.substr(0, 4) + " pod " + found->pod_id +
           (found->uid ? " of " + std::to_string(*found->uid) : "");
}

TEST(Container, PathsTellTheRuntimeThePodAndTheUser) {
    const std::pair<std::string, std::string> cases[] = {
        {"/libpod_parent/libpod-" + id, "podman aaaa pod "},
        {"/libpod_parent/" + other + "/libpod-" + id, "podman aaaa pod " + other},
        {"/machine.slice/machine-libpod_pod_" + other + ".slice/libpod-" + id + ".scope", "podman aaaa pod " + other},
        {"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope/container",
         "podman aaaa pod  of 1000"},
        {"/user.slice/user-1.slice/user@99999999999.service/libpod-" + id, "none"},
        {"/system.slice/docker-" + id + ".scope", "docker aaaa pod "},
        {"/docker/" + id, "docker aaaa pod "},
        {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_34.slice/cri-containerd-" + id + ".scope",
         "containerd aaaa pod 12-34"},
        {"/kubepods.slice/kubepods-pod12.slice/crio-" + id + ".scope", "cri-o aaaa pod 12"},
        {"/kubepods/besteffort/pod12-34/" + id, " aaaa pod 12-34"},
        {"/default/" + id, "containerd aaaa pod "},
        {"/lxc.payload.web/system.slice/x.service", "lxc web pod "},
        {"/machine.slice/machine-deb\\x2d12.scope", "machined deb- pod "},
        {"/docker/" + id + "/libpod_parent/libpod-" + other, "docker aaaa pod "}, // the host's own name
        {"/system.slice/x.service", "none"},
        {"/machine.slice/libpod-conmon-" + id + ".scope", "none"},
        {"/", "none"},
        {"", "none"},
    };
    for (const auto &[path, expected] : cases)
        EXPECT_EQ(told(path), expected) << path;
}

class Records : public testing::Test {
protected:
    Records() {
        char path[] = "/tmp/incidentd-records-XXXXXX";
        os_.host = ::mkdtemp(path);
    }
    ~Records() override { std::filesystem::remove_all(os_.host); }

    void put(const std::string &path, const std::string &text) const {
        const std::filesystem::path file(os_.host + path);
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }
    std::string words(const std::string &cgroup, std::uint32_t pid = 0) const {
        auto container = container_at(cgroup);
        if (!container)
            return "none";
        look_up(os_, *container);
        return words_for(*container, pid);
    }

    OsRoots os_;
};

TEST_F(Records, OfPodman) {
    put("/var/lib/containers/storage/overlay-containers/containers.json",
        R"([{"id":")" + other + R"(","names":["no"]},{"id":")" + id + R"(","names":["web1"],"image":"76d32c",)" +
            R"("metadata":"{\"image-name\":\"localhost/shop:1.4\",\"name\":\"web1\"}"}])");
    EXPECT_EQ(words("/libpod_parent/libpod-" + id, 7),
              "web1 (podman aaaaaaaaaaaa, image localhost/shop:1.4); it is pid 7 there");
    EXPECT_EQ(words("/libpod_parent/libpod-" + std::string(64, 'c')), "cccccccccccc (podman)");
}

TEST_F(Records, OfCrio) {
    put("/var/lib/containers/storage/overlay-containers/containers.json",
        R"([{"id":")" + id + R"(","names":["k8s_web_shop"],"metadata":"{\"image-name\":\"shop:1.4\"}"}])");
    put("/var/lib/containers/storage/overlay-containers/" + id + "/userdata/config.json",
        R"({"annotations":{"io.kubernetes.pod.name":"shop-7d9f","io.kubernetes.pod.namespace":"prod",)"
        R"("io.kubernetes.container.name":"web"}})");
    EXPECT_EQ(words("/kubepods.slice/kubepods-pod12.slice/crio-" + id + ".scope"),
              "web (cri-o aaaaaaaaaaaa, image shop:1.4), pod shop-7d9f in prod");
    EXPECT_EQ(words("/kubepods/pod12/" + id), "web (cri-o aaaaaaaaaaaa, image shop:1.4), pod shop-7d9f in prod");
}

TEST_F(Records, OfDocker) {
    put("/var/lib/docker/containers/" + id + "/config.v2.json",
        R"({"Name":"/web1","Image":"sha256:12","Config":{"Image":"nginx:1.25","Labels":{}}})");
    EXPECT_EQ(words("/system.slice/docker-" + id + ".scope"), "web1 (docker aaaaaaaaaaaa, image nginx:1.25)");
}

TEST_F(Records, OfContainerd) {
    put("/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + id + "/config.json",
        R"({"annotations":{"io.kubernetes.cri.container-name":"web","io.kubernetes.cri.image-name":"shop:1",)"
        R"("io.kubernetes.cri.sandbox-name":"shop-1","io.kubernetes.cri.sandbox-namespace":"prod"}})");
    EXPECT_EQ(words("/kubepods/burstable/pod12/" + id),
              "web (containerd aaaaaaaaaaaa, image shop:1), pod shop-1 in prod");
}

TEST_F(Records, OfMachined) {
    put("/run/systemd/machines/deb-12", "# x\nNAME=deb-12\nROOT=\"/var/lib/machines/deb-12\"\n");
    EXPECT_EQ(words("/machine.slice/machine-deb\\x2d12.scope"), "deb-12 (machined, image /var/lib/machines/deb-12)");
    EXPECT_EQ(words("/machine.slice/systemd-nspawn@..service"), ". (machined)");
    EXPECT_EQ(words("/machine.slice/machine-a\\x2fb.scope"), "a/b (machined)");
}

// A process that is below a user's manager can name its group like root's container.
TEST_F(Records, WhatAUsersGroupIsNamedSaysNothingOfRootsContainers) {
    put("/var/lib/containers/storage/overlay-containers/containers.json",
        R"([{"id":")" + id + R"(","names":["roots"],"metadata":"{\"image-name\":\"roots:1\"}"}])");
    EXPECT_EQ(words("/user.slice/user-1.slice/user@1.service/app.slice/libpod-" + id), "aaaaaaaaaaaa (podman)");
    put("/run/systemd/machines/deb", "ROOT=/root/secret\n");
    EXPECT_EQ(words("/user.slice/user-1.slice/user@1.service/machine-deb.scope"), "deb (machined)");
}

// Parsed, a text takes up to 80 times its size.
TEST_F(Records, OfAUserThatAreTooLargeAreNotRead) {
    const std::string home = home_of_user(1); // daemon's
    if (home.empty())
        GTEST_SKIP() << "there is no user 1";
    const std::string path = home + "/.local/share/containers/storage/overlay-containers/containers.json";
    const std::string cgroup = "/user.slice/user-1.slice/user@1.service/user.slice/libpod-" + id + ".scope";
    const std::string entry = R"({"id":")" + id + R"(","names":["web1"]})";
    put(path, "[" + entry + "]");
    ASSERT_EQ(::chown((os_.host + path).c_str(), 1, 1), 0);
    EXPECT_EQ(words(cgroup), "web1 (podman aaaaaaaaaaaa)");
    put(path, "[" + entry + std::string(300 << 10, ' ') + "]");
    EXPECT_EQ(words(cgroup), "aaaaaaaaaaaa (podman)");
}

TEST_F(Records, ThatAreDamagedSayNothing) {
    const std::string path = "/var/lib/containers/storage/overlay-containers/containers.json";
    for (const char *text : {"", "[", "{}", "[1, [], {}]", R"([{"id":3}])", R"([[[[[[[[[[[[)"}) {
        put(path, text);
        EXPECT_EQ(words("/libpod_parent/libpod-" + id), "aaaaaaaaaaaa (podman)") << text;
    }
    put(path, R"([{"id":")" + id + R"(","names":[7],"metadata":"{","image":[]}])");
    EXPECT_EQ(words("/libpod_parent/libpod-" + id), "aaaaaaaaaaaa (podman)");
    std::filesystem::remove(os_.host + path);
    ASSERT_EQ(::mkfifo((os_.host + path).c_str(), 0600), 0);
    EXPECT_EQ(words("/libpod_parent/libpod-" + id), "aaaaaaaaaaaa (podman)") << "nobody writes to it";
}

constexpr const char *host_mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
                                    "23 22 8:1 / /srv rw shared:3 master:2 - ext4 /dev/sda1 rw\n"
                                    "24 22 8:1 /data/a\\040b /mnt/ab rw - ext4 /dev/sda1 rw\n";

std::vector<std::string> places(const std::string &mounts, const std::string &path, const std::string &root = "/") {
    return HostPaths(parse_mountinfo(mounts), parse_mountinfo(host_mounts), root).of(path);
}

TEST(HostPaths, LayersOfAnOverlayTheUppermostFirst) {
    const std::string mounts =
        "75 49 0:40 / / rw - overlay overlay rw,lowerdir=/l/2:/l/1,upperdir=/o/x/diff,workdir=/w\n"
        "76 75 0:43 / /proc rw - proc proc rw\n";
    EXPECT_THAT(places(mounts, "/usr/bin/app"),
                ElementsAre("/o/x/diff/usr/bin/app", "/l/2/usr/bin/app", "/l/1/usr/bin/app"));
    EXPECT_THAT(places(mounts, "/proc/1/exe"), IsEmpty());
    EXPECT_THAT(places("75 49 0:40 /sub / rw - overlay overlay rw,lowerdir=/l\\134:1:/l/2::/data\n", "/app"),
                ElementsAre("/l:1/sub/app", "/l/2/sub/app", "/data/sub/app"));
    EXPECT_THAT(places("75 49 0:40 / / rw - overlay overlay rw,lowerdir=l/2,upperdir=/o/x/diff\n", "/app"),
                ElementsAre("/o/x/diff/app", "/o/l/2/app"))
        << "mounted from their directory";
    EXPECT_THAT(places("75 49 0:40 / / rw - overlay overlay rw,lowerdir+=/l/1,lowerdir+=/l/2\n", "/app"),
                ElementsAre("/l/1/app", "/l/2/app"));
}

TEST(HostPaths, NoNameThatWouldDoSomethingElsewhere) {
    EXPECT_THAT(places("75 49 0:40 / / rw - overlay o rw,lowerdir=/l\\012shell\\040id:/k\n", "/app"),
                ElementsAre("/k/app"));
}

TEST(HostPaths, TheSameFileSystemWhereTheHostHasIt) {
    EXPECT_THAT(places("21 95 254:0 /tmp/x /usr/local/bin/app ro - ext4 /dev/vda rw\n", "/usr/local/bin/app"),
                ElementsAre("/tmp/x"));
    EXPECT_THAT(places("21 95 8:1 /data /opt rw - ext4 /dev/sda1 rw\n", "/opt/a b/app"),
                ElementsAre("/srv/data/a b/app", "/mnt/ab/app"));
    EXPECT_THAT(places("21 95 8:1 /data /opt rw - ext4 /dev/sda1 rw\n", "/optional/app"), IsEmpty());
    EXPECT_THAT(places("1 1 254:0 / / rw - ext4 /dev/vda rw\n", "/bin/app"), IsEmpty()) << "it is there";
}

TEST(HostPaths, TheDeepestMountAndOfThoseAtOnePlaceTheLast) {
    EXPECT_THAT(places("1 1 254:0 /r / rw - ext4 x rw\n2 1 254:0 /old /opt rw - ext4 x rw\n"
                       "3 2 254:0 /new /opt rw - ext4 x rw\n",
                       "/opt/app"),
                ElementsAre("/new/app"));
}

TEST(HostPaths, TheDeviceIsThatOfTheMountThatIsSeen) {
    const HostPaths host(
        parse_mountinfo("1 1 0:40 / / rw - overlay o rw,lowerdir=/l\n2 1 0:41 / /tmp rw - tmpfs t rw\n"), {}, "/");
    EXPECT_TRUE(host.is_on("/app", 0, 40));
    EXPECT_FALSE(host.is_on("/app", 0, 41)) << "it was mapped before that was mounted over it";
    EXPECT_TRUE(host.is_on("/tmp/app", 0, 41));
    EXPECT_FALSE(host.is_on("app", 0, 40));
}

TEST(HostPaths, BelowARootThatIsNoMount) {
    EXPECT_THAT(places("", "/bin/app", "/srv/jail"), ElementsAre("/srv/jail/bin/app"));
    EXPECT_THAT(places("1 1 0:40 / / rw - overlay o rw,lowerdir=/l\n", "/app", "/o/merged"),
                ElementsAre("/l/app", "/o/merged/app"))
        << "what stays stands first";
    EXPECT_THAT(places("", "bin/app", "/srv/jail"), IsEmpty());
}

TEST(HostPaths, LinesThatTheKernelDoesNotPrintAreLeftOut) {
    for (const char *line : {"", "1", "1 2 3", "1 2 3:x / / rw - ext4", "1 2 3:4 a b rw - ext4 x y", "1 2 3:4",
                             "\\777 \\", "1 2 3:4 / \\0 rw"})
        EXPECT_THAT(HostPaths(parse_mountinfo(line), {}, "/").of("/app"), IsEmpty()) << line;
}

} // namespace
} // namespace incident::capture
