// taken_over PID: tries what an attacker would who runs code in the process that starts it, and prints a line for each
// attempt, "NAME yes" or "NAME no".  PID: a process of root's outside, which sleeps.  Nothing is changed where an
// attempt succeeds.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int other;

static void told(const char *name, int can)
{
    printf("%s %s\n", name, can ? "yes" : "no");
    fflush(stdout);
}

static const char *of_other(const char *file)
{
    static char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", other, file);
    return path;
}

static int opens(const char *path, int flags)
{
    const int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

// In a child: what it does to itself, or to the namespace it is in, ends with it.
static int in_child(int (*what)(void))
{
    const pid_t child = fork();
    if (child == 0)
        _exit(what() ? 0 : 1);
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int connects(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
}

static int creates_in(const char *directory)
{
    char path[256];
    snprintf(path, sizeof path, "%s/taken_over", directory);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return 0;
    close(fd);
    unlink(path);
    return 1;
}

static int traces(void)
{
    return ptrace(PTRACE_SEIZE, other, 0, 0) == 0;
}

static int writes_by_vm(void)
{
    char nothing = 0;
    struct iovec here = {&nothing, 1}, there = {(void *)4096, 1};
    // Nothing is mapped there: EFAULT says that it was allowed.
    return process_vm_writev(other, &here, 1, &there, 1, 0) >= 0 || errno == EFAULT;
}

static int takes_descriptor(void)
{
    const int process = (int)syscall(SYS_pidfd_open, other, 0);
    return process >= 0 && syscall(SYS_pidfd_getfd, process, 0, 0) >= 0;
}

static int loads_program(void)
{
    const struct bpf_insn ends[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0}, {.code = BPF_JMP | BPF_EXIT}};
    union bpf_attr attr = {
        .prog_type = BPF_PROG_TYPE_KPROBE, .insns = (uint64_t)ends, .insn_cnt = 2, .license = (uint64_t) "GPL"};
    attr.kern_version = 0;
    return syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr) >= 0;
}

static int mounts(void)
{
    return mount("none", "/mnt", "tmpfs", 0, NULL) == 0;
}

static int makes_namespace(void)
{
    return unshare(CLONE_NEWNS) == 0;
}

static int enters_namespace(void)
{
    const int ns = open(of_other("ns/mnt"), O_RDONLY | O_CLOEXEC);
    return ns >= 0 && setns(ns, CLONE_NEWNS) == 0;
}

static int changes_root(void)
{
    return chroot("/") == 0;
}

static int loads_module(void)
{
    // An empty image is no module: ENOEXEC says that it was allowed to ask.
    return syscall(SYS_init_module, "", 0, "") == 0 || errno == ENOEXEC || errno == EFAULT;
}

static int makes_device(void)
{
    return mknod("/var/lib/incidentd/taken_over", S_IFBLK | 0600, makedev(254, 0)) == 0;
}

static int sets_clock(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return settimeofday(&now, NULL) == 0;
}

static int reaches_network(void)
{
    return socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_NETLINK, SOCK_RAW, 0) >= 0;
}

static int writes_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

static int becomes_another(void)
{
    return setresgid(1000, 1000, 1000) == 0 && setresuid(1000, 1000, 1000) == 0;
}

static int reads_memory(void)
{
    return opens(of_other("mem"), O_RDONLY);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    other = atoi(argv[1]);
    // what a flight recorder is for
    told("read-memory", reads_memory());
    told("read-file", opens("/etc/shadow", O_RDONLY));
    told("read-kernel-log", opens("/dev/kmsg", O_RDONLY));
    told("signal", kill(other, 0) == 0);
    told("become-another-user", in_child(becomes_another));
    told("load-bpf", loads_program());
    told("write-state", creates_in("/var/lib/incidentd"));
    // what it is not for
    told("write-memory", opens(of_other("mem"), O_WRONLY));
    told("write-memory-by-call", writes_by_vm());
    told("trace", in_child(traces));
    told("take-descriptor", takes_descriptor());
    told("ask-service-manager", connects("/run/systemd/private") || connects("/run/dbus/system_bus_socket"));
    static const char *const directories[] = {"/etc", "/usr", "/root", "/home", "/tmp", "/var/tmp", "/run", "/dev/shm"};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        char name[64];
        snprintf(name, sizeof name, "write-to:%s", directories[i]);
        told(name, creates_in(directories[i]));
    }
    told("write-cgroup", opens("/sys/fs/cgroup/cgroup.procs", O_WRONLY));
    told("write-sysctl", opens("/proc/sys/kernel/core_pattern", O_WRONLY));
    told("sysrq", opens("/proc/sysrq-trigger", O_WRONLY));
    told("open-disk", opens("/dev/vda", O_RDONLY));
    told("open-kernel-memory", opens("/dev/mem", O_RDONLY) || opens("/proc/kcore", O_RDONLY));
    told("make-device", in_child(makes_device));
    told("mount", in_child(mounts));
    told("make-namespace", in_child(makes_namespace));
    told("enter-namespace", in_child(enters_namespace));
    told("change-root", in_child(changes_root));
    told("load-module", loads_module());
    told("set-clock", sets_clock());
    told("reach-network", in_child(reaches_network));
    told("write-code", writes_code());
}
