#include "capture/journal/journal.h"

#include "capture/os/mapped_faults.h"

#include <sys/epoll.h>

#include <algorithm>
#include <string_view>

namespace incident::capture {

namespace {

constexpr std::chrono::seconds reopened_after{1};

bool just_opened(std::chrono::steady_clock::time_point at) {
    return std::chrono::steady_clock::now() - at <= reopened_after;
}

} // namespace

Result<Journal> Journal::open(const std::string &directory) {
    Journal journal;
    journal.directory_ = directory;
    journal.watch_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
    if (!journal.watch_)
        return fail(Error::system("watch the journal"));
    if (auto opened = journal.reopen(); !opened)
        return fail(std::move(opened.error()));
    return journal;
}

Status Journal::reopen() {
    const MappedFaults faults;
    sd_journal *opened = nullptr;
    const int r = directory_.empty() ? ::sd_journal_open(&opened, SD_JOURNAL_LOCAL_ONLY)
                                     : ::sd_journal_open_directory(&opened, directory_.c_str(), 0);
    if (r < 0)
        return fail(Error::system("open the journal" + (directory_.empty() ? "" : " in " + directory_), -r));
    std::unique_ptr<sd_journal, Close> fresh(opened);
    const int fd = ::sd_journal_get_fd(opened);
    if (fd < 0)
        return fail(Error::system("watch the journal", -fd));
    epoll_event event{};
    event.events = EPOLLIN;
    journal_.reset(); // closes its descriptor, which leaves the epoll set by itself
    if (::epoll_ctl(watch_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        return fail(Error::system("watch the journal"));
    journal_ = std::move(fresh);
    opened_at_ = std::chrono::steady_clock::now();
    stale_ = false;
    return {};
}

Status Journal::refresh() {
    return just_opened(opened_at_) ? Status() : reopen();
}

Status Journal::process() {
    const MappedFaults faults;
    if (!journal_ || (stale_ && !just_opened(opened_at_)))
        return reopen();
    if (const int r = ::sd_journal_process(journal_.get()); r < 0)
        return fail(Error::system("follow the journal", -r));
    return {};
}

bool Journal::blind() const {
    return directory_.empty() && ::sd_journal_has_runtime_files(journal_.get()) <= 0 &&
           ::sd_journal_has_persistent_files(journal_.get()) <= 0;
}

std::optional<std::string> Journal::field(const char *name, std::size_t most) const {
    const void *data = nullptr;
    std::size_t length = 0;
    if (::sd_journal_get_data(journal_.get(), name, &data, &length) < 0)
        return std::nullopt;
    const std::string_view text(static_cast<const char *>(data), length);
    const std::size_t value = std::string_view(name).size() + 1;
    return std::string(text.substr(std::min(value, text.size()), most));
}

Status Journal::match(std::span<const std::string> all) {
    ::sd_journal_flush_matches(journal_.get());
    return add(all);
}

Status Journal::or_match(std::span<const std::string> all) {
    if (const int r = ::sd_journal_add_disjunction(journal_.get()); r < 0)
        return fail(Error::system("search the journal", -r));
    return add(all);
}

Status Journal::add(std::span<const std::string> all) {
    for (const std::string &match : all)
        if (const int r = ::sd_journal_add_match(journal_.get(), match.data(), match.size()); r < 0)
            return fail(Error::system("search the journal", -r));
    return {};
}

} // namespace incident::capture
