#include "capture/os/flush.h"

#include "capture/os/dir_at.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace incident::capture {

namespace {

constexpr std::size_t THREADS = 8;

Status flush(int dir, const std::string &path) {
    // O_NOCTTY, O_NONBLOCK: whatever may have been put in a file's place, opening it does no harm.
    const UniqueFd fd = open_beneath(dir, path, O_RDONLY | O_NOCTTY | O_NONBLOCK);
    if (!fd || retry([&] { return ::fsync(fd.get()); }) != 0)
        return fail(Error::system("flush " + path));
    return {};
}

} // namespace

Status flush_all(int dir, const std::vector<std::string> &paths) {
    std::atomic<std::size_t> next = 0;
    std::mutex mutex;
    Status status;
    bool no_memory = false;
    const auto work = [&] {
        for (std::size_t i; (i = next++) < paths.size();)
            if (Status flushed = flush(dir, paths[i]); !flushed) {
                const std::lock_guard lock(mutex);
                status = std::move(flushed);
            }
    };
    // In a thread of its own nobody else would take the exception.
    const auto work_alone = [&] {
        try {
            work();
        } catch (const std::bad_alloc &) {
            const std::lock_guard lock(mutex);
            no_memory = true;
        }
    };
    {
        std::vector<std::jthread> threads;
        try {
            while (threads.size() + 1 < std::min(THREADS, paths.size()))
                threads.emplace_back(work_alone);
        } catch (const std::system_error &) { // NOLINT(bugprone-empty-catch): nothing is lost by it
            // No more threads to be had: those there are do it, this one among them.
        }
        work();
    }
    return no_memory ? fail(Error{"flush the files: no memory", ENOMEM}) : status;
}

} // namespace incident::capture
