#include "capture/collect/collect.h"
#include "capture/container/container.h"

#include <gtest/gtest.h>

namespace incident::capture {
namespace {

const std::string CONTAINER_ID(64, 'a');

// The cases of systemd's own src/test/test-cgroup-util.c (v252), and then some.
TEST(CgroupUnit, AsSystemdSeesIt) {
    const std::pair<const char *, const char *> cases[] = {
        {"/system.slice/foobar.service/sdfdsaf", "foobar.service"},
        {"/system.slice/getty@tty5.service", "getty@tty5.service"},
        {"/system.slice/getty@tty5.service/aaa/bbb", "getty@tty5.service"},
        {"/system.slice/system-getty.slice/getty@tty6.service/xxx", "getty@tty6.service"},
        {"/system.slice/getty@.service", ""},
        {"sadfdsafsda", ""},
        {"/", ""},
        {"", ""},
        {"/user.slice/user-1000.slice/user@1000.service/server.service", "server.service"},
        {"/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope", "x.scope"},
        {"/user.slice/user-1000.slice/user@1000.service/app.slice", "user@1000.service"},
        {"/user.slice/user-1000.slice/session-3.scope", "session-3.scope"},
        {"/user.slice/user-1000.slice/session-3.scope/foobar.service", "foobar.service"},
        {"user@1000.service/app.slice/x.scope", "x.scope"},
        {"/system.slice/_cgroup.procs.service", "cgroup.procs.service"},
        {"/foobar.slice/foobaz.slice/_foo.mount/x", "foo.mount"},
        {"/init.scope", "init.scope"},
        {"/machine.slice", ""},
        {"/system.slice/foo bar.service", ""},
        {"/system.slice/.service", ""},
        {"/system.slice/@x.service", ""},
    };
    for (const auto &[path, unit] : cases)
        EXPECT_EQ(unit_of_cgroup(path), unit) << path;
    EXPECT_EQ(unit_of_cgroup("/system.slice/" + std::string(300, 'a') + ".service"), "");
}

TEST(CgroupContainer, OfEveryManager) {
    const std::pair<std::string, std::string> cases[] = {
        {"/system.slice/docker-" + CONTAINER_ID + ".scope", CONTAINER_ID},
        {"/docker/" + CONTAINER_ID, CONTAINER_ID},
        {"/docker/" + CONTAINER_ID + "/system.slice/foo.service", CONTAINER_ID},
        {"/kubepods.slice/kubepods-besteffort.slice/kubepods-pod0.slice/cri-containerd-" + CONTAINER_ID + ".scope",
         CONTAINER_ID},
        {"/kubepods/burstable/pod12/" + CONTAINER_ID, CONTAINER_ID},
        {"/kubepods.slice/crio-" + CONTAINER_ID + ".scope", CONTAINER_ID},
        {"/kubepods.slice/crio-conmon-" + CONTAINER_ID + ".scope", ""},
        {"/machine.slice/libpod-" + CONTAINER_ID + ".scope/container", CONTAINER_ID},
        {"/machine.slice/libpod-conmon-" + CONTAINER_ID + ".scope", ""},
        {"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + CONTAINER_ID + ".scope", CONTAINER_ID},
        {"/docker/" + std::string(64, 'b') + "/docker/" + CONTAINER_ID, CONTAINER_ID}, // docker in docker
        {"/lxc.payload.web", "web"},
        {"/lxc/web/init.scope", "web"},
        {"/lxc.monitor.web", ""},
        {"/machine.slice/machine-deb\\x2d12.scope", "deb-12"},
        {"/machine.slice/machine-qemu\\x2d1\\x2dvm.scope", ""},
        {"/machine.slice/systemd-nspawn@deb.service/payload", "deb"},
        {"/system.slice/foo.service", ""},
        {"/docker/" + CONTAINER_ID.substr(1), ""},
        {"/docker/" + std::string(63, 'a') + "g", ""},
        {"", ""},
        {"/", ""},
        {"/machine-\\x.scope", "\\x"},
    };
    for (const auto &[path, id] : cases)
        EXPECT_EQ(container_of_cgroup(path), id) << path;
}

TEST(CgroupNames, TheGroupOfAProcess) {
    const std::vector<std::pair<std::string, std::string>> cases{
        {"0::/system.slice/a.service\n", "/system.slice/a.service"},
        {"0::/system.slice/a.service (deleted)\n", "/system.slice/a.service"},
        {"0::/\n", "/"},
        {"0::/", "/"},
        {"12:cpu:/x\n1:name=systemd:/system.slice/v1.service\n0::/\n", "/system.slice/v1.service"},
        {"1:name=systemd:/system.slice/v1.service (deleted)\n0::/\n", "/system.slice/v1.service"},
        {"1:name=systemd:/system.slice/v1.service\n0::/system.slice/v2.service\n", "/system.slice/v2.service"},
        {"1:name=systemd:/\n0::/\n", "/"},
        {"12:cpu:/x\n", ""},
        {"", ""},
    };
    for (const auto &[text, group] : cases)
        EXPECT_EQ(cgroup_of_text(text), group) << text;
}

} // namespace
} // namespace incident::capture
