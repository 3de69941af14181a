#include "postmortem/image/debugger_files.h"

#include "capture/os/dir_at.h"

#include <nlohmann/json.hpp>

#include <climits>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace incident::postmortem {

namespace {

constexpr std::ptrdiff_t depth_max = 128; // so deep a tree would be hard to remove

// Makes root/path a link to target.  A path comes from a bundle: no component of it may lead out, and a link that is
// there already is not followed.
Status make_link(int root, std::string_view path, const std::string &target) {
    if (path.size() >= PATH_MAX || std::ranges::count(path, '/') > depth_max)
        return fail("it is too long");
    UniqueFd at(::openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (;;) {
        path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
        const std::size_t end = path.find('/');
        const std::string name(path.substr(0, end));
        if (name.empty() || name == "." || name == "..")
            return fail("it is no path");
        if (end == std::string_view::npos) {
            if (::symlinkat(target.c_str(), at.get(), name.c_str()) != 0 && errno != EEXIST)
                return fail(Error::system(name));
            return {};
        }
        if (::mkdirat(at.get(), name.c_str(), 0700) != 0 && errno != EEXIST)
            return fail(Error::system(name));
        UniqueFd next(::openat(at.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!next)
            return fail(Error::system(name));
        at = std::move(next);
        path.remove_prefix(end);
    }
}

std::string_view file_name(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

Status write_list(const std::string &path, const std::string &text) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd)
        return fail(Error::system(path));
    return capture::write_all(fd.get(), {reinterpret_cast<const std::uint8_t *>(text.data()), text.size()});
}

} // namespace

Result<DebuggerFiles> debugger_files(const CrashImage &image, const std::vector<ModuleFile> &files,
                                     const std::string &directory) {
    DebuggerFiles made;
    const auto elsewhere = [&](std::size_t i) { return files[i].file && files[i].path != image.modules[i].path; };
    const std::string program = image.program_path();
    // Also a file that is nowhere may not be taken for the one that stands at its path now.
    bool needed = false;
    std::map<std::string_view, std::string_view> libraries; // file name → path; "" of two files with one name
    for (std::size_t i = 0; i < files.size(); ++i) {
        const std::string &path = image.modules[i].path;
        needed |= elsewhere(i) || files[i].changed;
        const auto [known, first] = libraries.emplace(file_name(path), path);
        if (!first && known->second != path)
            known->second = "";
    }
    if (!needed)
        return made;
    const auto make = [&directory](const char *name, std::string &path, UniqueFd &fd) -> Status {
        path = directory + "/" + name;
        if (::mkdir(path.c_str(), 0700) != 0)
            return fail(Error::system(path));
        fd = UniqueFd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        return fd ? Status() : fail(Error::system(path));
    };
    UniqueFd root, by_name;
    for (const Status &done : {make("root", made.sysroot, root), make("libraries", made.libraries, by_name)})
        if (!done)
            return fail(done.error());
    // All are in the list: without the program's file a debugger finds no library, also one that is where it was.
    nlohmann::json list = nlohmann::json::array();
    for (std::size_t i = 0; i < files.size(); ++i) {
        const ImageModule &module = image.modules[i];
        if (!files[i].file)
            continue;
        const bool is_program = module.path == program;
        if (!files[i].kept) {
            // Where no link can be made, the list has it all the same.
            (void)make_link(root.get(), module.path, files[i].path);
            if (const auto name = file_name(module.path); libraries[name] == module.path)
                (void)make_link(by_name.get(), name, files[i].path);
            if (is_program)
                made.executable = files[i].path;
        } else if (is_program) {
            made.warning =
                fmt::format("{} is gone: its names come from the copy that was kept of it, which has no code "
                            "and no data",
                            module.path);
        }
        list.push_back({{"file", files[i].path},
                        {"path", module.path},
                        {"start", module.start.value},
                        {"offset", module.first_offset.value},
                        {"copy", files[i].kept}});
    }
    // A loader may know a library by the path over the links that distributions have there.
    for (const char *name : {"bin", "lib", "lib32", "lib64", "libx32", "sbin"})
        (void)::symlinkat((std::string("usr/") + name).c_str(), root.get(), name); // where it has none of its own
    made.list = directory + "/modules.json";
    if (const Status written =
            write_list(made.list, list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
        !written)
        return fail(written.error());
    return made;
}

} // namespace incident::postmortem
