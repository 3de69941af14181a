#include "capture/bundle/bundle.h"
#include "capture/bundle/bundle_name.h"
#include "capture/bundle/bundle_writer.h"
#include "capture/os/dir_at.h"

#include <cstdio>

namespace incident::capture {

PartialBundle::PartialBundle(PartialBundle &&) noexcept = default;

PartialBundle &PartialBundle::operator=(PartialBundle &&other) noexcept {
    if (this != &other) {
        std::swap(parent_, other.parent_);
        std::swap(dir_, other.dir_);
        std::swap(name_, other.name_);
        std::swap(files_, other.files_);
    }
    return *this;
}

PartialBundle::~PartialBundle() {
    // A failure leaves a directory that recover() removes.
    if (dir_)
        (void)remove_tree(parent_.get(), std::string(PARTIAL_PREFIX) + name_);
}

Status PartialBundle::add(std::string_view path, std::span<const std::uint8_t> bytes) {
    if (!dir_)
        return fail("bundle " + name_ + " is committed already");
    auto entry = write_bundle_file(dir_.get(), path, bytes);
    if (!entry)
        return fail(std::move(entry.error()).in(name_));
    files_.push_back(std::move(*entry));
    return {};
}

Status PartialBundle::add(std::string_view path, std::string_view text) {
    return add(path, std::span(reinterpret_cast<const std::uint8_t *>(text.data()), text.size()));
}

Status PartialBundle::commit() {
    if (!dir_)
        return fail("bundle " + name_ + " is committed already");
    if (auto sealed = seal_bundle(dir_.get(), files_); !sealed)
        return fail(std::move(sealed.error()).in(name_));
    // Not over another bundle: a directory that is not empty is never replaced (rename(2)),
    // so this needs no RENAME_NOREPLACE, which not every file system has.
    const std::string partial = std::string(PARTIAL_PREFIX) + name_;
    if (::renameat(parent_.get(), partial.c_str(), parent_.get(), name_.c_str()) != 0)
        return fail(Error::system("commit " + name_));
    dir_.reset();
    files_.clear();
    if (retry([&] { return ::fsync(parent_.get()); }) != 0)
        return fail(Error::system("committed, but not known to be on disk: flush the directory of " + name_));
    return {};
}

} // namespace incident::capture
