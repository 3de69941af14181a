// Files of /proc, /sys and the cgroup trees: without a size, made up while they are
// read, at times slow or stuck.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace incident::capture {

struct ProcText {
    std::string bytes;
    bool cut = false; // the cap or the time was reached before the end
};

// Reads dir/path to its end, to cap bytes, or until expired() says so between two reads.
Result<ProcText> read_proc_file(int dir, const char *path, std::uint64_t cap,
                                const std::function<bool()> &expired = {});
// The target of the link dir/path, whatever bytes it is made of.
Result<std::string> read_proc_link(int dir, const char *path);

// What follows key ("Uid:") on the first line that begins with it; false if none does.
bool line_value(std::string_view text, std::string_view key, std::string_view &value);

// As a JSON string, quotes included; what is not UTF-8 becomes U+FFFD.
std::string json_string(std::string_view bytes);

} // namespace incident::capture
