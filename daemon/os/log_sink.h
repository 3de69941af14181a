// A log that never waits for its reader.  A service's standard error is a stream to journald, which may hang; a line
// that it does not take at once is dropped, and the next line that it takes says how many were.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <cstdint>
#include <mutex>
#include <string_view>

namespace incident::daemon {

class LogSink : public spdlog::sinks::base_sink<std::mutex> {
public:
    explicit LogSink(int fd) : fd_(fd) {} // the caller's, which outlives it

private:
    void sink_it_(const spdlog::details::log_msg &message) override;
    void flush_() override {}
    bool write(std::string_view line) const; // false: it would have to wait

    int fd_;
    std::uint64_t dropped_ = 0;
};

} // namespace incident::daemon
