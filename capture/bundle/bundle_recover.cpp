// Finishes or removes what an interrupted writer left, by the prefix of its directory:
//
//   .partial-X   whole and X not there: only the rename was missing; else removed.
//   .amend-X     either the finished successor of X, not yet exchanged with it, or the
//                old X, already exchanged: the MANIFEST written later is the successor
//                (seal_bundle() makes the times differ).  Not whole: removed.
//   .replaced-X  only without RENAME_EXCHANGE: X put aside.  X not there: the successor
//                takes its place if it is whole, else the old one goes back.
//   .removed-X   removal under way; X pinned meanwhile: it goes back.
#include "capture/bundle/bundle.h"
#include "capture/bundle/bundle_name.h"
#include "capture/bundle/bundle_writer.h"
#include "capture/bundle/manifest.h"
#include "capture/os/dir_at.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

namespace incident::capture {

namespace {

class Recovery {
public:
    explicit Recovery(int dir) : dir_(dir) {}

    Status partial(const std::string &name, const std::string &left) {
        if (exists(name))
            return drop(left, "a bundle of that name is committed");
        const auto why = flaw(left);
        if (!why)
            return fail(why.error());
        if (!why->empty())
            return drop(left, "interrupted before it was whole (" + *why + ")");
        return rename(left, name, "finished " + name + ": only its rename was missing");
    }

    Status amended(const std::string &name, const std::string &left) {
        const auto why = flaw(left);
        if (!why)
            return fail(why.error());
        if (!why->empty())
            return drop(left, "amendment interrupted before it was whole, or old version left over");
        if (!exists(name))
            return exists(std::string(REPLACED_PREFIX) + name) ? rename(left, name, "finished the amendment of " + name)
                                                               : drop(left, "its bundle was removed");
        if (!newer(left, name))
            return drop(left, "old version left over from an amendment");
        auto old = replace_directory(dir_, left, name);
        if (!old)
            return fail(std::move(old.error()));
        said.push_back("finished the amendment of " + name);
        return remove_tree(dir_, *old);
    }

    Status replaced(const std::string &name, const std::string &left) {
        if (exists(name))
            return drop(left, "old version left over from an amendment");
        return rename(left, name, "put back " + name + ": its amendment was interrupted");
    }

    Status removed(const std::string &name, const std::string &left) {
        if (!exists(name) && exists(std::string(PINNED_PREFIX) + name))
            return rename(left, name, "put back " + name + ": it is pinned");
        return drop(left, "removal interrupted");
    }

    Status drop(const std::string &left, const std::string &why) {
        said.push_back("removed " + left + ": " + why);
        return remove_tree(dir_, left);
    }

    std::vector<std::string> said;

private:
    bool exists(const std::string &name) const {
        return ::faccessat(dir_, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    }

    // First thing wrong with the bundle in this directory; "" if it is whole.  An Error
    // (no descriptors left, say) tells nothing about it: it is not to be removed then.
    Result<std::string> flaw(const std::string &left) const {
        const UniqueFd dir(::openat(dir_, left.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!dir && errno != ENOTDIR && errno != ELOOP)
            return fail(Error::system("open " + left));
        if (!dir)
            return "not a directory";
        auto problems = verify_directory(dir.get());
        if (!problems)
            return fail(std::move(problems.error()));
        return problems->empty() ? "" : problems->front();
    }

    bool newer(const std::string &left, const std::string &name) const {
        struct stat a, b;
        const std::string manifest = "/" + std::string(MANIFEST_NAME);
        if (::fstatat(dir_, (left + manifest).c_str(), &a, AT_SYMLINK_NOFOLLOW) != 0)
            return false;
        if (::fstatat(dir_, (name + manifest).c_str(), &b, AT_SYMLINK_NOFOLLOW) != 0)
            return true;
        return a.st_mtim.tv_sec != b.st_mtim.tv_sec ? a.st_mtim.tv_sec > b.st_mtim.tv_sec
                                                    : a.st_mtim.tv_nsec > b.st_mtim.tv_nsec;
    }

    Status rename(const std::string &left, const std::string &name, std::string done) {
        if (::renameat(dir_, left.c_str(), dir_, name.c_str()) != 0)
            return fail(Error::system("rename " + left));
        said.push_back(std::move(done));
        return {};
    }

    int dir_;
};

} // namespace

Result<std::vector<std::string>> IncidentsDir::recover() {
    auto entries = list_dir(dir_.get());
    if (!entries)
        return fail(std::move(entries.error()).in(path_));
    std::ranges::sort(*entries, {}, &DirEntry::name);
    Recovery recovery(dir_.get());
    // In this order: what .replaced-X needs depends on what became of .amend-X.
    for (const std::string_view prefix : {AMEND_PREFIX, REPLACED_PREFIX, PARTIAL_PREFIX, REMOVED_PREFIX})
        for (const DirEntry &entry : *entries) {
            if (!entry.name.starts_with(prefix))
                continue;
            const std::string name = entry.name.substr(prefix.size());
            const Status done = !parse_bundle_name(name)    ? recovery.drop(entry.name, "not a bundle")
                                : prefix == AMEND_PREFIX    ? recovery.amended(name, entry.name)
                                : prefix == REPLACED_PREFIX ? recovery.replaced(name, entry.name)
                                : prefix == PARTIAL_PREFIX  ? recovery.partial(name, entry.name)
                                                            : recovery.removed(name, entry.name);
            // One that cannot be dealt with does not keep the others from it.
            if (!done)
                recovery.said.push_back("left " + entry.name + ": " + done.error().what);
        }
    const auto pins = pinned();
    if (!pins)
        return fail(pins.error());
    for (const std::string &name : *pins)
        if (::faccessat(dir_.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
            (void)set_pinned(name, false); // removed by hand
    if (!recovery.said.empty() && retry([&] { return ::fsync(dir_.get()); }) != 0)
        return fail(Error::system("flush " + path_));
    return std::move(recovery.said);
}

} // namespace incident::capture
