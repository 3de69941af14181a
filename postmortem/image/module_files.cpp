#include "postmortem/image/module_files.h"

#include "capture/collect/collect.h"
#include "capture/os/process_files.h"

#include <cerrno>
#include <fcntl.h>

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

} // namespace

std::vector<ModuleFile> open_module_files(const CrashImage &image, const std::string &root) {
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
            files[i] = open_module(top.get(), image.modules[i]);
        else
            files[i].problem = "not opened: the process had mapped more than " + std::to_string(module_files_max);
    return files;
}

} // namespace incident::postmortem
