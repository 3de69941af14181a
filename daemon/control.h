// <state>/control.sock: one JSON request line, one JSON document back, then the
// connection closes.  Root only (0600 in a 0700 directory).
#pragma once

#include "capture/result.h"
#include "capture/unique_fd.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace incident::daemon {

// The life of incidentd before this one.
struct PastLife {
    std::uint32_t pid = 0;
    bool stopped = false;    // by an orderly end
    std::int64_t seen_s = 0; // when it ended, or was last known to run, by the wall clock; StateLock::alive()
};

// One daemon a state directory: held until the process ends.  Its file says who records, or who did and
// stopped, so that the next one knows from when on nothing was recorded.
class StateLock {
public:
    static Result<StateLock> take(const std::string &state);
    const std::optional<PastLife> &before() const { return before_; }
    Status begin();
    void alive();   // now; a kill is dated by the last of these
    void release(); // the orderly end

private:
    Status write(std::string_view state);
    UniqueFd fd_;
    std::optional<PastLife> before_;
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
