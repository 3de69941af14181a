#include "capture/core/core_link.h"

#include "capture/core/core_handler.h"
#include "capture/core/core_match.h"
#include "capture/core/stored_core.h"
#include "capture/journal/journal.h"
#include "capture/journal/message_ids.h"
#include "capture/os/dir_at.h"
#include "capture/os/mapped_faults.h"
#include "capture/os/number.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"

#include <systemd/sd-id128.h>
#include <systemd/sd-journal.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace incident::capture {

namespace {

constexpr std::size_t ENTRIES_MAX = 256; // for one pid in one boot, the newest
// How long an entry may lag behind a process that is gone.  With core_pipe_limit set the
// process stays until its entry is sent, then only journald is left to wait for; without
// it compressing and reading the core come after the process.
constexpr std::uint64_t LAG_NS = 5'000'000'000, LAG_UNLIMITED_NS = 60'000'000'000;

std::string field(const Journal &journal, const char *name) {
    return journal.field(name, core_field_max).value_or("");
}

CoreEntry read_entry(const Journal &from) {
    CoreEntry entry = core_entry_of([&from](const char *name) { return field(from, name); });
    sd_journal *const journal = from.get();
    char *cursor = nullptr;
    if (::sd_journal_get_cursor(journal, &cursor) >= 0)
        entry.cursor = cursor;
    ::free(cursor);
    std::uint64_t written_us = 0;
    (void)::sd_journal_get_realtime_usec(journal, &written_us);
    entry.written = {written_us * 1000};
    sd_id128_t boot{}; // one of the matches
    std::uint64_t written_at_us = 0;
    if (::sd_journal_get_monotonic_usec(journal, &written_at_us, &boot) >= 0)
        entry.written_at = {written_at_us * 1000};
    return entry;
}

// Where the core is, or why there is none.
void resolve_file(const OsRoots &os, const CoreEntry &entry, CoreLink &link) {
    link.truncated = entry.truncated;
    if (entry.file.empty()) {
        link.reason += entry.embedded ? "; the core is inside the journal entry (Storage=journal)"
                                      : "; no core was stored (Storage=none, or larger than ExternalSizeMax)";
        return;
    }
    // Our reader runs as root and will open what stands here.
    const auto stored = find_stored_core(os, entry.file);
    if (!stored && stored.error().code != ENOENT) {
        link.reason += "; not to be opened: " + stored.error().what;
        return;
    }
    link.file = entry.file;
    if (stored)
        link.file_bytes = stored->bytes;
    else
        link.reason += "; core file vacuumed since";
    if (link.truncated)
        link.reason += "; the core is truncated";
}

bool is_dumping(const OsRoots &os, const DeathIdentity &death) {
    const auto dir = ProcessDir::open(os, death.process.pid);
    if (!dir)
        return false;
    const auto stat = dir->stat();
    const auto status = read_proc_file(dir->fd(), "status", 64 * 1024);
    std::string_view dumping;
    return stat && death.process.is(*stat) && status && line_value(status->bytes, "CoreDumping:", dumping) &&
           dumping == "1";
}

bool may_still_come(const OsRoots &os, const DeathIdentity &death) {
    const auto limit = read_proc_file(AT_FDCWD, (os.proc + "/sys/kernel/core_pipe_limit").c_str(), 64);
    const bool waits = limit && limit->bytes != "0\n";
    return WallTime::now() < death.time + (waits ? LAG_NS : LAG_UNLIMITED_NS);
}

} // namespace

struct CoreJournal::Impl {
    Impl(OsRoots roots, Journal opened) : os(std::move(roots)), journal(std::move(opened)) {}

    OsRoots os;
    Journal journal;
    std::optional<std::uint32_t> handler_uid;

    CoreHandler handler_here() {
        CoreHandler handler = core_handler_here(os, handler_uid);
        handler_uid = handler.uid;
        return handler;
    }

