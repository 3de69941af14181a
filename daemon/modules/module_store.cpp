#include "daemon/modules/module_store.h"

#include "capture/bundle/manifest.h"
#include "capture/modules/kept_name.h"
#include "capture/os/dir_at.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <tuple>

namespace incident::daemon {

namespace {

constexpr std::string_view unfinished = ".part";
constexpr std::uint64_t farthest = 64ull << 30; // of a piece, or what reads the whole file would never end
constexpr std::uint64_t block = 512;            // of st_blocks
constexpr std::uint64_t disk_page = 4096;       // what a piece takes at least
constexpr std::uint64_t touched_every_s = 3600; // a file is not touched more often than that

// What a copy takes on disk, before it is there: each piece lies in pages of its own.
std::uint64_t on_disk(const capture::ModuleCopy &copy) {
    std::uint64_t bytes = 0;
    for (const auto &piece : copy.pieces)
        bytes += (piece.offset % disk_page + piece.bytes.size() + disk_page - 1) / disk_page * disk_page;
    return bytes;
}

std::uint64_t free_of(int directory) {
    struct statvfs status {};
    return ::fstatvfs(directory, &status) == 0 ? std::uint64_t{status.f_bavail} * status.f_frsize : 0;
}

} // namespace

Result<ModuleStore> ModuleStore::open(const std::string &directory, ModuleBudget budget, FreeBytes free_bytes) {
    if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
        return fail(Error::system(directory));
    UniqueFd opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    struct stat status {};
    if (!opened || ::fstat(opened.get(), &status) != 0)
        return fail(Error::system(directory));
    if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return fail(directory + ": others may write to it");
    if (!free_bytes)
        free_bytes = [fd = opened.get()] { return free_of(fd); };
    ModuleStore store(std::move(opened), budget, std::move(free_bytes));
    if (auto read = store.read(); !read)
        return fail(std::move(read.error()).in(directory));
    if (auto room = store.make_room(0, nobody); !room)
        return fail(std::move(room.error()).in(directory));
    return store;
}

Status ModuleStore::read() {
    const auto entries = capture::list_dir(directory_.get());
    if (!entries)
        return fail(entries.error());
    for (const auto &entry : *entries) {
        struct stat status {};
        if (entry.name.ends_with(unfinished)) {
            if (::unlinkat(directory_.get(), entry.name.c_str(), 0) != 0)
                return fail(Error::system(entry.name));
        } else if (capture::is_kept_name(entry.name) &&
                   ::fstatat(directory_.get(), entry.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                   S_ISREG(status.st_mode)) {
            const Copy copy{.bytes = static_cast<std::uint64_t>(status.st_blocks) * block,
                            .used_s = static_cast<std::uint64_t>(status.st_mtim.tv_sec)};
            bytes_ += copy.bytes;
            copies_.emplace(entry.name, copy);
        }
    }
    return {};
}

// What nobody has needed since the start goes first; then of the user who has most, the coming copy with them.
class ModuleStore::Queue {
public:
    Queue(const Copies &copies, std::uint64_t coming, std::uint32_t user) {
        for (const auto &[name, copy] : copies) {
            Of &of = users_[copy.user];
            of.bytes += copy.bytes;
            of.copies.emplace_back(copy.used_s, copy.bytes, name);
        }
        for (auto &[one, of] : users_)
            std::ranges::sort(of.copies, std::greater{}); // the next to go is the last
        if (const auto found = users_.find(user); found != users_.end())
            found->second.bytes += coming;
    }
    bool empty() const { return users_.empty(); }
    std::string pop() {
        auto next = users_.find(nobody);
        if (next == users_.end())
            next = std::ranges::max_element(users_, {}, [](const auto &one) { return one.second.bytes; });
        const auto [used_s, bytes, name] = std::move(next->second.copies.back());
        next->second.copies.pop_back();
        next->second.bytes -= bytes;
        if (next->second.copies.empty())
            users_.erase(next);
        return name;
    }

private:
    struct Of {
        std::uint64_t bytes = 0;
        std::vector<std::tuple<std::uint64_t, std::uint64_t, std::string>> copies; // used_s, bytes, name
    };
    std::map<std::uint32_t, Of> users_;
};

// Whether incidents find as much room, beyond what is left to others, as all copies take with this one.
bool ModuleStore::leaves_enough(std::uint64_t bytes) const {
    const std::uint64_t free = free_bytes_();
    return free >= budget_.keep_free && free - budget_.keep_free >= bytes && //
           free - budget_.keep_free - bytes >= bytes_ + bytes;
}

Status ModuleStore::remove(const std::string &name) {
    if (::unlinkat(directory_.get(), name.c_str(), 0) != 0 && errno != ENOENT)
        return fail(Error::system(name));
    const auto found = copies_.find(name);
    bytes_ -= found->second.bytes;
    copies_.erase(found);
    removed_.push_back(name);
    return {};
}

Status ModuleStore::make_room(std::uint64_t bytes, std::uint32_t user) {
    if (bytes > budget_.bytes)
        return fail(fmt::format("it takes {} bytes, [budget] modules allows {} for all", bytes, budget_.bytes));
    if (bytes_ + bytes > budget_.bytes)
        for (Queue queue(copies_, bytes, user); bytes_ + bytes > budget_.bytes;)
            if (auto removed = remove(queue.pop()); !removed) // there is one, for they take something
                return removed;
    if (bytes > 0 &&
        !leaves_enough(bytes)) // what is there stays: else copies would take each other's place without end
        return fail("what the disk has free beyond [budget] keep_free is left to incidents");
    return {};
}

ModuleStore::Given ModuleStore::give_way(std::uint64_t bytes) {
    Given given;
    const std::uint64_t before = bytes_;
    for (Queue queue(copies_, 0, nobody); !queue.empty() && before - bytes_ < bytes;)
        if (auto removed = remove(queue.pop()); !removed)
            given.problem = removed.error().what;
    given.bytes = before - bytes_;
    return given;
}

Status ModuleStore::write(const capture::ModuleCopy &copy) {
    const std::string part = copy.name + std::string(unfinished);
    const UniqueFd file(::openat(directory_.get(), part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file)
        return fail(Error::system(part));
    const auto written = [&]() -> Status {
        for (const auto &piece : copy.pieces) {
            if (::lseek(file.get(), static_cast<off_t>(piece.offset), SEEK_SET) < 0)
                return fail(Error::system(part));
            if (auto done = capture::write_all(file.get(), capture::bytes_of_text(piece.bytes)); !done)
                return done;
        }
        // Else a power cut may leave an empty file of that name.
        if (::fdatasync(file.get()) != 0 ||
            ::renameat(directory_.get(), part.c_str(), directory_.get(), copy.name.c_str()) != 0)
            return fail(Error::system(part));
        return {};
    }();
    if (!written)
        (void)::unlinkat(directory_.get(), part.c_str(), 0); // the next start removes it otherwise
    return written;
}

Status ModuleStore::keep(const capture::ModuleCopy &copy, std::uint32_t user, std::uint64_t now_s) {
    if (::faccessat(directory_.get(), copy.name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0 && use(copy.name, user, now_s))
        return {};
    if (const auto lost = copies_.find(copy.name); lost != copies_.end()) { // somebody has removed it
        bytes_ -= lost->second.bytes;
        copies_.erase(lost);
    }
    const std::uint64_t bytes = on_disk(copy);
    if (copy.pieces.back().offset > farthest)
        return fail("it has what is to be kept too far behind its beginning");
    if (auto room = make_room(bytes, user); !room)
        return room;
    if (auto written = write(copy); !written)
        return written;
    copies_[copy.name] = {.bytes = bytes, .used_s = now_s, .user = user};
    bytes_ += bytes;
    return {};
}

void ModuleStore::set_used(const std::string &name, Copy &copy, std::uint64_t now_s) {
    if (now_s > copy.used_s + touched_every_s) // for the next life
        (void)::utimensat(directory_.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    copy.used_s = std::max(copy.used_s, now_s);
}

bool ModuleStore::use(const std::string &name, std::uint32_t user, std::uint64_t now_s) {
    const auto found = copies_.find(name);
    if (found == copies_.end())
        return false;
    set_used(name, found->second, now_s);
    // Who maps what others have mapped before does not take it on.
    found->second.user = std::min(found->second.user, user);
    return true;
}

} // namespace incident::daemon
