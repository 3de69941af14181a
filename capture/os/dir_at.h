// Opens files and directories relative to directory descriptors.  It never follows a symbolic link and never leaves the
// tree.  The reader and the writer of bundles and the collectors use it.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace incident::capture {

// Opens path beneath dir; no component may be a symbolic link, "..", or lead out
// (openat2, or component by component where the kernel or a seccomp filter refuses
// it).  O_CLOEXEC is added.  The result is -1 with errno set on failure.
UniqueFd open_beneath(int dir, std::string_view path, int flags, mode_t mode = 0);

// Reads a whole regular file.  More than cap bytes are an Error with EFBIG.  A FIFO, device or directory in its place
// is an Error too, and never blocks.
Result<std::string> read_regular(int dir, std::string_view path, std::uint64_t cap);

// Reads an open regular file from its beginning; `name` is its name in errors.
Result<std::string> read_open_file(int fd, std::string_view name, std::uint64_t cap);

// Writes all bytes, or fails.
Status write_all(int fd, std::span<const std::uint8_t> bytes);
// Fills `into` with the bytes of a file from offset on, or fails: also if the file ends before.
Status read_all_at(int fd, std::uint64_t offset, std::span<char> into);

// Runs `call` again while it fails with EINTR.
template <typename Call> auto retry(Call call) {
    for (;;) {
        auto value = call();
        if (value >= 0 || errno != EINTR)
            return value;
    }
}

struct DirEntry {
    std::string name;
    unsigned char type; // DT_*; never DT_UNKNOWN unless stat failed
};

// Calls entry(name, type) for each entry of an open directory, in no particular order and
// without "." and ".."; type is a DT_*.  The descriptor's own position is left alone, so
// that readers may share it.
Status for_each_entry(int dir, const std::function<void(const char *name, unsigned char type)> &entry);
Result<std::vector<DirEntry>> list_dir(int dir);

// Removes parent/name and everything below it.  It is no error if there is nothing.
Status remove_tree(int parent, const std::string &name);

} // namespace incident::capture
