// Serves <state>/control.sock.  A client sends one line of JSON, gets one JSON document, and the connection closes.
// Only root can connect (0600 in a 0700 directory).  Nothing here waits for a client: each connection goes on when its
// descriptor is ready, and has a limit of time and of size.
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

// What is known of the incidentd that ran before this one.
struct PastLife {
    std::uint32_t pid = 0;
    bool stopped = false;    // it ended in good order
    std::int64_t seen_s = 0; // when it ended, or was last known to run, by the wall clock; StateLock::alive()
};

// Lets only one daemon use a state directory; the lock is held until the process ends.  Its file says which process
// records, or which one did and stopped, so that the next one knows since when nothing was recorded.
class StateLock {
public:
    static Result<StateLock> take(const std::string &state);
    const std::optional<PastLife> &before() const { return before_; }
    Status begin();
    void alive();   // notes the time; if the daemon is killed, the last note dates its end
    void release(); // notes that the daemon ends in good order

private:
    Status write(std::string_view state);
    UniqueFd fd_;
    std::optional<PastLife> before_;
};

// What a request asks for: the "verb" of its JSON object; "" if it is no such object.
std::string requested_verb(const std::string &request);

class Control {
public:
    static constexpr std::size_t connections_max = 16;
    static constexpr std::size_t request_max = 4096;           // bytes
    static constexpr std::chrono::milliseconds patience{5000}; // for a whole connection
    static constexpr std::chrono::milliseconds rest{100};      // after descriptors or memory were short

    // answer: makes the document for a request line.  The caller holds the lock of the state directory.
    static Result<Control> listen(const std::string &state, std::function<std::string(const std::string &)> answer,
                                  std::chrono::milliseconds patience = Control::patience);
    // Readable when a connection has something to do.
    int fd() const { return ready_.get(); }
    // Does what can be done without waiting.  A client that is slow or silent is given up when its time is over.  If
    // there are too many clients, the oldest one is dropped for the next.
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
    bool proceed(Peer &peer); // false: the connection is over
    bool read_request(Peer &peer);
    void wait_for(const Peer &peer, bool to_write);
    void give_up_late();
    void rest_if_short(int error);
    void watch_socket(bool on);

    UniqueFd socket_, timer_, ready_; // ready_: an epoll of the others
    std::string path_;
    std::function<std::string(const std::string &)> answer_;
    std::chrono::milliseconds patience_{};
    std::list<Peer> peers_; // oldest first
    std::optional<std::chrono::steady_clock::time_point> rests_until_;
};

} // namespace incident::daemon
