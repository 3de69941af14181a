#include "daemon/write/build_ids.h"

#include "capture/collect/collectors.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"
#include "capture/os/process_files.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <optional>
#include <set>

namespace incident::daemon {

namespace {

constexpr std::size_t named_max = 3; // of those that could not be read

// Shared by the writer and the thread that reads, which may be left behind in the middle of a file.
struct Reading {
    std::mutex mutex;
    std::map<std::pair<std::string, std::uint64_t>, std::string> known;
    std::optional<std::string> exe;
    std::string under_way;           // what is being read now
    std::vector<std::string> failed; // "PATH: why", the first few
    std::size_t failures = 0;
};

// nullopt: it has ended, or its pid is another's.
std::optional<capture::ProcessDir> still_there(const capture::OsRoots &os, const capture::ProcessRef &process) {
    auto dir = capture::ProcessDir::open(os, process.pid);
    const auto stat = dir ? dir->stat() : Result<capture::ProcStat>(fail(dir.error()));
    if (!stat || !process.is(*stat))
        return std::nullopt;
    dir->find_live_thread(*stat);
    return std::move(*dir);
}

void read_all(Reading &reading, const std::optional<capture::ProcessDir> &process,
              const std::vector<capture::Mapping> &files, const std::string &exe) {
    const int dir = process ? process->live() : -1;
    for (const capture::Mapping &mapping : files) {
        {
            const std::lock_guard lock(reading.mutex);
            reading.under_way = mapping.path;
        }
        const auto file = capture::open_mapped(dir, mapping);
        std::string id = file ? capture::build_id_of_file(file->get()) : std::string();
        const std::lock_guard lock(reading.mutex);
        if (!file) {
            if (++reading.failures <= named_max)
                reading.failed.push_back(fmt::format("{}: {}", mapping.path, file.error().what));
            continue;
        }
        if (mapping.path == exe)
            reading.exe = id;
        reading.known.emplace(std::pair(mapping.path, mapping.inode), std::move(id));
    }
    // Without its mappings: what it executes now, if that is still the program of the incident.
    if (!process || reading.exe)
        return;
    const auto link = capture::read_proc_link(dir, "exe");
    if (!link || (*link != exe && *link != exe + " (deleted)"))
        return;
    if (const auto file = capture::open_executable_of(dir)) {
        std::string id = capture::build_id_of_file(file->get());
        const std::lock_guard lock(reading.mutex);
        reading.exe = std::move(id);
    }
}

} // namespace

BuildIds BuildIds::read(const capture::OsRoots &os, const capture::Subject &subject, const capture::Maps &maps,
                        const std::string &exe, std::chrono::milliseconds patience) {
    const auto begin = capture::Clock::now();
    const capture::ProcessRef process = subject.process;
    const auto deadline = capture::patience_with(subject, patience);
    constexpr std::string_view deleted = " (deleted)";
    std::string program = exe;
    if (program.ends_with(deleted))
        program.resize(program.size() - deleted.size());
    std::vector<capture::Mapping> files;
    std::set<std::pair<std::string, std::uint64_t>> seen;
    for (const capture::Mapping &mapping : maps.all())
        if (mapping.execute && mapping.is_file() && seen.emplace(mapping.path, mapping.inode).second)
            files.push_back(mapping);
    const std::size_t left_out = files.size() > files_max ? files.size() - files_max : 0;
    files.resize(files.size() - left_out);

    auto reading = std::make_shared<Reading>();
    reading->under_way = fmt::format("{}/{}", os.proc, process.pid);
    const auto ran = capture::run_bounded(
        subject,
        [reading, os, process, files, program] { read_all(*reading, still_there(os, process), files, program); },
        begin + deadline, capture::Awaits::File);

    BuildIds ids;
    const std::lock_guard lock(reading->mutex);
    ids.known_ = std::move(reading->known);
    ids.exe_ = reading->exe.value_or("");
    std::string &error = ids.result_.error;
    const auto add = [&](const std::string &text) { error += (error.empty() ? "" : "; ") + text; };
    if (reading->failures) {
        std::string names;
        for (const std::string &failed : reading->failed)
            names += (names.empty() ? "" : ", ") + failed;
        const std::size_t more = reading->failures - reading->failed.size();
        add(fmt::format("no build-id of {} mapped files: {}{}", reading->failures, names,
                        more ? fmt::format(" and {} more", more) : ""));
    }
    if (ran == capture::Ran::Late)
        add(fmt::format("{} did not answer within {} ms: it and those behind it go without", reading->under_way,
                        deadline.count()));
    else if (ran == capture::Ran::Refused)
        add("not begun: too many files read earlier for this process or its user do not answer");
    if (left_out)
        add(fmt::format("{} of {} mapped files were not looked at", left_out, left_out + files_max));
    ids.result_.ok = error.empty();
    ids.result_.us = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(capture::Clock::now() - begin).count());
    return ids;
}

std::string BuildIds::of(const std::string &path, std::uint64_t inode) const {
    const auto found = known_.find({path, inode});
    return found == known_.end() ? std::string() : found->second;
}

} // namespace incident::daemon
