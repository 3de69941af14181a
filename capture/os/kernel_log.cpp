#include "capture/os/kernel_log.h"

#include "capture/os/dir_at.h"
#include "capture/os/number.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace incident::capture {

namespace {

// A read takes one whole record or fails with EINVAL; the kernel's own limit is 2 KiB
// in kernel 6.1 and 4 KiB since (PRINTK_MESSAGE_MAX), with its fields 8 KiB at most.
constexpr std::size_t RECORD_MAX = 16 * 1024;

bool take_number(std::string_view &text, char end, std::uint64_t &number) {
    const std::size_t at = text.find(end);
    if (at == std::string_view::npos || !whole_number(text.substr(0, at), number))
        return false;
    text.remove_prefix(at + 1);
    return true;
}

} // namespace

void KernelLog::add(std::string_view record) {
    const std::string_view line = record.substr(0, record.find('\n'));
    const std::size_t semicolon = line.find(';');
    std::string_view head = line.substr(0, semicolon);
    std::uint64_t priority = 0, sequence = 0, us = 0;
    // "6,339,5140900,-,caller=T1": the fields after the time may grow.
    if (semicolon == std::string_view::npos || !take_number(head, ',', priority) || !take_number(head, ',', sequence) ||
        !take_number(head, ',', us) || us < static_cast<std::uint64_t>(since_.count()))
        return;
    lines_.push_back(
        fmt::format("[{}.{:06}] <{}> {}\n", us / 1'000'000, us % 1'000'000, priority, line.substr(semicolon + 1)));
    bytes_ += lines_.back().size();
    for (; bytes_ > cap_ && !lines_.empty(); cut_ = true) {
        bytes_ -= lines_.front().size();
        lines_.pop_front();
    }
}

std::string KernelLog::text() const {
    std::string all;
    all.reserve(bytes_);
    for (const std::string &line : lines_)
        all += line;
    return all;
}

Result<std::uint64_t> read_kernel_log(const std::string &device, KernelLog &into,
                                      const std::function<bool()> &expired) {
    // A fresh descriptor stands at the oldest record.  Not at SEEK_DATA: an
    // administrator's `dmesg --clear` does not make what happened unhappen.
    const UniqueFd fd(retry([&] { return ::open(device.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY); }));
    if (!fd)
        return fail(Error::system(device));
    std::uint64_t overwritten = 0;
    std::vector<char> buffer(RECORD_MAX);
    std::string pending; // a tree of test data is a plain file: many records a read, cut anywhere
    for (std::uint64_t reads = 1;; ++reads) {
        const ssize_t n = retry([&] { return ::read(fd.get(), buffer.data(), buffer.size()); });
        if (n < 0 && errno == EPIPE) {
            ++overwritten;
            continue;
        }
        if (n < 0 && errno != EAGAIN)
            return fail(Error::system(device));
        if (n <= 0)
            return overwritten;
        pending.append(buffer.data(), static_cast<std::size_t>(n));
        std::size_t begin = 0;
        for (std::size_t newline; (newline = pending.find('\n', begin)) != std::string::npos; begin = newline + 1)
            if (pending[begin] != ' ') // else a " KEY=value" line of the record before
                into.add(std::string_view(pending).substr(begin, newline - begin));
        pending.erase(0, begin);
        if (reads % 256 == 0 && expired && expired())
            return fail(Error{device + ": not read to its end before the deadline", ETIMEDOUT});
    }
}

std::chrono::microseconds kernel_log_since(MonotonicTime now, std::chrono::microseconds span) {
    const std::chrono::microseconds up(now.ns / 1000);
    return std::max(up - span - up / 20'000, std::chrono::microseconds(0));
}

} // namespace incident::capture
