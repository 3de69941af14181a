// Finds the file of a descriptor at a point in time.  It replays the recorded opens, dups and closes of the whole
// process in order of time.  Internal to capture/.
//
// It cannot see descriptors made by pipe, socketpair, recvmsg and the like (their numbers are in memory), nor calls
// whose records were overwritten.  So a name comes with its source:
//   "open"  a recorded open or accept made this descriptor, and no recorded call has closed it since;
//   "connect"  a recorded connect has begun to connect this socket to there;
//   "end"   the list of the process's descriptors had this file, and no recorded call opened or
//           closed the number in between.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace incident::capture {

class FdTable {
public:
    struct Name {
        std::string_view path; // empty: not known; valid until the table changes
        std::string_view from; // "open" or "end"
    };

    // listed: process/fds, JSON lines {"fd","target",…}; sockets: process/sockets, JSON lines {"inode","target",…};
    // null if they were not collected.
    FdTable(const std::string *listed, const std::string *sockets);

    // Call it before the replay for every change that will come, so that the last one of each descriptor is known.
    void announce(int fd) { ++state_[fd].changes_to_come; }
    void announce_close_range(std::uint32_t first, std::uint32_t last) { ranges_to_come_.emplace_back(first, last); }
    void announce_exec() { ++execs_to_come_; }

    void open(int fd, std::string path, bool close_on_exec); // path "": made by a call without one
    void connect(int fd, std::string peer);
    void close(int fd);
    void close_range(std::uint32_t first, std::uint32_t last);
    void duplicate(int from, int to, bool close_on_exec);
    void exec();

    Name name(int fd);

private:
    struct State {
        std::uint32_t changes_to_come = 0;
        bool is_open = true;
        bool close_on_exec = false;
        bool connected = false; // path is the peer that a connect has named
        std::string path;
        std::string listed; // parsed when first asked for
        bool listed_known = false;
    };
    State &change(int fd);
    void drop(State &state);
    bool change_to_come(int fd, const State &state) const;
    const std::string &listed_name(int fd, State &state);

    std::unordered_map<int, State> state_;
    std::unordered_map<int, std::string_view> lines_;
    std::unordered_map<std::string, std::string> sockets_; // by the target that the descriptor's link has
    std::deque<std::pair<std::uint32_t, std::uint32_t>> ranges_to_come_;
    std::uint32_t execs_to_come_ = 0;
};

} // namespace incident::capture
