#include "capture/collect/collectors.h"
#include "capture/container/container.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <mutex>

namespace incident::capture {

namespace {

constexpr std::uint64_t CMDLINE_CAP = 16 * 1024;
// cmdline waits for the process's mmap_lock: of a process that hangs, for ever.
constexpr std::chrono::milliseconds CMDLINE_WAIT{50};

std::string read_cmdline(const Subject &subject, UniqueFd dir) {
    struct Shared {
        std::mutex mutex;
        std::string text;
    };
    auto shared = std::make_shared<Shared>();
    auto held = std::make_shared<UniqueFd>(std::move(dir));
    const Ran ran = run_bounded(
        subject,
        [shared, held] {
            if (auto text = read_proc_file(held->get(), "cmdline", CMDLINE_CAP)) {
                const std::lock_guard lock(shared->mutex);
                shared->text = std::move(text->bytes);
            }
        },
        Clock::now() + CMDLINE_WAIT);
    if (ran != Ran::Done)
        return "";
    const std::lock_guard lock(shared->mutex);
    std::string text = std::move(shared->text);
    while (text.ends_with('\0'))
        text.pop_back();
    std::ranges::replace(text, '\0', ' ');
    return text;
}

// "Uid:": real, effective, saved, file system.
bool take_uids(std::string_view status, ProcessIdentity &into) {
    std::string_view uids;
    if (!line_value(status, "Uid:", uids))
        return false;
    const char *end = uids.data() + uids.size();
    const auto real = std::from_chars(uids.data(), end, into.real_uid);
    if (real.ec != std::errc() || real.ptr == end)
        return false;
    return std::from_chars(real.ptr + 1, end, into.uid).ec == std::errc();
}

Result<ProcessIdentity> identify_once(const OsRoots &os, std::uint32_t pid, bool &same) {
    auto dir = ProcessDir::open(os, pid);
    if (!dir)
        return fail(std::move(dir.error()));
    const auto stat = dir->stat();
    if (!stat)
        return fail(Error(stat.error()).in("process " + std::to_string(pid)));
    dir->find_live_thread(*stat);

    ProcessIdentity identity;
    identity.program = dir->program();
    identity.comm = stat->comm;
    identity.start_ticks = stat->start_ticks;
    // Kernel threads have no exe; " (deleted)" stays, as the kernel says it.
    identity.exe = read_proc_link(dir->live(), "exe").value_or("");
    if (const auto cgroup = read_proc_file(dir->fd(), "cgroup", 64 * 1024)) {
        identity.cgroup = cgroup_of_text(cgroup->bytes);
        identity.unit = unit_of_cgroup(identity.cgroup);
        identity.container = container_of_cgroup(identity.cgroup);
    }
    const auto status = read_proc_file(dir->fd(), "status", 64 * 1024);
    if (!status || !take_uids(status->bytes, identity)) // else it would be taken for root's
        return fail("process " + std::to_string(pid) + ": ended while it was looked at");
    UniqueFd live(::openat(dir->live(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (live)
        identity.cmdline = read_cmdline({{pid, {}}, identity.uid}, std::move(live));
    same = identity.program.may_be(dir->program());
    return identity;
}

} // namespace

Result<ProcessIdentity> identify(const OsRoots &os, std::uint32_t pid) {
    constexpr int tries = 4;
    for (int i = 0; i < tries; ++i) {
        bool same = false;
        auto identity = identify_once(os, pid, same);
        if (!identity || same)
            return identity;
    }
    return fail("process " + std::to_string(pid) + ": executes one program after the other");
}

Program program_of(const OsRoots &os, const ProcessRef &process) {
    auto dir = ProcessDir::open(os, process.pid);
    const auto stat = dir ? dir->stat() : Result<ProcStat>(fail(dir.error()));
    if (!stat || !process.is(*stat))
        return {};
    dir->find_live_thread(*stat);
    return dir->program();
}

} // namespace incident::capture
