// A private directory for temporary files, which is removed afterwards.
#pragma once

#include "capture/os/result.h"

#include <string>
#include <utility>

namespace incident::postmortem {

class TempDir {
public:
    // Creates it in $TMPDIR, or in /var/tmp: a core may be too large for a /tmp in memory.
    static Result<TempDir> make();
    TempDir(TempDir &&other) noexcept : path_(std::exchange(other.path_, "")) {}
    TempDir &operator=(TempDir &&other) noexcept {
        std::swap(path_, other.path_);
        return *this;
    }
    ~TempDir(); // removes the directory and the files in it

    const std::string &path() const { return path_; }

private:
    TempDir() = default;
    std::string path_;
};

} // namespace incident::postmortem
