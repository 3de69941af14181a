#include "capture/core/nearby_cores.h"

#include "capture/journal/message_ids.h"
#include "capture/os/mapped_faults.h"
#include "capture/os/number.h"

#include <fmt/format.h>
#include <systemd/sd-id128.h>

#include <algorithm>

namespace incident::capture {

namespace {

constexpr std::size_t entries_looked_at = 1024;

// By what systemd-coredump says of the process, which counts if it was systemd-coredump that said it.
std::vector<std::string> matches_for(const Speaker &speaker) {
    std::vector<std::string> all{std::string("MESSAGE_ID=") + core_dumped_id, "_TRANSPORT=journal"};
    if (!speaker.unit.empty() && speaker.user)
        all.insert(all.end(),
                   {"COREDUMP_USER_UNIT=" + speaker.unit, fmt::format("COREDUMP_OWNER_UID={}", *speaker.user)});
    else if (!speaker.unit.empty())
        all.push_back("COREDUMP_UNIT=" + speaker.unit);
    else if (speaker.has_cgroup())
        all.push_back("COREDUMP_CGROUP=" + speaker.cgroup);
    else
        all.clear();
    return all;
}

// Signed, because the clocks of entries may be set.
std::int64_t before_ns(std::uint64_t now, std::uint64_t then) {
    return static_cast<std::int64_t>(now - then);
}

} // namespace

NearbyCores find_nearby_cores(Journal &journal, const Speaker &speaker, const CoreHandler &handler,
                              MonotonicTime instant, WallTime time, std::chrono::nanoseconds within,
                              std::chrono::milliseconds deadline) {
    NearbyCores found;
    const auto matches = matches_for(speaker);
    if (matches.empty() || !journal.get() || journal.blind())
        return found;
    const auto end = std::chrono::steady_clock::now() + deadline;
    const MappedFaults faults;
    const auto problem = [&](std::string what) { found.problem = std::move(what); };
    if (auto matched = journal.match(matches); !matched) {
        problem(std::move(matched.error().what));
        return found;
    }
    (void)::sd_journal_set_data_threshold(journal.get(), core_field_max);
    const auto field = [&](const char *name) { return journal.field(name, core_field_max).value_or(""); };
    int r = ::sd_journal_seek_tail(journal.get());
    for (std::size_t looked = 0; r >= 0; ++looked) {
        if (looked == entries_looked_at || std::chrono::steady_clock::now() >= end) {
            problem("older cores were not looked for: too many entries, or the deadline passed");
            break;
        }
        if (r = ::sd_journal_previous(journal.get()); r <= 0)
            break;
        std::uint64_t written_us = 0, at_us = 0;
        sd_id128_t boot{};
        if (::sd_journal_get_realtime_usec(journal.get(), &written_us) < 0 ||
            ::sd_journal_get_monotonic_usec(journal.get(), &at_us, &boot) < 0)
            continue;
        char id[SD_ID128_STRING_MAX];
        const bool this_boot = speaker.boot_id == ::sd_id128_to_string(boot, id);
        const std::int64_t before =
            this_boot ? before_ns(instant.ns, at_us * 1000) : before_ns(time.ns, written_us * 1000);
        if (before > within.count())
            break;
        const CoreEntry entry = core_entry_of(field);
        if (!written_by_handler(entry, handler))
            continue;
        if (before < 0) // the incident's own, or of what happened after it
            continue;
        if (found.cores.size() == NearbyCores::most) {
            ++found.more;
            continue;
        }
        found.cores.push_back({.at = entry.death.ns ? entry.death : WallTime{written_us * 1000},
                               .pid = whole_number<std::uint32_t>(field("COREDUMP_PID")).value_or(0),
                               .signal = entry.signal,
                               .exe = entry.exe,
                               .comm = field("COREDUMP_COMM"),
                               .file = entry.file});
    }
    if (r < 0)
        problem(Error::system("search the journal", -r).what);
    if (faults.met()) {
        journal.mark_stale();
        problem("a page of the journal's files is not to be had");
    }
    std::ranges::reverse(found.cores);
    return found;
}

} // namespace incident::capture
