// A file that appears under its name only when it is whole.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <string>

namespace incident::postmortem {

class NewFile {
public:
    // Beside path, as "path.XXXXXX", 0600; gone again unless published.
    static Result<NewFile> make(const std::string &path);
    NewFile(NewFile &&other) noexcept;
    NewFile &operator=(NewFile &&) = delete;
    ~NewFile();

    int fd() const { return fd_.get(); }
    // replace: one of that name, else that is an Error.
    Status publish(const std::string &path, bool replace);

private:
    NewFile() = default;
    UniqueFd fd_;
    std::string temporary_;
};

} // namespace incident::postmortem
