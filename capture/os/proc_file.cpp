#include "capture/os/proc_file.h"

#include "capture/os/dir_at.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <climits>

namespace incident::capture {

namespace {

// One read of a seq_file gives at most a page of whole records, whatever is asked
// (fs/seq_file.c); other files give all they are asked for.
constexpr std::size_t FIRST_READ = 16 * 1024, MOST_AT_ONCE = 1024 * 1024;

} // namespace

Result<ProcText> read_proc_file(int dir, const char *path, std::uint64_t cap, const std::function<bool()> &expired) {
    const UniqueFd fd(retry([&] { return ::openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOCTTY); }));
    if (!fd)
        return fail(Error::system(path));
    ProcText text;
    std::size_t used = 0;
    text.bytes.resize(FIRST_READ);
    for (;;) {
        const ssize_t n = retry([&] { return ::read(fd.get(), text.bytes.data() + used, text.bytes.size() - used); });
        if (n < 0 && used == 0)
            return fail(Error::system(path));
        if (n <= 0) { // a process that ends while it is read: ESRCH after some bytes
            text.cut = n < 0;
            break;
        }
        used += static_cast<std::size_t>(n);
        if (used > cap) {
            used = cap;
            text.cut = true;
            break;
        }
        if (expired && expired()) {
            text.cut = true;
            break;
        }
        if (text.bytes.size() - used < FIRST_READ / 2)
            text.bytes.resize(text.bytes.size() + std::min(text.bytes.size(), MOST_AT_ONCE));
    }
    text.bytes.resize(used);
    return text;
}

Result<std::string> read_proc_link(int dir, const char *path) {
    std::string target(PATH_MAX, '\0');
    const ssize_t n = ::readlinkat(dir, path, target.data(), target.size());
    if (n < 0)
        return fail(Error::system(path));
    target.resize(static_cast<std::size_t>(n));
    return target;
}

bool line_value(std::string_view text, std::string_view key, std::string_view &value) {
    for (std::size_t at = 0; (at = text.find(key, at)) != std::string_view::npos; at += key.size()) {
        if (at != 0 && text[at - 1] != '\n')
            continue;
        const std::size_t begin = text.find_first_not_of(" \t", at + key.size());
        if (begin == std::string_view::npos)
            return false;
        value = text.substr(begin, text.find('\n', begin) - begin);
        return true;
    }
    return false;
}

std::string json_string(std::string_view bytes) {
    return nlohmann::json(bytes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace incident::capture
