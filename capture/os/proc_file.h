// Reads files of /proc, /sys and the cgroup trees.  These have no size, are made while they are read, and are sometimes
// slow or never answer.
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
    bool cut = false; // the limit of bytes or of time was reached before the end
};

// Reads dir/path to its end, or at most cap bytes, or until expired() returns true between two reads.
Result<ProcText> read_proc_file(int dir, const char *path, std::uint64_t cap,
                                const std::function<bool()> &expired = {});
// The target of the link dir/path, which may hold any bytes.
Result<std::string> read_proc_link(int dir, const char *path);

// The text after key ("Uid:") on the first line that begins with it; false if no line does.
bool line_value(std::string_view text, std::string_view key, std::string_view &value);

// The text as a JSON string with its quotes.  Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view bytes);

} // namespace incident::capture
