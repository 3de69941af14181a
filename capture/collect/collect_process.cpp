#include "capture/collect/collect_logs.h"
#include "capture/collect/collect_sockets.h"
#include "capture/collect/collectors.h"
#include "capture/container/container.h"
#include "capture/container/host_paths.h"
#include "capture/os/auxv.h"
#include "capture/os/dir_at.h"
#include "capture/os/elf_headers.h"
#include "capture/os/maps.h"
#include "capture/os/number.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <memory>
#include <set>

namespace incident::capture {

namespace {

// What the collectors work on; owned by all of them, see collectors.h.
struct Target {
    OsRoots os;
    ProcessRef process;
    CollectLimits limits;
    ProcessDir dir;
    ProgramRef program;
    std::string own_pid;                   // in the process's own namespace; "" until its status is read
    std::map<std::string, Mapping> mapped; // by path, the files whose code it has mapped
    std::set<std::uint64_t> sockets;       // inodes of those that its descriptors are
    std::string uids;                      // real, effective, saved and of the file system, as status has them
};
using Shared = std::shared_ptr<Target>;

Outcome failed(const Error &error) {
    return {false, error.what, {}};
}

std::string cut_at(const ProcText &text, std::uint64_t cap) {
    if (!text.cut)
        return "";
    return text.bytes.size() >= cap
               ? "cut at " + std::to_string(cap) + " bytes"
               : "cut after " + std::to_string(text.bytes.size()) + " bytes: the process ended or the deadline passed";
}

// Its auxiliary vector is empty then, and never otherwise (fs/proc/base.c, auxv_read()).
bool has_memory(const Target &target) {
    const auto auxv = read_proc_file(target.dir.live(), "auxv", 64);
    return auxv && !auxv->bytes.empty();
}

// A process that ends lets go of its descriptors before it is reaped: /proc/PID/fd is then an empty directory, as that
// of a process without any, and status has a table of size 0 (fs/proc/array.c, task_state()).
bool has_descriptors(const Target &target) {
    const auto status = read_proc_file(target.dir.live(), "status", 64 * 1024);
    std::string_view size;
    return status && (!line_value(status->bytes, "FDSize:", size) || size != "0");
}

// What it means that a file is empty: that the address space is gone, which is a failure to collect it, or nothing.
enum class Empty { IsTrue, IsGone, MayBeGone };

// A file as the kernel prints it.
Collector file(const Shared &target, const char *name, Empty empty = Empty::IsTrue) {
    return {name, [target, name, empty](const Deadline &deadline) {
                const std::uint64_t cap = target->limits.file_cap;
                auto text = read_proc_file(target->dir.live(), name, cap, [&] { return deadline.passed(); });
                if (!text)
                    return failed(text.error());
                if (text->bytes.empty() &&
                    (empty == Empty::IsGone || (empty == Empty::MayBeGone && !has_memory(*target))))
                    return Outcome{false, std::string(name) + ": empty, the process has no memory any more", {}};
                Outcome outcome{true, cut_at(*text, cap), {}};
                outcome.files.emplace_back(std::string("process/") + name, std::move(text->bytes));
                return outcome;
            }};
}

// Also tells the pid the process knows itself by, the last number of "NSpid:", and its users.
Collector status(const Shared &target) {
    return {"status", [target, read = file(target, "status").run](const Deadline &deadline) {
                Outcome outcome = read(deadline);
                std::string_view ids;
                if (!outcome.files.empty() && line_value(outcome.files.front().second, "NSpid:", ids))
                    target->own_pid = ids.substr(ids.find_last_of(" \t") + 1);
                if (!outcome.files.empty() && line_value(outcome.files.front().second, "Uid:", ids))
                    target->uids = ids;
                return outcome;
            }};
}

constexpr std::size_t mapped_max = 512; // a browser maps some 200

std::map<std::string, Mapping> files_with_code(std::string_view text) {
    std::map<std::string, Mapping> files;
    const Maps maps = Maps::parse(text);
    for (const Mapping &mapping : maps.all())
        if (mapping.execute && mapping.is_file() && !mapping.deleted && files.size() < mapped_max)
            files.emplace(mapping.path, mapping);
    return files;
}

// The process may end while its mappings are read.
Collector maps(const Shared &target) {
    return {"maps", [target, read = file(target, "maps", Empty::IsGone).run](const Deadline &deadline) {
                Outcome outcome = read(deadline);
                if (outcome.files.empty() || !outcome.error.empty())
                    return outcome;
                const std::string &text = outcome.files.front().second;
                target->mapped = files_with_code(text);
                const auto own = read_proc_file(AT_FDCWD, (target->os.proc + "/self/maps").c_str(), UINT32_MAX);
                if (own && maps_end_early(text, own->bytes))
                    outcome.error = cut_at({text, true}, target->limits.file_cap);
                return outcome;
            }};
}

// The bytes of a 32-bit process's vdso(7), to which its system calls return and in which its signal handlers end.
Result<std::string> narrow_vdso(const Target &target, std::uint64_t address) {
    constexpr std::size_t vdso_max = 16384; // the kernel's is one or two pages
    const UniqueFd memory(::openat(target.dir.live(), "mem", O_RDONLY | O_CLOEXEC));
    if (!memory)
        return fail(Error::system("its vdso: opening /proc/PID/mem"));
    std::string bytes(vdso_max, '\0');
    const ssize_t got = ::pread(memory.get(), bytes.data(), bytes.size(), static_cast<off_t>(address));
    if (got < 0)
        return fail(Error::system("its vdso: reading /proc/PID/mem"));
    bytes.resize(static_cast<std::size_t>(got));
    // Behind it lies other memory.  Its section headers are the last of it, as own_vdso() says.
    const auto header =
        read_elf_header(reader_of_head({reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size()}));
    if (!header)
        return fail("its vdso: " + header.error().what);
    const std::uint64_t end = header->e_shoff + std::uint64_t{header->e_shnum} * header->e_shentsize;
    bytes.resize(std::min<std::uint64_t>(bytes.size(), end));
    return bytes;
}

// Of a 32-bit process the vdso as well; that of the others is the daemon's own.
Collector auxv(const Shared &target) {
    return {"auxv", [target, read = file(target, "auxv", Empty::IsGone).run](const Deadline &deadline) {
                Outcome outcome = read(deadline);
                if (outcome.files.empty() || !is_narrow_auxv(outcome.files.front().second))
                    return outcome;
                const auto at = auxv_value(outcome.files.front().second, AT_SYSINFO_EHDR);
                if (!at || *at == 0)
                    return outcome;
                auto bytes = narrow_vdso(*target, *at);
                if (bytes)
                    outcome.files.emplace_back(narrow_vdso_file, std::move(*bytes));
                else
                    outcome.error = bytes.error().what;
                return outcome;
            }};
}

Collector link(const Shared &target, const char *name) {
    return {name, [target, name](const Deadline &) {
                auto text = read_proc_link(target->dir.live(), name);
                if (!text)
                    return failed(text.error());
                return Outcome{true, "", {{std::string("process/") + name, std::move(*text)}}};
            }};
}

// "pid pid:[4026531836]", a line each.
Outcome collect_namespaces(const Target &target) {
    const UniqueFd ns(::openat(target.dir.live(), "ns", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!ns)
        return failed(Error::system("ns"));
    auto entries = list_dir(ns.get());
    if (!entries)
        return failed(entries.error());
    std::ranges::sort(*entries, {}, &DirEntry::name);
    Outcome outcome;
    std::string lines;
    for (const DirEntry &entry : *entries)
        if (auto link = read_proc_link(ns.get(), entry.name.c_str()))
            lines += entry.name + " " + *link + "\n";
        else
            outcome.error = link.error().what;
    outcome.ok = !lines.empty();
    if (!outcome.ok && outcome.error.empty())
        outcome.error = "ns: empty, the process has no namespaces any more";
    outcome.files.emplace_back("process/ns", std::move(lines));
    return outcome;
}

// How much of a listing was made, if not all of it.
std::string listed_only(std::size_t done, std::size_t all, const char *what) {
    return done == all ? "" : "cut: " + std::to_string(done) + " of " + std::to_string(all) + " " + what;
}

std::string fd_line(int links, int infos, std::uint32_t number, std::set<std::uint64_t> &sockets) {
    const std::string name = std::to_string(number);
    const auto link = read_proc_link(links, name.c_str());
    if (!link)
        return ""; // closed since it was listed
    if (const std::uint64_t inode = socket_inode(*link))
        sockets.insert(inode);
    std::string line = "{\"fd\":" + name + ",\"target\":" + json_string(*link);
    std::string_view pos, flags;
    const auto info = infos >= 0 ? read_proc_file(infos, name.c_str(), 4096) : fail(std::string());
    if (info && line_value(info->bytes, "pos:", pos) && line_value(info->bytes, "flags:", flags) &&
        pos.find_first_not_of("0123456789") == std::string_view::npos)
        line.append(",\"pos\":").append(pos).append(",\"flags\":").append(json_string(flags));
    return line + "}\n";
}

struct Listed {
    std::vector<std::uint32_t> numbers;
    std::size_t all = 0; // more than numbers, if the kernel said how many there are
    bool whole = false;
};

// A few names at a time: the kernel makes an inode for each descriptor that it lists, and a process may have a million.
Result<Listed> list_fds(int links, const Deadline &deadline) {
    Listed listed;
    alignas(dirent64) char names[4096];
    do {
        const ssize_t bytes = retry([&] { return ::getdents64(links, names, sizeof names); });
        if (bytes < 0)
            return fail(Error::system("fd"));
        listed.whole = bytes == 0;
        for (ssize_t at = 0; at < bytes;) {
            const auto *entry = reinterpret_cast<const dirent64 *>(names + at);
            if (const auto number = whole_number<std::uint32_t>(static_cast<const char *>(entry->d_name)))
                listed.numbers.push_back(*number);
            at += entry->d_reclen;
        }
    } while (!listed.whole && !deadline.passed());
    listed.all = listed.numbers.size();
    struct stat st;
    if (!listed.whole && ::fstat(links, &st) == 0) // since 6.2
        listed.all = std::max(listed.all, static_cast<std::size_t>(st.st_size));
    std::ranges::sort(listed.numbers);
    return listed;
}

// So that those behind it have their time too, it may take half of what is left, and for the list half of that.
Outcome collect_fds(Target &target, const Deadline &deadline) {
    const int at = target.dir.live();
    const UniqueFd links(::openat(at, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!links)
        return failed(Error::system("fd"));
    const UniqueFd infos(::openat(at, "fdinfo", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const Deadline own = deadline.share(2);
    const auto listed = list_fds(links.get(), deadline.share(4));
    if (!listed)
        return failed(listed.error());
    const std::vector<std::uint32_t> &numbers = listed->numbers;
    std::string lines;
    std::size_t done = 0, written = 0;
    for (; done < numbers.size() && done < target.limits.fds; ++done) {
        if (done % 64 == 63 && own.passed())
            break;
        const std::string line = fd_line(links.get(), infos.get(), numbers[done], target.sockets);
        if (lines.size() + line.size() > target.limits.file_cap)
            break;
        lines += line;
        written += !line.empty();
    }
    const bool gone = !has_descriptors(target);
    if (gone && written == 0)
        return {false, "fd: empty, the process has no descriptors any more", {}};
    const std::size_t had = gone ? written : done;
    const char *what = gone ? "descriptors, then the process let go of them" : "descriptors";
    std::string cut = listed->whole || listed->all > numbers.size()
                          ? listed_only(had, listed->all, what)
                          : "cut: " + std::to_string(had) + " of more than " + std::to_string(listed->all) + " " + what;
    return {true, std::move(cut), {{"process/fds", std::move(lines)}}};
}

Outcome collect_comms(const Target &target, const Deadline &deadline) {
    const auto tids = numbers_in(target.dir.fd(), "task");
    if (!tids)
        return failed(tids.error());
    const UniqueFd tasks(::openat(target.dir.fd(), "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::string lines;
    std::size_t done = 0;
    for (; done < tids->size() && done < target.limits.threads; ++done) {
        if (done % 64 == 63 && deadline.passed())
            break;
        const std::string tid = std::to_string((*tids)[done]);
        auto comm = read_proc_file(tasks.get(), (tid + "/comm").c_str(), 256);
        if (!comm)
            continue; // ended since it was listed
        if (comm->bytes.ends_with('\n'))
            comm->bytes.pop_back();
        const std::string line = "{\"tid\":" + tid + ",\"comm\":" + json_string(comm->bytes) + "}\n";
        if (lines.size() + line.size() > target.limits.file_cap)
            break;
        lines += line;
    }
    return {true, listed_only(done, tids->size(), "threads"), {{"process/comms", std::move(lines)}}};
}

Outcome collect_cgroup(const Target &target) {
    const auto text = read_proc_file(target.dir.live(), "cgroup", 64 * 1024);
    if (!text)
        return failed(text.error());
    Outcome outcome;
    outcome.error = collect_cgroup_files(target.os, text->bytes, target.limits.file_cap, outcome.files);
    outcome.ok = !outcome.files.empty();
    if (!outcome.ok && outcome.error.empty())
        outcome.error = "no file of its control group could be read";
    return outcome;
}

// An exiting process stands in "/" of a v1 hierarchy already: then the kernel's word of when it was captured.
Outcome collect_container(const Target &target) {
    const auto text = read_proc_file(target.dir.live(), "cgroup", 64 * 1024);
    std::string cgroup = text ? cgroup_of_text(text->bytes) : "";
    if (cgroup.size() <= 1)
        cgroup = target.limits.cgroup;
    auto container = container_at(cgroup);
    if (!container)
        return {true, "", {}};
    look_up(target.os, *container);
    std::string json;
    for (const auto &[key, value] : {std::pair("id", &container->id),
                                     {"runtime", &container->runtime},
                                     {"name", &container->name},
                                     {"image", &container->image},
                                     {"image_id", &container->image_id},
                                     {"pod", &container->pod},
                                     {"pod_id", &container->pod_id},
                                     {"pod_namespace", &container->pod_namespace},
                                     {"from", &container->from}})
        json += (json.empty() ? "{\"" : ",\"") + std::string(key) + "\":" + json_string(*value);
    return {true, "", {{"process/container", json + "}\n"}}};
}

// A file is the mapped one if it has that inode, and its device; or if the device is that of the mount, for that is an
// overlay's own.  An overlay gives a file the inode that it has in its layer, where its layers are of one file system
// (Documentation/filesystems/overlayfs.rst, "Inode properties").  Where they are not, nothing is said.  Up to 6.1 maps
// has the layer's device.
Outcome collect_host_paths(const Target &target, const Deadline &deadline) {
    const auto mounts = read_proc_file(target.dir.live(), "mountinfo", target.limits.file_cap);
    const auto own = read_proc_file(AT_FDCWD, (target.os.proc + "/self/mountinfo").c_str(), target.limits.file_cap);
    if (!mounts)
        return failed(mounts.error());
    const HostPaths host(parse_mountinfo(mounts->bytes), parse_mountinfo(own ? std::string_view(own->bytes) : ""),
                         read_proc_link(target.dir.live(), "root").value_or("/"));
    Outcome outcome;
    std::string lines;
    for (const auto &[path, mapping] : target.mapped) {
        if (deadline.passed()) {
            outcome.error = "cut: the deadline passed";
            break;
        }
        const auto places = host.of(path);
        const bool of_mount = host.is_on(path, mapping.major, mapping.minor);
        const auto lies_at = [&](const std::string &at, bool any_device) {
            struct stat st;
            return ::stat(at.c_str(), &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == mapping.inode &&
                   (any_device || st.st_dev == makedev(mapping.major, mapping.minor));
        };
        if (places.empty() || lies_at(path, of_mount))
            continue;
        const auto place = std::ranges::find_if(places, [&](const std::string &at) { return lies_at(at, of_mount); });
        if (place != places.end())
            lines += "{\"path\":" + json_string(path) + ",\"inode\":" + std::to_string(mapping.inode) +
                     ",\"host\":" + json_string(*place) + "}\n";
    }
    if (!lines.empty())
        outcome.files.emplace_back("process/host_paths", std::move(lines));
    return outcome;
}

// Whether a file is root's or that of a user whom the process runs as.
bool belongs_to(const struct stat &st, std::string_view uids) {
    const std::string owner = std::to_string(st.st_uid);
    for (std::size_t begin = 0; begin < uids.size();) {
        const std::size_t end = std::min(uids.find_first_of(" \t", begin), uids.size());
        if (uids.substr(begin, end - begin) == owner)
            return true;
        begin = end + 1;
    }
    return st.st_uid == 0;
}

// What a JIT compiler says of its code, by perf's convention (tools/perf/Documentation/jit-interface.txt), in the
// process's own /tmp.  Anybody may put a file there before the process does: no link is followed, and nothing but a
// regular file of root or the process's own user is read.
Outcome collect_perf_map(const Target &target) {
    constexpr std::uint64_t cap = 16u << 20;
    const UniqueFd root(::openat(target.dir.live(), "root", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root)
        return failed(Error::system("root"));
    if (target.own_pid.empty())
        return {false, "its name is not known without the pid that status has", {}};
    const std::string path = "tmp/perf-" + target.own_pid + ".map";
    const UniqueFd file = open_beneath(root.get(), path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (!file && errno == ENOENT)
        return {true, "", {}}; // few processes have one
    struct stat st;
    if (!file || ::fstat(file.get(), &st) != 0)
        return failed(Error::system(path));
    if (!belongs_to(st, target.uids))
        return failed(Error{path + ": of uid " + std::to_string(st.st_uid) + ", not of the process's user", EPERM});
    if (st.st_nlink != 1)
        return failed(Error{path + ": has other names (hard links)", EPERM});
    auto text = read_open_file(file.get(), path, cap);
    if (!text)
        return failed(text.error());
    Outcome outcome;
    outcome.files.emplace_back("process/perf_map", std::move(*text));
    return outcome;
}

constexpr const char *another_program = "the process has executed another program since";

std::string check_start(const Target &target) {
    const auto stat = target.dir.stat();
    if (!stat)
        return stat.error().what;
    if (target.process.is(*stat))
        return "";
    return "pid " + std::to_string(target.process.pid) + " is another process: it started at tick " +
           std::to_string(stat->start_ticks) + ", not " + std::to_string(start_ticks_of(target.process.start));
}

std::string before(Target &target) {
    auto dir = ProcessDir::open(target.os, target.process.pid);
    if (!dir)
        return dir.error().what;
    target.dir = std::move(*dir);
    if (std::string why = check_start(target); !why.empty())
        return why;
    if (const auto stat = target.dir.stat())
        target.dir.find_live_thread(*stat);
    const Program now = target.dir.program();
    if (!target.program.program.known())
        target.program.program = now;
    return target.program.program.may_be(now) ? "" : another_program;
}

// A process that lives on may execute another program at any time, and end before anybody has seen that.
std::string check_program(const Target &target) {
    const auto stat = target.dir.stat();
    if (!stat)
        return "the process has ended meanwhile, and may have executed another program before";
    if (!target.process.is(*stat))
        return check_start(target);
    return target.program.program.may_be(target.dir.program()) ? "" : another_program;
}

// Gone by now is no reason to mistrust what was read: on procfs it came from this
// process or not at all (process_dir.h).
std::string after(const Target &target) {
    const auto stat = target.dir.stat();
    return stat ? check_start(target) : "";
}

} // namespace

// The order: what goes with the address space (exit_mm), with the descriptors
// (exit_files), then what stays until the process is reaped.  smaps_rollup walks the
// page tables, so it stands behind all that is cheap.
void collect_process(const OsRoots &os, const ProcessRef &process, const CollectLimits &limits, Collected &into,
                     const ProgramRef &program) {
    auto target = std::make_shared<Target>(Target{os, process, limits, {}, program});
    std::vector<Collector> collectors{
        maps(target),
        status(target),
        auxv(target),
        file(target, "cmdline", Empty::MayBeGone),
        link(target, "exe"),
        link(target, "cwd"),
        link(target, "root"),
        {"fds", [target](const Deadline &deadline) { return collect_fds(*target, deadline); }},
        {"comms", [target](const Deadline &deadline) { return collect_comms(*target, deadline); }},
        file(target, "limits"),
        file(target, "io"),
        {"ns", [target](const Deadline &) { return collect_namespaces(*target); }},
        file(target, "cgroup"),
        file(target, "oom_score_adj"),
        file(target, "stat"),
        file(target, "mountinfo"),
        {"sockets",
         [target](const Deadline &deadline) {
             constexpr std::uint64_t cap = 8u << 20; // some 50,000 sockets of the namespace
             return collect_sockets(target->dir.live(), target->sockets, cap, deadline.share(2));
         }},
        file(target, "smaps_rollup", Empty::IsGone),
        {"perf_map", [target](const Deadline &) { return collect_perf_map(*target); }},
        {"cgroup_files", [target](const Deadline &) { return collect_cgroup(*target); }},
        {"host_paths", [target](const Deadline &deadline) { return collect_host_paths(*target, deadline); }},
        {"container", [target](const Deadline &) { return collect_container(*target); }},
    };
    if (limits.wants_log)
        collectors.insert(std::ranges::find(collectors, "comms", &Collector::name),
                          {"logs", [target](const Deadline &deadline) {
                               return collect_logs(target->dir.live(), {target->process, target->limits.uid},
                                                   target->limits.wants_log, deadline);
                           }});
    if (limits.environ)
        collectors.insert(collectors.begin() + 4, file(target, "environ", Empty::MayBeGone));
    Checks checks{"process", [target] { return before(*target); }, [target] { return after(*target); }, {}};
    if (!program.last)
        checks.each = [target] { return check_program(*target); };
    run_collectors({process, limits.uid}, std::move(collectors), std::move(checks), limits.deadline, into);
}

} // namespace incident::capture
