// A process of its own that does what it is asked, with other rights than this one.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace incident::daemon {

class Servant {
public:
    static constexpr std::size_t files_most = 8; // of an answer

    // Descriptors, or why not.
    using Answer = Result<std::vector<UniqueFd>>;
    // file: what came along with the request.  keeps: set it if what was opened meanwhile is to stay open.
    using Serve = std::function<Answer(std::span<const char> request, const UniqueFd &file, bool &keeps)>;
    struct Role {
        const char *name;                     // of the process; at most 15 characters
        std::vector<int> capabilities;        // that it keeps, of those its maker has
        bool connects;                        // to other processes; else it gives that up
        bool (*needs)(std::string_view link); // of its maker's descriptors, by what /proc says of them; null: none
        std::size_t request_bytes;            // of each request
        std::chrono::milliseconds patience;   // with its answer; then it is killed
    };

    // Forks.  The child has of this process's descriptors what its role needs, and serves until this is destroyed, or
    // this process ends.  Call it before other threads are made.
    static Result<std::unique_ptr<Servant>> start(const Role &role, const Serve &serve);
    ~Servant(); // waits for the child's end

    // Any thread may ask; one after the other is answered.  file: goes along; -1: none.
    Answer ask(std::span<const char> request, int file = -1);
    // Readable when the process has ended.
    int ended() const { return ended_.get(); }

    Servant(const Servant &) = delete;
    Servant &operator=(const Servant &) = delete;

private:
    Servant(const Role &role, UniqueFd socket, UniqueFd ended)
        : name_(role.name), patience_(role.patience), socket_(std::move(socket)), ended_(std::move(ended)) {}
    void end_it() const;
    std::string name_;
    std::chrono::milliseconds patience_;
    std::mutex mutex_; // of a question and its answer
    UniqueFd socket_, ended_;
};

} // namespace incident::daemon
