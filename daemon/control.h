// <state>/control.sock: one JSON request line, one JSON document back, then the
// connection closes.  Root only (0600 in a 0700 directory).
#pragma once

#include "capture/result.h"
#include "capture/unique_fd.h"

#include <functional>
#include <optional>
#include <string>

namespace incident::daemon {

// A life of incidentd that ended without stopping.
struct LostLife {
    std::uint32_t pid = 0;
    std::int64_t seen_s = 0; // when it was last known to run, by the wall clock; StateLock::alive()
};

// One daemon a state directory: held until the process ends.  Its file says who records and is
// emptied by an orderly end, so that the next one knows what was not recorded.
class StateLock {
public:
    static Result<StateLock> take(const std::string &state);
    const std::optional<LostLife> &before() const { return before_; }
    Status begin();
    void alive();   // now; a kill is dated by the last of these
    void release(); // the orderly end

private:
    UniqueFd fd_;
    std::optional<LostLife> before_;
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
