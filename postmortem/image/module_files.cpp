#include "postmortem/image/module_files.h"

#include "capture/collect.h"
#include "capture/dir_at.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

namespace incident::postmortem {

namespace {

// Paths come from the process: what they name now may be a device that does something when it is
// opened.  O_PATH opens nothing; the second open is of that very file.
UniqueFd open_regular(int root, const std::string &path, std::string &problem) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = root >= 0 ? RESOLVE_IN_ROOT : 0;
    const UniqueFd found(
        static_cast<int>(::syscall(SYS_openat2, root >= 0 ? root : AT_FDCWD, path.c_str(), &how, sizeof how)));
    struct stat st;
    if (!found || ::fstat(found.get(), &st) != 0) {
        problem = errno == ENOENT ? "missing" : std::strerror(errno);
        return UniqueFd();
    }
    if (!S_ISREG(st.st_mode)) {
        problem = "not a regular file";
        return UniqueFd();
    }
    const std::string self = "/proc/self/fd/" + std::to_string(found.get());
    UniqueFd file(capture::retry([&] { return ::open(self.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); }));
    if (!file)
        problem = std::strerror(errno);
    return file;
}

ModuleFile open_module(int root, const ImageModule &module) {
    ModuleFile file;
    file.file = open_regular(root, module.path, file.problem);
    if (!file.file)
        return file;
    if (module.build_id.empty()) {
        if (module.deleted) { // what has its name now is another file
            file.file.reset();
            file.changed = true;
            file.problem = "deleted or replaced since it was mapped";
        }
        return file;
    }
    const std::string build_id = capture::build_id_of_file(file.file.get());
    file.verified = build_id == module.build_id;
    if (!file.verified) {
        file.changed = true;
        file.problem = "changed since it was mapped: build-id " + (build_id.empty() ? "none" : build_id) +
                       " instead of " + module.build_id;
        file.file.reset();
    }
    return file;
}

} // namespace

std::vector<ModuleFile> open_module_files(const CrashImage &image, const std::string &root) {
    std::vector<ModuleFile> files(image.modules.size());
    UniqueFd top;
    if (!root.empty()) {
        top = UniqueFd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (!top) {
            const std::string problem = root + ": " + std::strerror(errno);
            for (ModuleFile &file : files)
                file.problem = problem;
            return files;
        }
    }
    for (std::size_t i = 0; i < files.size(); ++i)
        if (i < module_files_max)
            files[i] = open_module(top.get(), image.modules[i]);
        else
            files[i].problem = "not opened: the process had mapped more than " + std::to_string(module_files_max);
    return files;
}

} // namespace incident::postmortem
