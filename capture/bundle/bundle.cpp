#include "capture/bundle/bundle.h"

#include "capture/bundle/bundle_writer.h"
#include "capture/bundle/manifest.h"
#include "capture/os/dir_at.h"

#include <fcntl.h>
#include <sys/stat.h>

namespace incident::capture {

namespace {

constexpr std::size_t LINE_MAX_BYTES = 1u << 20;
// Bundles are amended once or twice in their life; a bound for a loop, no more.
constexpr int REOPENINGS = 8;

bool same_directory(int a, int b) {
    struct stat x, y;
    return ::fstat(a, &x) == 0 && ::fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

} // namespace

// The bundle as it stands now under its name: after an amend() the directory opened
// first is being taken apart.  -1 if it is still the same, or gone.
UniqueFd Bundle::reopened(int than) const {
    UniqueFd now(::openat(parent_.get(), name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!now || same_directory(now.get(), than)) {
        errno = ENOENT;
        return {};
    }
    return now;
}

UniqueFd Bundle::open(std::string_view path, int flags) const {
    UniqueFd fd = open_beneath(dir_.get(), path, flags);
    if (!fd && errno == ENOENT)
        if (const UniqueFd now = reopened(dir_.get()))
            fd = open_beneath(now.get(), path, flags);
    return fd;
}

Result<std::string> Bundle::read(std::string_view path, std::uint64_t cap) const {
    auto bytes = read_regular(dir_.get(), path, cap);
    if (!bytes && bytes.error().code == ENOENT)
        if (const UniqueFd now = reopened(dir_.get()))
            bytes = read_regular(now.get(), path, cap);
    if (!bytes)
        return fail(std::move(bytes.error()).in(name_));
    return bytes;
}

Status Bundle::lines(std::string_view path, const std::function<bool(std::string_view)> &line) const {
    const UniqueFd fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    const std::string context = name_ + ": " + std::string(path);
    if (!fd)
        return fail(Error::system(context));
    struct stat st;
    if (::fstat(fd.get(), &st) != 0)
        return fail(Error::system(context));
    if (!S_ISREG(st.st_mode))
        return fail(Error{context + ": not a regular file", EINVAL});

    std::string buffer(256 * 1024, '\0');
    std::size_t begin = 0, end = 0; // what is read and not yet handed on
    for (std::size_t number = 1;;) {
        const std::string_view unread(buffer.data() + begin, end - begin);
        if (const std::size_t newline = unread.find('\n'); newline != std::string_view::npos) {
            if (newline > LINE_MAX_BYTES)
                return fail(Error{context + ":" + std::to_string(number) + ": line too long", EFBIG});
            if (!line(unread.substr(0, newline)))
                return {};
            begin += newline + 1;
            ++number;
            continue;
        }
        if (unread.size() > LINE_MAX_BYTES)
            return fail(Error{context + ":" + std::to_string(number) + ": line too long", EFBIG});
        buffer.erase(0, begin);
        end -= begin;
        begin = 0;
        buffer.resize(std::max<std::size_t>(256 * 1024, end * 2));
        const ssize_t n = retry([&] { return ::read(fd.get(), buffer.data() + end, buffer.size() - end); });
        if (n < 0)
            return fail(Error::system(context));
        if (n == 0) {
            if (end > 0) // the last line may lack its newline
                line(std::string_view(buffer.data(), end));
            return {};
        }
        end += static_cast<std::size_t>(n);
    }
}

std::optional<std::uint64_t> Bundle::size(std::string_view path) const {
    const UniqueFd fd = open(path, O_PATH);
    struct stat st;
    if (!fd || ::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode))
        return std::nullopt;
    return static_cast<std::uint64_t>(st.st_size);
}

Result<std::vector<ManifestEntry>> Bundle::manifest() const {
    auto text = read(MANIFEST_NAME, MANIFEST_CAP);
    if (!text)
        return fail(std::move(text.error()));
    auto files = parse_manifest(*text);
    if (!files)
        return fail(std::move(files.error()).in(name_));
    return files;
}

Result<std::vector<std::string>> Bundle::verify() const {
    UniqueFd current;
    auto problems = verify_directory(dir_.get());
    for (int tries = 0; tries < REOPENINGS && problems && !problems->empty(); ++tries) {
        UniqueFd now = reopened(current ? current.get() : dir_.get());
        if (!now)
            break;
        current = std::move(now);
        problems = verify_directory(current.get());
    }
    if (!problems)
        return fail(std::move(problems.error()).in(name_));
    return problems;
}

} // namespace incident::capture
