// incidentctl doctor: what prevents cores from being taken and kept.
#include "doctor_lab.h"

#include <unistd.h>

namespace incident::postmortem::test {

using namespace doctor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

constexpr const char *pattern = "/proc/sys/kernel/core_pattern";
constexpr const char *upstream = "|/lib/systemd/systemd-coredump %P %u %g %s %t %c %h\n";

} // namespace

TEST(DoctorCores, Pattern) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_core_pattern)), Is(Grade::Ok, "systemd-coredump"));
    for (const auto &[text, said] : std::vector<std::pair<std::string, std::string>>{
             {"core\n", "writes cores to files (\"core\")"},
             {"|/usr/share/apport/apport %p\n", "hands cores to /usr/share/apport/apport"},
             {"\n", "is empty"}}) {
        lab.write(pattern, text);
        EXPECT_THAT(only(lab.look(check_core_pattern)), Is(Grade::Bad, said, "sysctl -p /usr/lib/sysctl.d"));
        EXPECT_THAT(lab.look(check_core_socket), IsEmpty());
    }
    lab.remove("/usr/lib/sysctl.d");
    EXPECT_THAT(only(lab.look(check_core_pattern)), Is(Grade::Bad, "is empty", "apt install systemd-coredump"));
    lab.remove(pattern);
    EXPECT_THAT(only(lab.look(check_core_pattern)), Is(Grade::Unknown, "core_pattern"));
}

TEST(DoctorCores, HandlerIsThere) {
    Lab lab;
    lab.remove("/lib/systemd/systemd-coredump");
    EXPECT_THAT(only(lab.look(check_core_pattern)),
                Is(Grade::Bad, "/lib/systemd/systemd-coredump, which is not there", "apt install systemd-coredump"));
}

TEST(DoctorCores, PipeLimit) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_core_pipe_limit)), Is(Grade::Ok, "16 dumps at once"));
    lab.write("/proc/sys/kernel/core_pipe_limit", "0\n");
    EXPECT_THAT(only(lab.look(check_core_pipe_limit)), Is(Grade::Warn, "is 0", "sysctl -w kernel.core_pipe_limit=16"));
    lab.write(pattern, "core\n");
    EXPECT_THAT(lab.look(check_core_pipe_limit), IsEmpty());
}

TEST(DoctorCores, Socket) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_core_socket)), Is(Grade::Ok, ""));
    // One that is connected, not one that listens.
    lab.write("/proc/1/net/unix", "0000000000000000: 00000002 00000000 00000000 0005 03 13 /run/systemd/coredump\n");
    EXPECT_THAT(only(lab.look(check_core_socket)),
                Is(Grade::Bad, "nothing listens", "systemctl start systemd-coredump.socket"));
    lab.remove("/proc/1/net/unix");
    EXPECT_THAT(only(lab.look(check_core_socket)), Is(Grade::Unknown, "/proc/1/net/unix"));
}

TEST(DoctorCores, Storage) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_core_storage)), Is(Grade::Ok, "/var/lib/systemd/coredump"));
    lab.write("/etc/systemd/coredump.conf", "[Coredump]\nStorage=none\n");
    EXPECT_THAT(only(lab.look(check_core_storage)),
                Is(Grade::Bad, "Storage=none (/etc/systemd/coredump.conf)", "Storage=external"));
    lab.write("/run/systemd/coredump.conf.d/50-x.conf", "[Coredump]\nStorage=journal\n");
    EXPECT_THAT(only(lab.look(check_core_storage)), Is(Grade::Warn, "Storage=journal (/run/systemd/"));
    lab.write("/etc/systemd/coredump.conf.d/60-y.conf", "[Coredump]\nStorage=external\nMaxUse=lots\n");
    EXPECT_THAT(lab.look(check_core_storage),
                ElementsAre(Is(Grade::Warn, "MaxUse=lots in /etc/systemd/coredump.conf.d/60-y.conf is no size"),
                            Is(Grade::Ok, "")));
}

