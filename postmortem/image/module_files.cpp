#include "postmortem/image/module_files.h"

#include "capture/collect/collect.h"
#include "capture/modules/kept_name.h"
#include "capture/os/process_files.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

namespace incident::postmortem {

namespace {

ModuleFile open_module(int root, const ImageModule &module) {
    ModuleFile file;
    auto opened = capture::open_regular(root, module.path);
    if (!opened) {
        file.problem = opened.error().code == ENOENT ? "missing" : opened.error().what;
        return file;
    }
    file.file = std::move(*opened);
    file.path = module.path;
    if (module.build_id.empty()) {
        if (module.deleted) { // what has its name now is another file
            file.file.reset();
            file.changed = true;
            file.problem = "deleted or replaced since it was mapped";
        }
        // It has no build-id to know it by; of a container's program another may stand at that path here.
        capture::Mapping mapping;
        mapping.inode = module.inode, mapping.major = module.major, mapping.minor = module.minor;
        if (file.file && root < 0 && module.inode && !capture::is_mapped_file(file.file.get(), mapping)) {
            file.file.reset();
            file.changed = true;
            file.problem = "another file stands at its path here";
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

// Of a process with a root of its own: where the daemon has seen the file on the host.  Without a build-id it is known
// by its inode alone, for the device of an overlay is not that of its layers.
void open_on_host(const ImageModule &module, ModuleFile &file) {
    const auto control = [](unsigned char c) {
        return c < ' ' || c == 0x7f;
    }; // gdb would take a line break for a command's end
    if (file.file || !module.on_host.starts_with('/') || std::ranges::any_of(module.on_host, control))
        return;
    auto opened = capture::open_regular(-1, module.on_host);
    if (!opened)
        return;
    struct stat st;
    const std::string build_id = capture::build_id_of_file(opened->get());
    if (build_id != module.build_id ||
        (build_id.empty() && (::fstat(opened->get(), &st) != 0 || !module.inode || st.st_ino != module.inode)))
        return;
    file = {.file = std::move(*opened), .verified = !module.build_id.empty(), .problem = {}, .path = module.on_host};
}

// Its name says what it contains, whoever has named it.
void open_kept(int kept, const std::string &directory, const ImageModule &module, ModuleFile &file) {
    if (kept < 0 || file.file || !capture::is_kept_name(module.kept))
        return;
    auto opened = capture::open_regular(kept, module.kept);
    if (!opened) {
        file.problem += opened.error().code == ENOENT   ? "; its copy was not kept so long"
                        : opened.error().code == EACCES ? "; its copy may be read by root alone"
                                                        : "; its copy: " + opened.error().what;
        return;
    }
    const std::string build_id = capture::build_id_of_file(opened->get());
    if (!module.build_id.empty() && build_id != module.build_id) {
        file.problem += "; its copy is of another build";
        return;
    }
    file.file = std::move(*opened);
    file.path = directory + "/" + module.kept;
    file.kept = true;
    file.verified = !module.build_id.empty();
    file.problem.clear();
}

void open_here(int root, const ImageModule &module, ModuleFile &file) {
    file = open_module(root, module);
    if (!file.file)
        file.path.clear();
    if (root < 0)
        open_on_host(module, file);
}

} // namespace

std::vector<ModuleFile> open_module_files(const CrashImage &image, const std::string &root, const std::string &kept) {
    std::vector<ModuleFile> files(image.modules.size());
    UniqueFd top;
    if (!root.empty()) {
        top = UniqueFd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (!top) {
            const std::string problem = Error::system(root).what;
            for (ModuleFile &file : files)
                file.problem = problem;
            return files;
        }
    }
    for (std::size_t i = 0; i < files.size(); ++i)
        if (i < module_files_max)
            open_here(top.get(), image.modules[i], files[i]);
        else
            files[i].problem = "not opened: the process had mapped more than " + std::to_string(module_files_max);
    // Where there is no directory, there is no copy.
    const UniqueFd copies(kept.empty() ? -1 : ::open(kept.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (std::size_t i = 0; i < std::min(files.size(), module_files_max); ++i)
        open_kept(copies.get(), kept, image.modules[i], files[i]);
    return files;
}

} // namespace incident::postmortem
