// The newest part of the kernel's log, out of /dev/kmsg records
// (Documentation/ABI/testing/dev-kmsg).
#pragma once

#include "capture/os/result.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace incident::capture {

// Keeps records not older than since_us as "[sec.usec] <prio> text", the newest cap bytes of them.
class KernelLog {
public:
    KernelLog(std::uint64_t since_us, std::uint64_t cap) : since_us_(since_us), cap_(cap) {}
    // One record as read: "prio,seq,usec,flags[,…];text\n" and lines " KEY=value\n".
    void add(std::string_view record);
    std::string text() const;
    bool cut() const { return cut_; }

private:
    std::uint64_t since_us_, cap_, bytes_ = 0;
    bool cut_ = false;
    std::deque<std::string> lines_;
};

// Reads all there is without waiting for more.  Returns the number of times the
// kernel had overwritten records before they were read.
Result<std::uint64_t> read_kernel_log(const std::string &device, KernelLog &into, const std::function<bool()> &expired);

// Where records `span_us` before now_us begin.  They are stamped with the scheduler's
// local clock, which NTP does not steer as it does CLOCK_MONOTONIC: the two drift apart
// by the error of the CPU clock's calibration, tens of ppm, over the whole uptime.  So
// the slice begins earlier by 50 ppm of the uptime (4 s a day): rather some old lines
// than one missing.
std::uint64_t kernel_log_since(std::uint64_t now_us, std::uint64_t span_us);

} // namespace incident::capture
