#include "postmortem/core/new_file.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace incident::postmortem {

Result<NewFile> NewFile::make(const std::string &path) {
    NewFile file;
    file.temporary_ = path + ".XXXXXX";
    file.fd_ = UniqueFd(mkostemp(file.temporary_.data(), O_CLOEXEC)); // 0600
    if (!file.fd_) {
        const int code = errno;
        file.temporary_.clear();
        return fail(Error::system("cannot create " + path, code));
    }
    return file;
}

NewFile::NewFile(NewFile &&other) noexcept
    : fd_(std::move(other.fd_)), temporary_(std::exchange(other.temporary_, std::string())) {}

NewFile::~NewFile() {
    if (!temporary_.empty())
        unlink(temporary_.c_str());
}

Status NewFile::publish(const std::string &path, bool replace) {
    // link() refuses to overwrite, which rename() cannot be told to everywhere.
    const int result = replace ? rename(temporary_.c_str(), path.c_str()) : link(temporary_.c_str(), path.c_str());
    if (result != 0)
        return fail(Error::system("cannot create " + path));
    if (!replace)
        unlink(temporary_.c_str());
    temporary_.clear();
    return {};
}

} // namespace incident::postmortem
