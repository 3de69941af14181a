// Searches for the binaries of probes: on the host, in the roots of processes, and among their mappings.
#include "daemon/watch/latency/latency_probes.h"

#include "daemon/probe/elf_soname.h"
#include "rules/text/suggest.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::daemon {

namespace {

constexpr std::size_t looked_max = 4096;

// The file that a process has in the sight of a probe's end, if any.
Result<TargetFile> find_in(const capture::OsRoots &os, std::uint32_t pid, const ProbePoint &point, bool on_host,
                           Sonames &sonames) {
    if (point.bare())
        return open_mapped(os, pid, point.binary, sonames);
    // What stands on the host is looked at there; a process may still execute what stood there before.
    return on_host ? open_deleted_executable(os, pid, point.binary) : open_in_root_of(os, pid, point.binary);
}

// "libz.so.1" → "libz.so"
std::string_view without_version(std::string_view library) {
    const std::size_t suffix = library.find(".so");
    return suffix == library.npos ? library : library.substr(0, suffix + 3);
}

// With what the linker's cache knows under that name in another version, or spelt a little differently.
std::string not_mapped(const std::string &library) {
    std::string text = fmt::format("no process it is looked for in has mapped '{}' yet", library);
    const auto known = cached_sonames();
    if (std::ranges::find(known, library) != known.end())
        return text;
    const auto same = std::ranges::find_if(
        known, [&](const std::string &name) { return without_version(name) == without_version(library); });
    constexpr std::size_t telling = 6; // "lib" and three letters: an application's own library resembles many
    const std::string near = same != known.end() ? *same : rules::nearest(library, known);
    if (same != known.end() || (!near.empty() && near.substr(0, telling) == library.substr(0, telling)))
        text += fmt::format("; did you mean '{}'?", near);
    return text;
}

} // namespace

// Names what a process runs, so that its like need not be looked at again.
std::string LatencyProbes::executable_of(const Probe &probe, std::uint32_t pid) const {
    const auto identity = identify_executable(tools_.os, pid);
    return identity ? fmt::format("{} {} {}", probe.index, identity->device, identity->inode) : std::string();
}

// What stands at its absolute paths now, one for each end; an empty one where nothing is to be asked.
std::vector<FileQuestion> LatencyProbes::questions_on_host(Probe &probe, std::uint64_t now) {
    std::vector<FileQuestion> questions(probe.ends.size());
    for (std::size_t i = 0; i < probe.ends.size(); ++i) {
        auto &end = probe.ends[i];
        const bool changed = end.drop_changed(tools_);
        if (end.point().bare()) {
            if (!end.found() && probe.problem[i].empty())
                probe.problem[i] = not_mapped(end.point().binary);
            continue;
        }
        if (now < probe.silent_until_ns[i])
            continue;
        questions[i] = [path = end.point().binary, before = changed ? std::nullopt : probe.seen[i]]() -> FileAnswer {
            const auto identity = identify_on_host(path);
            if (!identity)
                return fail(identity.error());
            if (before == *identity)
                return std::nullopt;
            auto file = open_on_host(path);
            if (!file)
                return fail(file.error());
            return std::move(*file);
        };
    }
    return questions;
}

void LatencyProbes::hear_from_host(Probe &probe, std::size_t i, FileAnswer answer, std::uint64_t now) {
    auto &end = probe.ends[i];
    if (!answer) {
        const bool silent = answer.error().code == ETIMEDOUT;
        probe.silent_until_ns[i] = silent ? now + retry_ns : 0;
        probe.seen[i].reset();
        if (silent)
            probe.problem[i] = fmt::format("{} {}", end.point().binary, answer.error().what);
        else if (!end.found())
            probe.problem[i] = answer.error().what;
        return;
    }
    if (!*answer)
        return;
    probe.seen[i] = (*answer)->identity;
    const auto added = end.add(std::move(**answer), tools_);
    probe.problem[i] = added ? "" : added.error().what;
}

// The file as a process has it: in its own root, or among its mappings.
std::vector<FileQuestion> LatencyProbes::questions_about(const Probe &probe, std::uint32_t pid) const {
    const std::uint64_t space = mount_namespace(tools_.os, std::to_string(pid));
    const bool on_host = space == 0 || space == own_namespace_;
    std::vector<FileQuestion> questions;
    questions.reserve(probe.ends.size());
    for (const auto &end : probe.ends)
        questions.push_back(
            [os = tools_.os, pid, point = end.point(), on_host, sonames = tools_.sonames]() -> FileAnswer {
                auto file = find_in(os, pid, point, on_host, *sonames);
                if (!file)
                    return fail(file.error());
                return std::move(*file);
            });
    return questions;
}

// false: it is to be looked for again, for the process may map it later.
bool LatencyProbes::hear_from(Probe &probe, std::size_t i, FileAnswer answer) {
    auto &end = probe.ends[i];
    if (!answer) {
        const bool silent = answer.error().code == ETIMEDOUT; // hangs, and is not asked again
        if (silent && !end.found())
            probe.problem[i] = fmt::format("a process's {} {}", end.point().binary, answer.error().what);
        return silent || !end.point().bare();
    }
    const auto added = end.add(std::move(**answer), tools_);
    if (!end.found() && !added)
        probe.problem[i] = added.error().what;
    else if (added)
        probe.problem[i].clear();
    return true;
}

void LatencyProbes::look(const std::vector<Looking> &wanted, std::uint64_t now) {
    struct Asked {
        std::size_t which, end;
        bool of_host;
    };
    std::vector<Asked> asked;
    std::vector<FileQuestion> questions;
    for (std::size_t which = 0; which < wanted.size(); ++which) {
        const auto &[probe, on_host, pid, attempt] = wanted[which];
        const auto add = [&](std::vector<FileQuestion> more, bool of_host) {
            for (std::size_t end = 0; end < more.size(); ++end)
                if (more[end]) {
                    asked.push_back({which, end, of_host});
                    questions.push_back(std::move(more[end]));
                }
        };
        if (on_host)
            add(questions_on_host(*probe, now), true);
        if (pid)
            add(questions_about(*probe, *pid), false);
    }
    auto answers = ask_all(std::move(questions), look_patience);
    std::vector<bool> again(wanted.size(), false);
    for (std::size_t i = 0; i < asked.size(); ++i) {
        const auto &[which, end, of_host] = asked[i];
        Probe &probe = *wanted[which].probe;
        if (!answers[i])
            again[which] = again[which] || (!of_host && probe.ends[end].point().bare());
        else if (of_host)
            hear_from_host(probe, end, std::move(*answers[i]), now);
        else if (!hear_from(probe, end, std::move(*answers[i])))
            again[which] = true;
    }
    for (std::size_t which = 0; which < wanted.size(); ++which) {
        const auto &[probe, on_host, pid, attempt] = wanted[which];
        if (!pid)
            continue;
        if (!again[which]) {
            if (looked_.size() >= looked_max)
                looked_.clear();
            if (const auto exe = executable_of(*probe, *pid); !exe.empty())
                looked_.emplace(mount_namespace(tools_.os, std::to_string(*pid)), exe);
        } else if (attempt < static_cast<int>(look_again_ns.size()) && lookups_.size() < lookups_max) {
            lookups_.push_back(
                {*pid, probe->index, now + look_again_ns[static_cast<std::size_t>(attempt)], attempt + 1});
        }
    }
}

} // namespace incident::daemon
