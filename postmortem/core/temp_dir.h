// A private directory for what must be gone afterwards.
#pragma once

#include "capture/os/result.h"

#include <string>
#include <utility>

namespace incident::postmortem {

class TempDir {
public:
    // In $TMPDIR, else in /var/tmp: a core may be larger than a /tmp in memory.
    static Result<TempDir> make();
    TempDir(TempDir &&other) noexcept : path_(std::exchange(other.path_, "")) {}
    TempDir &operator=(TempDir &&other) noexcept {
        std::swap(path_, other.path_);
        return *this;
    }
    ~TempDir(); // removes it and the files in it

    const std::string &path() const { return path_; }

private:
    TempDir() = default;
    std::string path_;
};

} // namespace incident::postmortem
