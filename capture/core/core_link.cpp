#include "capture/core/core_link.h"

#include "capture/core/core_match.h"
#include "capture/core/stored_core.h"
#include "capture/os/dir_at.h"
#include "capture/os/mapped_faults.h"
#include "capture/os/number.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"
#include "capture/os/users.h"

#include <systemd/sd-id128.h>
#include <systemd/sd-journal.h>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

namespace incident::capture {

namespace {

constexpr const char *MESSAGE_ID = "MESSAGE_ID=fc2e22bc6ee647b6b90729ab34a250b1";
constexpr std::size_t ENTRIES_MAX = 256; // for one pid in one boot, the newest
// How long an entry may lag behind a process that is gone.  With core_pipe_limit set the
// process stays until its entry is sent, then only journald is left to wait for; without
// it compressing and reading the core come after the process.
constexpr std::uint64_t LAG_NS = 5'000'000'000, LAG_UNLIMITED_NS = 60'000'000'000;

constexpr std::chrono::seconds REOPENED_AFTER{1};

struct Close {
    void operator()(sd_journal *journal) const { ::sd_journal_close(journal); }
};
using Journal = std::unique_ptr<sd_journal, Close>;

std::string field(sd_journal *journal, const char *name) {
    const void *data = nullptr;
    std::size_t length = 0;
    if (::sd_journal_get_data(journal, name, &data, &length) < 0)
        return "";
    const std::string_view text(static_cast<const char *>(data), length);
    const std::size_t value = std::string_view(name).size() + 1;
    return std::string(text.substr(std::min(value, text.size())));
}

CoreEntry read_entry(sd_journal *journal) {
    CoreEntry entry = core_entry_of([journal](const char *name) { return field(journal, name); });
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

// The program that the kernel starts for cores, as /proc/PID/exe names it; "" none.
std::string handler_program(const OsRoots &os) {
    const auto pattern = read_proc_file(AT_FDCWD, (os.proc + "/sys/kernel/core_pattern").c_str(), 4096);
    if (!pattern || !pattern->bytes.starts_with("|/"))
        return "";
    std::error_code error;
    return std::filesystem::canonical(pattern->bytes.substr(1, pattern->bytes.find_first_of(" \n") - 1), error);
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
    std::string directory;
    OsRoots os;
    UniqueFd epoll; // holds the journal's inotify descriptor, so that reopening does not change ours
    Journal journal;
    std::chrono::steady_clock::time_point opened_at{};
    bool stale = false; // it remembers of a file what could not be read
    std::optional<std::uint32_t> handler_uid;

    Status open() {
        sd_journal *opened = nullptr;
        // All users' journals: a user's core is logged as that user and goes to theirs.
        const int r = directory.empty() ? ::sd_journal_open(&opened, SD_JOURNAL_LOCAL_ONLY)
                                        : ::sd_journal_open_directory(&opened, directory.c_str(), 0);
        if (r < 0)
            return fail(Error::system("open the journal" + (directory.empty() ? "" : " in " + directory), -r));
        Journal fresh(opened);
        const int fd = ::sd_journal_get_fd(opened);
        if (fd < 0)
            return fail(Error::system("watch the journal", -fd));
        epoll_event event{};
        event.events = EPOLLIN;
        journal.reset(); // closes its descriptor, which leaves the epoll set by itself
        if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0)
            return fail(Error::system("watch the journal"));
        journal = std::move(fresh);
        opened_at = std::chrono::steady_clock::now();
        stale = false;
        return {};
    }

    // Was there nothing to watch when it was opened (journald had never run)?
    bool blind() const {
        return directory.empty() && ::sd_journal_has_runtime_files(journal.get()) <= 0 &&
               ::sd_journal_has_persistent_files(journal.get()) <= 0;
    }

    CoreHandler handler_here() {
        if (!handler_uid) // systemd-coredump may be installed at any time
            handler_uid = uid_of_user("systemd-coredump");
        return {.uid = handler_uid, .exe = handler_program(os), .in_unit = ::access(os.systemd.c_str(), F_OK) == 0};
    }

    // Those that may have been written by systemd-coredump (core_match.cpp) or, without `handler`, by anybody.  However
    // many entries other users send, they do not stand before its own.  What was written before the death is of earlier
    // processes of that number.
    Result<std::vector<CoreEntry>> entries(const DeathIdentity &death, const CoreHandler *handler) {
        const auto failed = [](int r) { return fail(Error::system("search the journal", -r)); };
        ::sd_journal_flush_matches(journal.get());
        std::vector<std::string> matches{MESSAGE_ID, "COREDUMP_PID=" + std::to_string(death.process.pid),
                                         "_BOOT_ID=" + death.boot_id};
        if (handler) { // one of the uids: matches of one field are alternatives
            matches.insert(matches.end(), {"_TRANSPORT=journal", "_UID=0", "_UID=" + std::to_string(death.uid)});
            if (handler->uid)
                matches.push_back("_UID=" + std::to_string(*handler->uid));
        }
        for (const std::string &match : matches)
            if (const int r = ::sd_journal_add_match(journal.get(), match.data(), match.size()); r < 0)
                return failed(r);
        if (const int r = ::sd_journal_seek_tail(journal.get()); r < 0)
            return failed(r);
        std::vector<CoreEntry> found;
        for (std::size_t seen = 0; seen < ENTRIES_MAX; ++seen) {
            const int r = ::sd_journal_previous(journal.get());
            if (r < 0)
                return failed(r);
            if (r == 0)
                break;
            CoreEntry entry = read_entry(journal.get());
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

CoreJournal::CoreJournal() = default;
CoreJournal::CoreJournal(CoreJournal &&) noexcept = default;
CoreJournal &CoreJournal::operator=(CoreJournal &&) noexcept = default;
CoreJournal::~CoreJournal() = default;

Result<CoreJournal> CoreJournal::open(const std::string &directory, const OsRoots &os) {
    CoreJournal journal;
    journal.impl_ = std::make_unique<Impl>();
    journal.impl_->directory = directory;
    journal.impl_->os = os;
    const MappedFaults faults;
    journal.impl_->epoll = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
    if (!journal.impl_->epoll)
        return fail(Error::system("watch the journal"));
    if (auto opened = journal.impl_->open(); !opened)
        return fail(std::move(opened.error()));
    return journal;
}

int CoreJournal::fd() const {
    return impl_->epoll.get();
}

Status CoreJournal::refresh() {
    const MappedFaults faults;
    return std::chrono::steady_clock::now() - impl_->opened_at > REOPENED_AFTER ? impl_->open() : Status();
}

Status CoreJournal::process() {
    const MappedFaults faults;
    if (!impl_->journal || (impl_->stale && std::chrono::steady_clock::now() - impl_->opened_at > REOPENED_AFTER))
        return impl_->open();
    if (const int r = ::sd_journal_process(impl_->journal.get()); r < 0)
        return fail(Error::system("follow the journal", -r));
    return {};
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
    if (entries && entries->empty() && impl_->blind()) {
        if (auto reopened = impl_->open(); !reopened)
            return fail(std::move(reopened.error()));
        entries = impl_->candidates(death, handler);
    }
    impl_->stale |= faults.met();
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
    if (entries->empty() && impl_->blind())
        link.reason = "there is no journal on this host";
    link.dumping = is_dumping(impl_->os, death);
    link.pending = link.dumping || may_still_come(impl_->os, death);
    return link;
}

} // namespace incident::capture