TEST(DoctorCores, Sizes) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_core_sizes)), Is(Grade::Ok, "app[100] is the largest watched process, 20.0 MiB"));
    lab.add({.pid = 101, .comm = "big", .resident_kib = 3u << 20, .swapped_kib = 2u << 20});
    EXPECT_THAT(only(lab.look(check_core_sizes)), Is(Grade::Ok, "big[101] is the largest watched process, 5.0 GiB"));
    lab.write("/etc/systemd/coredump.conf", "[Coredump]\nProcessSizeMax=2G\n");
    EXPECT_THAT(only(lab.look(check_core_sizes)),
                Is(Grade::Warn, "ProcessSizeMax=2.0 GiB (/etc/systemd/coredump.conf)", "ProcessSizeMax=11G"));
    lab.write("/etc/systemd/coredump.conf", "[Coredump]\nExternalSizeMax=2G\n");
    EXPECT_THAT(only(lab.look(check_core_sizes)),
                Is(Grade::Bad, "ExternalSizeMax=2.0 GiB", "ProcessSizeMax=11G\\nExternalSizeMax=11G"));
    lab.write("/etc/systemd/coredump.conf", "[Coredump]\nExternalSizeMax=infinity\n");
    EXPECT_THAT(only(lab.look(check_core_sizes)), Is(Grade::Ok, "any size kept"));
    lab.remove("/proc/100");
    lab.remove("/proc/101");
    EXPECT_THAT(only(lab.look(check_core_sizes)), Is(Grade::Unknown, "no watched process"));
}

TEST(DoctorCores, Space) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_core_space)), Is(Grade::Ok, "50.0 GiB free"));
    lab.space.free = 1 << 20;
    EXPECT_THAT(only(lab.look(check_core_space)), Is(Grade::Bad, "1.0 MiB free", "du -xh"));
    lab.space.free = 2ull << 30; // KeepFree's default is 4 GiB of these 100
    EXPECT_THAT(only(lab.look(check_core_space)), Is(Grade::Warn, "KeepFree=4.0 GiB"));
    lab.write("/etc/systemd/coredump.conf", "[Coredump]\nKeepFree=0\nMaxUse=10M\n");
    EXPECT_THAT(only(lab.look(check_core_space)), Is(Grade::Warn, "MaxUse=10.0 MiB", "MaxUse=1G"));
    lab.write("/etc/systemd/coredump.conf", "[Coredump]\nKeepFree=0\nMaxUse=0\n");
    EXPECT_THAT(only(lab.look(check_core_space)), Is(Grade::Ok, "at most all"));
    lab.space.in_memory = true;
    EXPECT_THAT(lab.look(check_core_space), ElementsAre(Is(Grade::Warn, "tmpfs"), Is(Grade::Ok, "")));
    lab.space.read_only = true;
    EXPECT_THAT(only(lab.look(check_core_space)), Is(Grade::Bad, "read-only"));
    lab.write("/etc/systemd/coredump.conf", "[Coredump]\nStorage=none\n");
    EXPECT_THAT(lab.look(check_core_space), IsEmpty());
}

TEST(DoctorCores, Age) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_core_age)), Is(Grade::Ok, "removed after 2w (/usr/lib/tmpfiles.d/systemd.conf)"));
    const auto vendor = [&](const std::string &line) { lab.write("/usr/lib/tmpfiles.d/systemd.conf", line + "\n"); };
    vendor("# d /var/lib/systemd/coredump 0755 root root 9w\nd /var/lib/systemd/coredump 0755 root root 3d");
    EXPECT_THAT(only(lab.look(check_core_age)), Is(Grade::Warn, "after 3d", "> /etc/tmpfiles.d/50-cores.conf"));
    // What that command makes comes first by name.
    lab.write("/etc/tmpfiles.d/50-cores.conf", "d /var/lib/systemd/coredump 0755 root root 4w\n");
    EXPECT_THAT(only(lab.look(check_core_age)), Is(Grade::Ok, "after 4w (/etc/"));
    lab.remove("/etc/tmpfiles.d");
    for (const char *age : {"~6d", "aAmM:1h", "90"}) {
        vendor(std::string("d /var/lib/systemd/coredump/ 0755 root root ") + age);
        EXPECT_THAT(only(lab.look(check_core_age)), Is(Grade::Warn, "removed after")) << age;
    }
    vendor("d /var/lib/systemd/coredump 0755 root root -");
    EXPECT_THAT(only(lab.look(check_core_age)), Is(Grade::Ok, "not removed"));
    vendor("d /var/lib/systemd/coredump");
    EXPECT_THAT(only(lab.look(check_core_age)), Is(Grade::Ok, "not removed"));
    lab.link("/dev/null", "/usr/lib/tmpfiles.d/systemd.conf");
    EXPECT_THAT(only(lab.look(check_core_age)), Is(Grade::Ok, "not removed"));
}

