#include "capture/os/process_dir.h"

#include "capture/os/dir_at.h"
#include "capture/os/number.h"
#include "capture/os/proc_file.h"

#include <fcntl.h>

#include <algorithm>

namespace incident::capture {

Result<ProcessDir> ProcessDir::open(const OsRoots &os, std::uint32_t pid) {
    ProcessDir process;
    const std::string path = os.proc + "/" + std::to_string(pid);
    process.dir_ = UniqueFd(retry([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!process.dir_)
        return fail(Error::system(path));
    return process;
}

namespace {

Result<ProcStat> stat_in(int dir) {
    auto text = read_proc_file(dir, "stat", 4096);
    if (!text)
        return fail(std::move(text.error()));
    auto stat = parse_proc_stat(text->bytes);
    if (!stat)
        return fail("stat: not understood");
    return std::move(*stat);
}

} // namespace

Result<ProcStat> ProcessDir::stat() const {
    return stat_in(fd());
}

Program ProcessDir::program() const {
    const auto stat = stat_in(live());
    return stat ? program_of(*stat) : Program();
}

void ProcessDir::find_live_thread(const ProcStat &stat) {
    if (stat.state != 'Z' || stat.threads < 2)
        return;
    const auto tids = numbers_in(fd(), "task");
    for (const std::uint32_t tid : tids ? *tids : std::vector<std::uint32_t>()) {
        const std::string path = "task/" + std::to_string(tid);
        UniqueFd task(::openat(fd(), path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!task)
            continue;
        const auto its = stat_in(task.get());
        if (its && its->state != 'Z' && its->state != 'X') {
            live_ = std::move(task);
            return;
        }
    }
}

Result<std::vector<std::uint32_t>> numbers_in(int dir, const char *path) {
    const UniqueFd at(retry([&] { return ::openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!at)
        return fail(Error::system(path));
    std::vector<std::uint32_t> numbers;
    // Without a list of names in between: a process may have a million descriptors.
    const Status read = for_each_entry(at.get(), [&](const char *name, unsigned char) {
        if (const auto number = whole_number<std::uint32_t>(name))
            numbers.push_back(*number);
    });
    if (!read)
        return fail(Error(read.error()).in(path));
    std::ranges::sort(numbers);
    return numbers;
}

} // namespace incident::capture
