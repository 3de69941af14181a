#include "daemon/modules/kept_modules.h"

#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"
#include "capture/os/process_files.h"
#include "daemon/os/clocks.h"
#include "rules/model/user.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <unordered_set>

namespace incident::daemon {

namespace {

constexpr std::uint64_t maps_max = 16u << 20; // bytes of /proc/PID/maps
constexpr std::int64_t second = 1'000'000'000;
constexpr std::chrono::seconds give_way_patience{2};

std::int64_t ns_of(const timespec &time) {
    return time.tv_sec * second + time.tv_nsec;
}

bool is_at_its_path(const capture::Mapping &mapping) {
    if (mapping.deleted)
        return false;
    const auto file = capture::open_regular(-1, mapping.path);
    return file && capture::is_mapped_file(file->get(), mapping);
}

} // namespace

MappedFile file_of(const capture::Mapping &mapping) {
    return {mapping.major, mapping.minor, mapping.inode, mapping.path};
}

KeptModules::KeptModules(ModuleStore store) : store_(std::move(store)), copy_most_(store_.most()) {
    counts_.copies = store_.copies();
    counts_.bytes = store_.bytes();
}

// Whether it is that file, unchanged, and its copy, if one could be made, is still there.
bool KeptModules::is_known(const capture::Mapping &mapping, const struct stat &status, std::uint32_t user) {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(file_of(mapping));
    if (found == files_.end() || found->second.size != status.st_size ||
        found->second.changed_ns != ns_of(status.st_ctim) || found->second.modified_ns != ns_of(status.st_mtim))
        return false;
    found->second.used = ++uses_;
    if (!found->second.copy.empty() && used_.size() < files_max)
        used_[found->second.copy] = user;
    return true;
}

void KeptModules::note_uses() {
    const std::unique_lock store_lock(store_mutex_, std::try_to_lock);
    if (!store_lock)
        return;
    std::map<std::string, std::uint32_t> used;
    {
        const std::lock_guard lock(mutex_);
        used.swap(used_);
    }
    for (const auto &[name, user] : used)
        (void)store_.use(name, user, clock_ns(CLOCK_REALTIME) / second);
}

void KeptModules::doubt(std::uint32_t major, std::uint32_t minor, std::uint64_t inode) {
    const std::lock_guard lock(mutex_);
    const auto first = files_.lower_bound({major, minor, inode, ""});
    files_.erase(first, files_.lower_bound({major, minor, inode + 1, ""}));
}

// Holds a place among those who read at the same time.
class KeptModules::Reader {
public:
    Reader(KeptModules &kept, std::uint32_t user, int more) : kept_(kept), user_(user) {
        const std::lock_guard lock(kept_.mutex_);
        int all = 0;
        for (const auto &[one, count] : kept_.readers_)
            all += count;
        const auto own = kept_.readers_.find(user_);
        const int of_user = own == kept_.readers_.end() ? 0 : own->second;
        admitted_ = all < readers_max + more && of_user < readers_of_user + more;
        if (admitted_)
            kept_.readers_[user_] = of_user + 1;
    }
    ~Reader() {
        if (!admitted_)
            return;
        const std::lock_guard lock(kept_.mutex_);
        if (--kept_.readers_[user_] == 0)
            kept_.readers_.erase(user_);
    }
    Reader(const Reader &) = delete;
    Reader &operator=(const Reader &) = delete;
    bool admitted() const { return admitted_; }

private:
    KeptModules &kept_;
    std::uint32_t user_;
    bool admitted_ = false;
};

void KeptModules::remember(const capture::Mapping &mapping, const struct stat &status, std::string copy) {
    files_[file_of(mapping)] = {status.st_size, ns_of(status.st_ctim), ns_of(status.st_mtim), std::move(copy), ++uses_};
    if (files_.size() > files_max)
        files_.erase(std::ranges::min_element(files_, {}, [](const auto &one) { return one.second.used; }));
}

void KeptModules::not_kept(const capture::Mapping &mapping, const Error &why) {
    ++counts_.not_kept;
    counts_.problem = mapping.path + ": " + why.what;
}

// What the store has now, and what it has removed.
void KeptModules::note_store() {
    const auto names = store_.take_removed();
    counts_.copies = store_.copies();
    counts_.bytes = store_.bytes();
    counts_.removed += names.size();
    if (const std::unordered_set<std::string> removed(names.begin(), names.end()); !removed.empty())
        std::erase_if(files_, [&](const auto &one) { return removed.contains(one.second.copy); });
}

std::uint64_t KeptModules::give_way(std::uint64_t bytes) {
    const std::unique_lock store_lock(store_mutex_, give_way_patience);
    if (!store_lock)
        return 0;
    const auto given = store_.give_way(bytes);
    const std::lock_guard lock(mutex_);
    note_store();
    if (!given.problem.empty())
        counts_.problem = given.problem;
    return given.bytes;
}

void KeptModules::copy(int fd, const capture::Mapping &mapping, const struct stat &status, std::uint32_t user) {
    const auto made = capture::copy_module(fd, copy_most_);
    if (!made) {
        const std::lock_guard lock(mutex_);
        remember(mapping, status, "");
        not_kept(mapping, made.error());
        return;
    }
    const std::lock_guard store_lock(store_mutex_);
    const Status kept = store_.keep(*made, user, clock_ns(CLOCK_REALTIME) / second);
    const std::lock_guard lock(mutex_);
    note_store();
    if (kept)
        remember(mapping, status, made->name);
    else // there may be room for it when it is mapped again
        not_kept(mapping, kept.error());
}

Status KeptModules::look_at(const capture::OsRoots &os, const capture::Subject &subject, const Which &which) {
    auto dir = capture::ProcessDir::open(os, subject.process.pid);
    if (!dir)
        return fail(dir.error());
    const auto stat = dir->stat();
    if (!stat)
        return fail(stat.error());
    if (!subject.process.is(*stat))
        return fail("another process has its pid");
    dir->find_live_thread(*stat);
    const auto text = capture::read_proc_file(dir->live(), "maps", maps_max);
    if (!text)
        return fail(text.error());
    const std::uint32_t user = rules::user_of(subject.uid);
    const Reader reader(*this, user, which.gone ? 1 : 0);
    if (!reader.admitted())
        return fail(Error{"is not done: files of its user that are looked at do not answer", EBUSY});
    const auto maps = capture::Maps::parse(text->bytes);
    std::set<MappedFile> seen;
    for (const capture::Mapping &mapping : maps.all()) {
        const bool asked = which.at.value == 0 || (which.at >= mapping.start && which.at < mapping.end);
        if (!asked || !mapping.execute || !mapping.is_file() || seen.size() >= looked_at_max ||
            !seen.insert(file_of(mapping)).second || (which.gone && is_at_its_path(mapping)))
            continue;
        const auto file = capture::open_mapped(dir->live(), mapping);
        struct stat status {};
        if (!file || ::fstat(file->get(), &status) != 0) {
            const std::lock_guard lock(mutex_);
            not_kept(mapping, file ? Error::system("fstat") : file.error());
        } else if (!is_known(mapping, status, user)) {
            copy(file->get(), mapping, status, user);
        }
    }
    if (which.at.value != 0 && seen.empty())
        return fail("no code of a file is mapped there any more");
    return {};
}

std::string KeptModules::copy_of(const capture::Mapping &mapping) const {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(file_of(mapping));
    return found == files_.end() ? std::string() : found->second.copy;
}

KeptModules::Counts KeptModules::counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
}

} // namespace incident::daemon
