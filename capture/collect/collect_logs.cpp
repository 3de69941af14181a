#include "capture/collect/collect_logs.h"

#include "capture/os/dir_at.h"
#include "capture/os/number.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_files.h"

#include <fmt/format.h>

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
    if (from == 0 || text.empty())
        return text;
    const std::size_t end = text.find('\n');
    if (end == std::string::npos || end + 1 == text.size())
        return fail(fmt::format("left out: its last line is longer than {} KiB", log_tail_max >> 10));
    text.erase(0, end + 1);
    return text;
}

// What the kernel says of a descriptor itself, and not of the file that it is of.
struct Descriptor {
    bool path_only = false;           // it was opened with O_PATH, which needs no right to the file
    std::optional<std::uint64_t> ino; // since Linux 5.14

    bool operator==(const Descriptor &) const = default;
};

// dir: of a process in procfs.
Result<Descriptor> descriptor_of(int dir, const std::string &number) {
    const auto text = read_proc_file(dir, ("fdinfo/" + number).c_str(), 4096);
    if (!text)
        return fail(Error(text.error()).in("fdinfo"));
    std::string_view flags, ino;
    const auto octal = line_value(text->bytes, "flags:", flags) ? whole_number<std::uint64_t>(flags, 8) : std::nullopt;
    if (!octal)
        return fail("fdinfo says nothing of how it was opened");
    return Descriptor{.path_only = (*octal & O_PATH) != 0,
                      .ino = line_value(text->bytes, "ino:", ino) ? whole_number<std::uint64_t>(ino) : std::nullopt};
}

Result<Descriptor> readable_descriptor_of(int process, const std::string &number) {
    auto found = descriptor_of(process, number);
    if (found && found->path_only)
        return fail("the process has it open only as a path (O_PATH), which proves no right to read it");
    return found;
}

Result<Descriptor> own_descriptor(int fd) {
    const UniqueFd self(::open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!self)
        return fail(Error::system("/proc/self"));
    return descriptor_of(self.get(), std::to_string(fd));
}

// "" or the path below `root`, both as this process sees them.
std::string below(const std::string &root, const std::string &path) {
    if (root == "/")
        return path;
    return path.starts_with(root) && path.size() > root.size() && path[root.size()] == '/' ? path.substr(root.size())
                                                                                           : "";
}

struct Log {
    std::string number; // of the descriptor
    std::string path;   // below the process's root; "" it is outside of it
    bool removed = false;
};

// nullopt: it is of no regular file.
using LogText = std::optional<std::string>;

Result<LogText> read_log(int process, const Log &log) {
    const auto before = readable_descriptor_of(process, log.number);
    struct stat wanted, found;
    if (::fstatat(process, ("fd/" + log.number).c_str(), &wanted, 0) != 0)
        return fail(Error::system("stat"));
    if (!S_ISREG(wanted.st_mode))
        return LogText();
    if (log.path.empty())
        return fail("is outside of the process's root");
    if (log.removed && wanted.st_nlink == 0)
        return fail("was removed");
    if (!before)
        return fail(before.error());
    const auto root = open_root_of(process);
    if (!root)
        return fail(root.error());
    const auto file = open_regular(root->get(), log.path);
    if (!file)
        return fail(file.error());
    if (::fstat(file->get(), &found) != 0)
        return fail(Error::system("fstat"));
    const auto own = own_descriptor(file->get());
    if (!own)
        return fail(own.error());
    if (found.st_dev != wanted.st_dev || found.st_ino != wanted.st_ino || own->ino != before->ino)
        return fail("another file stands at its path now");
    auto text = tail_of(file->get(), log.path);
    if (!text)
        return fail(text.error());
    const auto after = readable_descriptor_of(process, log.number);
    if (!after)
        return fail(after.error());
    if (*after != *before)
        return fail("the process has opened something else meanwhile");
    return LogText(std::move(*text));
}

// All of it may hang on the file, or on the file system that the process's root is on.
Result<LogText> read_log_within(const Subject &subject, const std::shared_ptr<const UniqueFd> &process, const Log &log,
                                const Deadline &deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.at() - Clock::now());
    const auto span = std::min(patience_with(subject, patience), left);
    if (span <= std::chrono::milliseconds(0))
        return fail("the deadline had passed");
    return within<LogText>(subject, span, [process, log] { return read_log(process->get(), log); });
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
    const auto own = std::make_shared<const UniqueFd>(::fcntl(process, F_DUPFD_CLOEXEC, 0)); // for what hangs
    const auto root = read_proc_link(process, "root");
    if (!*own || !root)
        return {false, *own ? root.error().what : Error::system("the process").what, {}};
    for (const auto &[number, name] : {std::pair("1", std::string("stdout")), {"2", "stderr"}}) {
        const auto target = read_proc_link(process, (std::string("fd/") + number).c_str());
        if (!target) {
            if (target.error().code != ENOENT) // else it is closed, or the process ends
                problem(name + ": " + target.error().what);
            continue;
        }
        if (!target->starts_with('/')) // a pipe, a socket
            continue;
        const bool removed = target->ends_with(deleted);
        const std::string path = target->substr(0, target->size() - (removed ? deleted.size() : 0));
        const Log log{.number = number, .path = below(*root, path), .removed = removed};
        if (!log.path.empty() && !wants(log.path))
            continue;
        if (auto text = read_log_within(subject, own, log, deadline); !text)
            problem(name + ": " + (log.path.empty() ? path : log.path) + ": " + text.error().what);
        else if (*text)
            outcome.files.emplace_back("process/" + name, std::move(**text));
        else if (!log.path.empty())
            problem(name + ": " + log.path + ": not a regular file");
    }
    return outcome;
}

} // namespace incident::capture
