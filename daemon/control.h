// <state>/control.sock: one JSON request line, one JSON document back, then the
// connection closes.  Root only (0600 in a 0700 directory).
#pragma once

#include "capture/result.h"
#include "capture/unique_fd.h"

#include <functional>
#include <string>

namespace incident::daemon {

// One daemon a state directory: held until the process ends.
class StateLock {
public:
    static Result<StateLock> take(const std::string &state);

private:
    UniqueFd fd_;
};

class Control {
public:
    // answer(request line) → document.  The caller holds the state's lock.
    static Result<Control> listen(const std::string &state, std::function<std::string(const std::string &)> answer);
    int fd() const { return socket_.get(); }
    void serve(); // one waiting connection; a slow or silent peer is given up after a second

    Control(Control &&) noexcept = default;
    Control &operator=(Control &&) = delete;
    ~Control();

private:
    Control() = default;
    UniqueFd socket_;
    std::string path_;
    std::function<std::string(const std::string &)> answer_;
};

} // namespace incident::daemon
