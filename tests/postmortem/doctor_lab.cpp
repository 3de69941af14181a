#include "doctor_lab.h"

#include "state.h"

#include <cstdlib>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace incident::postmortem::test {

namespace fs = std::filesystem;

namespace {

const char *const crash_rule = R"([[rule]]
name = "crash"
on = "signal"
)";

} // namespace

Lab::Lab() {
    std::string path = (fs::temp_directory_path() / "doctor-test-XXXXXX").string();
    if (!mkdtemp(path.data()))
        throw std::runtime_error("mkdtemp");
    root_ = path;
    write("/proc/sys/kernel/osrelease", "6.1.0-42-amd64\n");
    write("/proc/sys/kernel/arch", "x86_64\n");
    write("/sys/kernel/btf/vmlinux", "\x9f\xeb\x01");
    write("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
    write("/proc/sys/net/core/bpf_jit_enable", "1\n");
    write("/sys/bus/event_source/devices/uprobe/type", "7\n");
    write("/sys/bus/event_source/devices/kprobe/type", "6\n");
    write("/sys/kernel/tracing/events/enable", "X\n");
    write("/proc/sys/kernel/core_pattern", "|/lib/systemd/systemd-coredump %P %u %g %s %t 9223372036854775808 %h\n");
    write("/proc/sys/kernel/core_pipe_limit", "16\n");
    write("/lib/systemd/systemd-coredump", "");
    write("/usr/lib/sysctl.d/50-coredump.conf", "");
    write("/proc/sys/fs/suid_dumpable", "2\n");
    write("/proc/sys/vm/panic_on_oom", "0\n");
    write("/proc/1/oom_score_adj", "-900\n"); // incidentd's
    write("/usr/lib/tmpfiles.d/systemd.conf", "d /var/lib/systemd/coredump 0755 root root 2w\n");
    write("/proc/1/net/unix", "Num       RefCount Protocol Flags    Type St Inode Path\n"
                              "0000000000000000: 00000002 00000000 00000000 0002 01 12 /run/systemd/journal/socket\n"
                              "0000000000000000: 00000002 00000000 00010000 0005 01 13 /run/systemd/coredump\n");
    fs::create_directories(root_ / "var/lib/systemd/coredump");
    fs::create_directories(root_ / "var/log/journal");
    fs::create_directories(root_ / "run/systemd/system");
    fs::create_directories(root_ / "etc/systemd/system/multi-user.target.wants");
    link("/lib/systemd/system/incidentd.service", "/etc/systemd/system/multi-user.target.wants/incidentd.service");
    write("/lib/systemd/system/incidentd.service", "");
    write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    write("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm \n");
    fs::create_directories(root_ / "state/incidents");
    for (const char *directory : {"state", "state/incidents"})
        fs::permissions(root_ / directory, fs::perms::owner_all);
    questions.state = (root_ / "state").string();
    rule(crash_rule);
    add({});
    status = Json::parse(R"({"pid": 1, "state": "running",
        "rules": [{"name": "crash", "state": "active", "reason": "", "source": "/etc/x.toml:1"}], "rule_errors": [],
        "recorder": {"threads_used": 12, "threads_max": 4096, "processes_used": 3, "processes_max": 8192},
        "probes": [{"name": "record_enter", "state": "active", "reason": "", "missed": 0}],
        "losses": [], "incidents": {"committed": 4, "failed": 0}, "analyses": {"failed": 0}})");
    status["version"] = INCIDENTD_VERSION;
}

Lab::~Lab() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
}

void Lab::write(const std::string &path, const std::string &text) const {
    fs::create_directories(fs::path(root_.string() + path).parent_path());
    write_file(root_.string() + path, text);
}

void Lab::link(const std::string &target, const std::string &path) const {
    // Within the made-up host: what is absolute in it is below its root.
    fs::remove(root_.string() + path);
    fs::create_symlink(target.starts_with("/lib/") ? root_.string() + target : target, root_.string() + path);
}

void Lab::remove(const std::string &path) const {
    fs::remove_all(root_.string() + path);
}

void Lab::add(const MadeUpProcess &process) const {
    const std::string directory = fmt::format("/proc/{}", process.pid);
    write(directory + "/stat",
          fmt::format("{} ({}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 "
                      "0 0 0 0 0 0 0 0 0\n",
                      process.pid, process.comm));
    write(
        directory + "/status",
        fmt::format("Name:\t{0}\nUid:\t{1}\t{1}\t{1}\t{1}\nVmSize:\t  99999 kB\nVmRSS:\t  {2} kB\nVmSwap:\t  {3} kB\n",
                    process.comm, process.uid, process.resident_kib, process.swapped_kib));
    write(directory + "/cgroup", process.unit.empty() ? "0::/\n" : "0::/system.slice/" + process.unit + "\n");
    write(directory + "/limits",
          fmt::format("Limit                     Soft Limit           Hard Limit           Units     \n"
                      "Max core file size        {:<20} unlimited            bytes     \n",
                      process.core_limit));
    write(directory + "/coredump_filter", process.core_filter + "\n");
    write(directory + "/cmdline", process.comm);
    write(directory + "/maps", process.maps);
    link(process.exe, directory + "/exe");
}

void Lab::set_up(doctor::Host &host) const {
    host.space = [this](const std::string &) { return std::optional(space); };
    host.clock_synchronized = [this] { return synchronized; };
    host.gid_of_group = [this](const std::string &) { return gid_of_group; };
    host.failed_units = [this] { return failed_units; };
    host.ask = [this](const std::string &state) -> Result<Json> {
        if (status.is_null())
            return fail(Error{"incidentd is not running (no " + state + "/control.sock)", ENOENT});
        return status;
    };
    host.run = [this](const std::vector<std::string> &argv) { return argv[0] == "gdb" ? gdb : dpkg; };
    host.debuginfod_urls = debuginfod_urls;
    host.root_user = root_user;
    host.survey(questions);
}

doctor::Findings Lab::look(doctor::Findings (*check)(const doctor::Host &)) const {
    doctor::Host host(root_.string());
    set_up(host);
    return check(host);
}

doctor::Finding only(const doctor::Findings &findings) {
    EXPECT_EQ(findings.size(), 1u);
    return findings.empty() ? doctor::Finding{doctor::Grade::Unknown, "no finding", {}, {}} : findings.front();
}

} // namespace incident::postmortem::test
