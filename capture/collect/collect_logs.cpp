#include "capture/collect/collect_logs.h"

#include "capture/os/dir_at.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <optional>

namespace incident::capture {

namespace {

constexpr std::chrono::milliseconds patience{100};

// The last bytes of a file, without the line whose beginning is not among them: redaction might not know the rest.
Result<std::string> tail_of(int fd, const std::string &path) {
    struct stat st;
    if (::fstat(fd, &st) != 0)
        return fail(Error::system(path));
    const auto size = static_cast<std::uint64_t>(std::max<off_t>(st.st_size, 0));
    const std::uint64_t from = size - std::min<std::uint64_t>(size, log_tail_max);
    std::string text(static_cast<std::size_t>(size - from), '\0');
    std::size_t length = 0;
    while (length < text.size()) {
        const ssize_t n = retry(
            [&] { return ::pread(fd, text.data() + length, text.size() - length, static_cast<off_t>(from + length)); });
        if (n < 0)
            return fail(Error::system(path));
        if (n == 0)
            break; // truncated since
        length += static_cast<std::size_t>(n);
    }
    text.resize(length);
    if (from != 0)
        text.erase(0, text.find('\n') == std::string::npos ? 0 : text.find('\n') + 1);
    return text;
}

// "" or the path below `root`, both as this process sees them.
std::string below(const std::string &root, const std::string &path) {
    if (root == "/")
        return path;
    return path.starts_with(root) && path.size() > root.size() && path[root.size()] == '/' ? path.substr(root.size())
                                                                                           : "";
}

Result<std::string> read_log(const Subject &subject, std::shared_ptr<const UniqueFd> root, const struct stat &wanted,
                             const std::string &path, const Deadline &deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.at() - Clock::now());
    const auto span = std::min(patience_with(subject, patience), left);
    if (span <= std::chrono::milliseconds(0))
        return fail("the deadline had passed");
    return within<std::string>(
        subject, span,
        [root = std::move(root), path, device = wanted.st_dev, inode = wanted.st_ino]() -> Result<std::string> {
            const auto file = open_regular(root->get(), path);
            struct stat found;
            if (!file)
                return fail(file.error());
            if (::fstat(file->get(), &found) != 0)
                return fail(Error::system("fstat"));
            if (found.st_dev != device || found.st_ino != inode)
                return fail("another file stands at its path now");
            return tail_of(file->get(), path);
        });
}

} // namespace

Outcome collect_logs(int process, const Subject &subject, const std::function<bool(const std::string &path)> &wants,
                     const Deadline &deadline) {
    constexpr std::string_view deleted = " (deleted)"; // what the kernel appends
    Outcome outcome;
    const auto problem = [&](const std::string &what) {
        outcome.error += (outcome.error.empty() ? "" : "; ") + what;
        outcome.ok = false;
    };
    auto opened = open_root_of(process);
    const auto root_path = read_proc_link(process, "root");
    if (!opened || !root_path)
        return {false, opened ? root_path.error().what : opened.error().what, {}};
    const auto root = std::make_shared<const UniqueFd>(std::move(*opened));
    for (const auto &[link, name] : {std::pair("fd/1", std::string("stdout")), {"fd/2", "stderr"}}) {
        const auto target = read_proc_link(process, link);
        if (!target) {
            if (target.error().code != ENOENT) // else it is closed, or the process ends
                problem(name + ": " + target.error().what);
            continue;
        }
        const bool removed = target->ends_with(deleted);
        const std::string path = below(*root_path, target->substr(0, target->size() - (removed ? deleted.size() : 0)));
        if (path.empty() || path[0] != '/' || !wants(path)) // a pipe, a socket, or not asked for
            continue;
        struct stat wanted;
        if (::fstatat(process, link, &wanted, 0) != 0)
            problem(Error::system(name + ": " + path).what);
        else if (!S_ISREG(wanted.st_mode))
            problem(name + ": " + path + ": not a regular file");
        else if (removed && wanted.st_nlink == 0)
            problem(name + ": " + path + ": was removed");
        else if (auto text = read_log(subject, root, wanted, path, deadline); text)
            outcome.files.emplace_back("process/" + name, std::move(*text));
        else
            problem(name + ": " + path + ": " + text.error().what);
    }
    return outcome;
}

} // namespace incident::capture