TEST(DoctorCores, RlimitCountsWhereThePatternPassesIt) {
    Lab lab;
    lab.add({.core_limit = "0"});
    EXPECT_THAT(only(lab.look(check_rlimit_core)), Is(Grade::Ok, "none of 1 watched process"));
    lab.write(pattern, upstream);
    const Finding found = only(lab.look(check_rlimit_core));
    EXPECT_THAT(found, Is(Grade::Bad, "app[100] of app.service: RLIMIT_CORE is 0",
                          "/etc/systemd/system/app.service.d/50-core.conf"));
    EXPECT_THAT(found.fix, HasSubstr("\nprlimit --pid 100 --core=unlimited"));
    lab.add({.core_limit = "unlimited"});
    EXPECT_THAT(only(lab.look(check_rlimit_core)), Is(Grade::Ok, ""));
}

TEST(DoctorCores, RlimitOfOneIsNoCoreAnywhere) {
    Lab lab;
    lab.add({.pid = 7, .comm = "tool", .unit = "", .core_limit = "1"});
    EXPECT_THAT(only(lab.look(check_rlimit_core)), Is(Grade::Bad, "tool[7]: RLIMIT_CORE is 1", "prlimit --pid 7"));
    lab.remove("/proc/7/limits");
    EXPECT_THAT(only(lab.look(check_rlimit_core)), Is(Grade::Unknown, "limits of 1 process cannot be read"));
}

TEST(DoctorCores, ProcessesOfAUnitAreOneLine) {
    Lab lab;
    lab.write(pattern, upstream);
    for (unsigned pid = 100; pid < 105; ++pid)
        lab.add({.pid = pid, .unit = "it's@1.service", .core_limit = "0"}); // not a unit's name: no unit
    for (unsigned pid = 105; pid < 108; ++pid)
        lab.add({.pid = pid, .core_limit = "0"});
    EXPECT_THAT(lab.look(check_rlimit_core),
                ElementsAre(Is(Grade::Bad, "app[100] and 4 more: "), Is(Grade::Bad, "app[105] and 2 more of app")));
}

TEST(DoctorCores, Dumpable) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_dumpable)), Is(Grade::Ok, "2"));
    lab.write("/proc/sys/fs/suid_dumpable", "0\n");
    EXPECT_THAT(only(lab.look(check_dumpable)), Is(Grade::Warn, "is 0", "sysctl -w fs.suid_dumpable=2"));
    if (geteuid() != 0)
        GTEST_SKIP() << "only root can give a file to root";
    lab.add({.uid = 1000}); // its directory is root's
    EXPECT_THAT(only(lab.look(check_dumpable)), Is(Grade::Bad, "app[100] of app.service: it is not dumpable"));
}

TEST(DoctorCores, Filter) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_core_filter)), Is(Grade::Ok, ""));
    lab.add({.core_filter = "00000030"});
    EXPECT_THAT(only(lab.look(check_core_filter)),
                Is(Grade::Bad, "coredump_filter is 0x30", "echo 0x33 > /proc/100/coredump_filter"));
    lab.remove("/proc/100/coredump_filter");
    EXPECT_THAT(only(lab.look(check_core_filter)), Is(Grade::Unknown, "1 process"));
}

} // namespace incident::postmortem::test
