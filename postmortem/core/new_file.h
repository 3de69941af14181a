// A file that gets its name only when it is complete.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <string>

namespace incident::postmortem {

class NewFile {
public:
    // Creates "path.XXXXXX" with mode 0600. The file is removed unless it is published.
    static Result<NewFile> make(const std::string &path);
    NewFile(NewFile &&other) noexcept;
    NewFile &operator=(NewFile &&) = delete;
    ~NewFile();

    int fd() const { return fd_.get(); }
    // With `replace` a file of that name is replaced; without it that is an Error.
    Status publish(const std::string &path, bool replace);

private:
    NewFile() = default;
    UniqueFd fd_;
    std::string temporary_;
};

} // namespace incident::postmortem
