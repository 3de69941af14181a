#include "capture/bundle/bundle_name.h"
#include "capture/bundle/bundle_writer.h"
#include "capture/bundle/manifest.h"
#include "capture/os/dir_at.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

namespace incident::capture {

namespace {

// Hostile bundles may hold anything; enough problems are enough.
constexpr std::size_t PROBLEMS_MAX = 1000;

// "" when the file is as the manifest says.
std::string check_file(int dir, const ManifestEntry &expected) {
    const UniqueFd fd = open_beneath(dir, expected.path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (!fd) {
        if (errno == ENOENT)
            return expected.path + ": missing";
        if (errno == ELOOP)
            return expected.path + ": a symbolic link";
        return Error::system(expected.path).what;
    }
    struct stat st;
    if (::fstat(fd.get(), &st) != 0)
        return Error::system(expected.path).what;
    if (!S_ISREG(st.st_mode))
        return expected.path + ": not a regular file";
    if (static_cast<std::uint64_t>(st.st_size) != expected.size)
        return expected.path + ": " + std::to_string(st.st_size) + " bytes, not " + std::to_string(expected.size);
    Sha256 sum;
    std::vector<std::uint8_t> buffer(static_cast<std::size_t>(std::clamp<std::uint64_t>(expected.size, 1, 128 * 1024)));
    for (;;) {
        const ssize_t n = retry([&] { return ::read(fd.get(), buffer.data(), buffer.size()); });
        if (n < 0)
            return Error::system(expected.path).what;
        if (n == 0)
            break;
        sum.add(std::span(buffer).first(static_cast<std::size_t>(n)));
    }
    return sum.hex() == expected.sha256 ? "" : expected.path + ": changed (SHA-256 differs)";
}

void find_unlisted(int dir, const std::string &prefix, const std::set<std::string> &listed,
                   std::vector<std::string> &problems) {
    auto entries = list_dir(dir);
    if (!entries) {
        problems.push_back(std::move(entries.error()).in(prefix.empty() ? "bundle" : prefix).what);
        return;
    }
    for (const DirEntry &entry : *entries) {
        if (problems.size() >= PROBLEMS_MAX)
            return;
        const std::string path = prefix + entry.name;
        if (entry.type == DT_DIR && valid_bundle_path(path + "/x")) {
            const UniqueFd below = open_beneath(dir, entry.name, O_RDONLY | O_DIRECTORY);
            if (below)
                find_unlisted(below.get(), path + "/", listed, problems);
            else
                problems.push_back(Error::system(path).what);
        } else if (!listed.contains(path) && path != MANIFEST_NAME) {
            problems.push_back(path + (entry.type == DT_LNK ? ": a symbolic link" : ": not in MANIFEST"));
        }
    }
}

} // namespace

Result<std::vector<std::string>> verify_directory(int dir) {
    std::vector<std::string> problems;
    auto text = read_regular(dir, MANIFEST_NAME, MANIFEST_CAP);
    if (!text) {
        if (text.error().code == EIO || text.error().code == EMFILE || text.error().code == ENFILE)
            return fail(std::move(text.error())); // says nothing about the bundle
        problems.push_back(text.error().code == ENOENT ? "MANIFEST: missing" : text.error().what);
        return problems;
    }
    auto files = parse_manifest(*text);
    if (!files) {
        problems.push_back(files.error().what);
        return problems;
    }
    std::set<std::string> listed;
    for (const ManifestEntry &file : *files) {
        listed.insert(file.path);
        if (std::string problem = check_file(dir, file); !problem.empty() && problems.size() < PROBLEMS_MAX)
            problems.push_back(std::move(problem));
    }
    find_unlisted(dir, "", listed, problems);
    return problems;
}

} // namespace incident::capture