    // Those that may have been written by systemd-coredump (core_match.cpp) or, without `handler`, by anybody.  However
    // many entries other users send, they do not stand before its own.  What was written before the death is of earlier
    // processes of that number.
    Result<std::vector<CoreEntry>> entries(const DeathIdentity &death, const CoreHandler *handler) {
        const auto failed = [](int r) { return fail(Error::system("search the journal", -r)); };
        std::vector<std::string> matches{std::string("MESSAGE_ID=") + core_dumped_id,
                                         "COREDUMP_PID=" + std::to_string(death.process.pid),
                                         "_BOOT_ID=" + death.boot_id};
        if (handler) { // one of the uids: matches of one field are alternatives
            matches.insert(matches.end(), {"_TRANSPORT=journal", "_UID=0", "_UID=" + std::to_string(death.uid)});
            if (handler->uid)
                matches.push_back("_UID=" + std::to_string(*handler->uid));
        }
        if (auto matched = journal.match(matches); !matched)
            return fail(std::move(matched.error()));
        if (const int r = ::sd_journal_seek_tail(journal.get()); r < 0)
            return failed(r);
        std::vector<CoreEntry> found;
        for (std::size_t seen = 0; seen < ENTRIES_MAX; ++seen) {
            const int r = ::sd_journal_previous(journal.get());
            if (r < 0)
                return failed(r);
            if (r == 0)
                break;
            CoreEntry entry = read_entry(journal);
            if (!is_older(entry, death))
                found.push_back(std::move(entry));
        }
        return found;
    }

    // What there is of systemd-coredump; if there is nothing, what others wrote, of which the reason will tell.
    Result<std::vector<CoreEntry>> candidates(const DeathIdentity &death, const CoreHandler &handler) {
        auto found = entries(death, &handler);
        return found && found->empty() ? entries(death, nullptr) : std::move(found);
    }
};

CoreJournal::CoreJournal(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CoreJournal::CoreJournal(CoreJournal &&) noexcept = default;
CoreJournal &CoreJournal::operator=(CoreJournal &&) noexcept = default;
CoreJournal::~CoreJournal() = default;

Result<CoreJournal> CoreJournal::open(const std::string &directory, const OsRoots &os) {
    auto journal = Journal::open(directory);
    if (!journal)
        return fail(std::move(journal.error()));
    return CoreJournal(std::make_unique<Impl>(os, std::move(*journal)));
}

int CoreJournal::fd() const {
    return impl_->journal.fd();
}

Status CoreJournal::refresh() {
    return impl_->journal.refresh();
}

Status CoreJournal::process() {
    return impl_->journal.process();
}

Result<CoreLink> CoreJournal::find(const DeathIdentity &death) {
    if (sd_id128_t id; ::sd_id128_from_string(death.boot_id.c_str(), &id) < 0)
        return fail("not a boot id: \"" + death.boot_id + "\"");
    const MappedFaults faults;
    // New files (rotation, a user's first entry) are seen only after this.
    if (auto fresh = process(); !fresh)
        return fail(std::move(fresh.error()));
    const CoreHandler handler = impl_->handler_here();
    auto entries = impl_->candidates(death, handler);
    if (entries && entries->empty() && impl_->journal.blind()) {
        if (auto reopened = impl_->journal.reopen(); !reopened)
            return fail(std::move(reopened.error()));
        entries = impl_->candidates(death, handler);
    }
    if (faults.met())
        impl_->journal.mark_stale();
    if (!entries)
        return fail(std::move(entries.error()));
    if (faults.met() && entries->empty())
        return fail("the journal cannot be read: a page of its files is not to be had");

    CoreMatch match = match_core(death, *entries, handler);
    CoreLink link;
    link.join = match.join;
    link.reason = std::move(match.reason);
    link.rejected = std::move(match.rejected);
    if (match.entry) {
        link.journal_cursor = match.entry->cursor;
        resolve_file(impl_->os, *match.entry, link);
        return link;
    }
    if (entries->empty() && impl_->journal.blind())
        link.reason = "there is no journal on this host";
    link.dumping = is_dumping(impl_->os, death);
    link.pending = link.dumping || may_still_come(impl_->os, death);
    return link;
}

} // namespace incident::capture
