// <state>/control.sock: one JSON request line, one JSON document back, then the
// connection closes.  Root only (0600 in a 0700 directory).  Nothing here waits for a peer: each
// connection goes on when its descriptor is ready, within a time and a size of its own.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <chrono>
#include <functional>
#include <list>
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
    static constexpr std::size_t connections_max = 16;
    static constexpr std::size_t request_max = 4096;           // bytes
    static constexpr std::chrono::milliseconds patience{5000}; // for all of a connection

    // answer(request line) → document.  The caller holds the state's lock.
    static Result<Control> listen(const std::string &state, std::function<std::string(const std::string &)> answer,
                                  std::chrono::milliseconds patience = Control::patience);
    // Readable when there is something to do for any connection.
    int fd() const { return ready_.get(); }
    // Does what can be done without waiting.  A peer that is slow, silent or does not read is given up when its
    // time is over; where there are too many, the one that has been at it longest makes room for the next.
    void serve();
    std::size_t connections() const { return peers_.size(); }

    Control(Control &&) noexcept = default;
    Control &operator=(Control &&) = delete;
    ~Control();

private:
    struct Peer {
        UniqueFd socket;
        std::chrono::steady_clock::time_point until;
        std::string request, reply;
        std::size_t sent = 0;
        bool answered = false;
    };
    Control() = default;
    void accept_all();
    bool proceed(Peer &peer); // false: it is over
    bool read_request(Peer &peer);
    void wait_for(const Peer &peer, bool to_write);
    void give_up_late();

    UniqueFd socket_, timer_, ready_; // ready_: an epoll of the others
    std::string path_;
    std::function<std::string(const std::string &)> answer_;
    std::chrono::milliseconds patience_{};
    std::list<Peer> peers_; // oldest first
};

} // namespace incident::daemon
