#include "capture/collect/hanging.h"

#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"

#include <charconv>

namespace incident::capture {

namespace {

template <typename Key> int count(const std::map<Key, int> &counts, const Key &key) {
    const auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
}

template <typename Key> void count_down(std::map<Key, int> &counts, const Key &key) {
    if (const auto found = counts.find(key); found != counts.end() && --found->second == 0)
        counts.erase(found);
}

} // namespace

Subject subject_of(const OsRoots &os, std::uint32_t pid) {
    Subject subject{{pid, {}}, 0};
    const auto dir = ProcessDir::open(os, pid);
    const auto status = dir ? read_proc_file(dir->fd(), "status", 64 * 1024) : fail(dir.error());
    std::string_view uids; // the first is the real one
    if (status && line_value(status->bytes, "Uid:", uids))
        (void)std::from_chars(uids.data(), uids.data() + uids.size(), subject.uid);
    return subject;
}

bool Hanging::full(const Subject &subject) const {
    const std::lock_guard lock(mutex_);
    if (subject.process.pid == 0)
        return of_host_ >= host_max;
    return of_users_ >= users_max || count(of_user_, subject.uid) >= user_max ||
           count(of_process_, subject.process) >= process_max;
}

int Hanging::of_user(const Subject &subject) const {
    const std::lock_guard lock(mutex_);
    return subject.process.pid == 0 ? of_host_ : count(of_user_, subject.uid);
}

void Hanging::add(const Subject &subject) {
    const std::lock_guard lock(mutex_);
    if (subject.process.pid == 0) {
        ++of_host_;
        return;
    }
    ++of_users_;
    ++of_user_[subject.uid];
    ++of_process_[subject.process];
}

void Hanging::remove(const Subject &subject) {
    const std::lock_guard lock(mutex_);
    if (subject.process.pid == 0) {
        --of_host_;
        return;
    }
    --of_users_;
    count_down(of_user_, subject.uid);
    count_down(of_process_, subject.process);
}

} // namespace incident::capture
