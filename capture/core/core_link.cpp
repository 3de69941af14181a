#include "capture/core/core_link.h"

#include "capture/core/core_match.h"
#include "capture/os/dir_at.h"
#include "capture/os/number.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"

#include <systemd/sd-id128.h>
#include <systemd/sd-journal.h>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

namespace incident::capture {

namespace {

constexpr const char *MESSAGE_ID = "MESSAGE_ID=fc2e22bc6ee647b6b90729ab34a250b1";
constexpr std::size_t ENTRIES_MAX = 64; // for one pid in one boot, the newest
// How long an entry may lag behind a process that is gone.  With core_pipe_limit set the
// process stays until its entry is sent, then only journald is left to wait for; without
// it compressing and reading the core come after the process.
constexpr std::uint64_t LAG_NS = 5'000'000'000, LAG_UNLIMITED_NS = 60'000'000'000;

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
    CoreEntry entry;
    char *cursor = nullptr;
    if (::sd_journal_get_cursor(journal, &cursor) >= 0)
        entry.cursor = cursor;
    ::free(cursor);
    const auto wall = [](std::uint64_t us) { return WallTime{us * 1000}; };
    std::uint64_t written_us = 0;
    (void)::sd_journal_get_realtime_usec(journal, &written_us);
    entry.written = wall(written_us);
    entry.signal = whole_number<int>(field(journal, "COREDUMP_SIGNAL")).value_or(0);
    entry.uid = whole_number<std::uint32_t>(field(journal, "COREDUMP_UID"));
    entry.exe = field(journal, "COREDUMP_EXE");
    entry.auxv = field(journal, "COREDUMP_PROC_AUXV");
    entry.death = wall(whole_number<std::uint64_t>(field(journal, "COREDUMP_TIMESTAMP")).value_or(0));
    entry.file = field(journal, "COREDUMP_FILENAME");
    entry.truncated = field(journal, "COREDUMP_TRUNCATED") == "1";
    entry.embedded = entry.file.empty() && !field(journal, "COREDUMP").empty();
    entry.writer_uid = whole_number<std::uint32_t>(field(journal, "_UID"));
    entry.writer_exe = field(journal, "_EXE");
    return entry;
}

// Where the core is, or why there is none.
void resolve_file(const OsRoots &os, const CoreEntry &entry, CoreLink &link) {
    const std::string_view file = entry.file;
    link.truncated = entry.truncated;
    if (file.empty()) {
        link.reason += entry.embedded ? "; the core is inside the journal entry (Storage=journal)"
                                      : "; no core was stored (Storage=none, or larger than ExternalSizeMax)";
        return;
    }
    // Our reader runs as root and will open what stands here.
    const std::string below = os.coredump + "/";
    if (!file.starts_with(below) || file.find('/', below.size()) != std::string_view::npos ||
        file.size() == below.size() || file.find('\0') != std::string_view::npos) {
        link.reason += "; the entry names a file outside " + os.coredump;
        return;
    }
    link.file = file;
    struct stat st;
    if (::fstatat(AT_FDCWD, link.file.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
        link.reason += errno == ENOENT ? "; core file vacuumed since" : Error::system("; core file").what;
    else if (!S_ISREG(st.st_mode))
        link.reason += "; the core file is not a regular file";
    else
        link.file_bytes = static_cast<std::uint64_t>(st.st_size);
    if (link.truncated)
        link.reason += "; the core is truncated";
}

bool dump_under_way(const OsRoots &os, const DeathIdentity &death) {
    if (const auto dir = ProcessDir::open(os, death.process.pid)) {
        const auto stat = dir->stat();
        const auto status = read_proc_file(dir->fd(), "status", 64 * 1024);
        std::string_view dumping;
        if (stat && death.process.is(*stat) && status && line_value(status->bytes, "CoreDumping:", dumping) &&
            dumping == "1")
            return true;
    }
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
        return {};
    }

    // Was there nothing to watch when it was opened (journald had never run)?
    bool blind() const {
        return directory.empty() && ::sd_journal_has_runtime_files(journal.get()) <= 0 &&
               ::sd_journal_has_persistent_files(journal.get()) <= 0;
    }

    Result<std::vector<CoreEntry>> entries(const DeathIdentity &death) {
        const auto failed = [](int r) { return fail(Error::system("search the journal", -r)); };
        ::sd_journal_flush_matches(journal.get());
        for (const std::string &match : {std::string(MESSAGE_ID), "COREDUMP_PID=" + std::to_string(death.process.pid),
                                         "_BOOT_ID=" + death.boot_id})
            if (const int r = ::sd_journal_add_match(journal.get(), match.data(), match.size()); r < 0)
                return failed(r);
        if (const int r = ::sd_journal_seek_tail(journal.get()); r < 0)
            return failed(r);
        std::vector<CoreEntry> found;
        while (found.size() < ENTRIES_MAX) {
            const int r = ::sd_journal_previous(journal.get());
            if (r < 0)
                return failed(r);
            if (r == 0)
                break;
            found.push_back(read_entry(journal.get()));
        }
        return found;
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

Status CoreJournal::process() {
    if (!impl_->journal)
        return impl_->open();
    if (const int r = ::sd_journal_process(impl_->journal.get()); r < 0)
        return fail(Error::system("follow the journal", -r));
    return {};
}

Result<CoreLink> CoreJournal::find(const DeathIdentity &death) {
    if (sd_id128_t id; ::sd_id128_from_string(death.boot_id.c_str(), &id) < 0)
        return fail("not a boot id: \"" + death.boot_id + "\"");
    // New files (rotation, a user's first entry) are seen only after this.
    if (auto fresh = process(); !fresh)
        return fail(std::move(fresh.error()));
    auto entries = impl_->entries(death);
    if (entries && entries->empty() && impl_->blind()) {
        if (auto reopened = impl_->open(); !reopened)
            return fail(std::move(reopened.error()));
        entries = impl_->entries(death);
    }
    if (!entries)
        return fail(std::move(entries.error()));

    CoreMatch match = match_core(death, *entries);
    CoreLink link;
    link.join = match.join;
    link.reason = std::move(match.reason);
    if (match.entry) {
        link.journal_cursor = match.entry->cursor;
        resolve_file(impl_->os, *match.entry, link);
        return link;
    }
    if (entries->empty() && impl_->blind())
        link.reason = "there is no journal on this host";
    link.pending = dump_under_way(impl_->os, death);
    return link;
}

} // namespace incident::capture
