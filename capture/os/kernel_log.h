// Reads the newest part of the kernel's log from /dev/kmsg (Documentation/ABI/testing/dev-kmsg).
#pragma once

#include "capture/os/instant.h"
#include "capture/os/result.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace incident::capture {

// Keeps records that are not older than `since`, by the log's own clock, as "[sec.usec] <prio> text", but only their
// newest cap bytes.
class KernelLog {
public:
    KernelLog(std::chrono::microseconds since, std::uint64_t cap) : since_(since), cap_(cap) {}
    // One record as read: "prio,seq,usec,flags[,…];text\n" and lines " KEY=value\n".
    void add(std::string_view record);
    std::string text() const;
    bool cut() const { return cut_; }

private:
    std::chrono::microseconds since_;
    std::uint64_t cap_, bytes_ = 0;
    bool cut_ = false;
    std::deque<std::string> lines_;
};

// Reads all records without waiting for more.  Returns how often the kernel had overwritten records before they were
// read.
Result<std::uint64_t> read_kernel_log(const std::string &device, KernelLog &into, const std::function<bool()> &expired);

// The time, by the log's own clock, from which records are wanted: `span` before now, and somewhat earlier.  Records
// have times of the scheduler's local clock, which NTP does not correct as it does CLOCK_MONOTONIC.  So the two drift
// apart over the whole uptime by tens of ppm, the error of the CPU clock's calibration.  Beginning 50 ppm of the uptime
// (4 s a day) earlier adds some old lines, but loses none.
std::chrono::microseconds kernel_log_since(MonotonicTime now, std::chrono::microseconds span);

} // namespace incident::capture
