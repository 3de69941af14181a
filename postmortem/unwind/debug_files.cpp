#include "postmortem/unwind/debug_files.h"

#include "capture/os/process_files.h"
#include "postmortem/unwind/elf_module.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>

namespace incident::postmortem {

namespace {

std::string directory_of(const std::string &path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
}

// True if it has a section of that name, or of its older compressed form.
bool has_section(Elf *elf, std::string_view debug) {
    std::size_t names = 0;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return false;
    for (Elf_Scn *scn = elf_nextscn(elf, nullptr); scn; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr header;
        if (!gelf_getshdr(scn, &header) || header.sh_type == SHT_NOBITS)
            continue;
        const char *name = elf_strptr(elf, names, header.sh_name);
        if (name && (name == "." + std::string(debug) || name == ".z" + std::string(debug)))
            return true;
    }
    return false;
}

// Over the whole file, as .gnu_debuglink has it (gdb manual, "Separate Debug Files").
std::uint32_t crc_of(int fd) {
    uLong crc = 0;
    std::array<unsigned char, 65536> bytes;
    off_t at = 0;
    for (ssize_t n; (n = ::pread(fd, bytes.data(), bytes.size(), at)) > 0; at += n)
        crc = ::crc32(crc, bytes.data(), static_cast<uInt>(n));
    return static_cast<std::uint32_t>(crc);
}

// Where the executable segments lie.  Tools that separate debug information keep these headers.
std::vector<std::pair<std::uint64_t, std::uint64_t>> code_of(Elf *elf) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> code;
    std::size_t count = 0;
    if (!elf || elf_getphdrnum(elf, &count) != 0)
        return code;
    constexpr std::size_t most = 1024;
    for (std::size_t i = 0; i < std::min(count, most); ++i) {
        GElf_Phdr header;
        if (gelf_getphdr(elf, static_cast<int>(i), &header) && header.p_type == PT_LOAD && (header.p_flags & PF_X))
            code.emplace_back(header.p_vaddr, header.p_memsz);
    }
    return code;
}

class DebugFileSearch {
public:
    // module: whose debug information it is; nullptr: that of several.
    DebugFileSearch(Elf *module, std::string build_id, std::optional<std::uint32_t> module_owner,
                    std::vector<std::string> &notes)
        : module_(module), build_id_(std::move(build_id)), module_owner_(module_owner), notes_(notes) {}

    // crc: what a file without a build-id to compare must have
    bool take(UniqueFd fd, const std::string &where, const GElf_Word *crc = nullptr) {
        if (!fd)
            return false;
        if (const auto owner = owner_of(fd.get()); owner != 0u && owner != module_owner_)
            return reject(where, "it belongs neither to root nor to the owner of the module");
        return take_any(std::move(fd), where, crc);
    }

    // What was not found by a name.
    bool take_any(UniqueFd fd, const std::string &where, const GElf_Word *crc = nullptr) {
        if (!fd)
            return false;
        ElfHandle elf(elf_begin(fd.get(), ELF_C_READ_MMAP, nullptr));
        if (!elf || elf_kind(elf.get()) != ELF_K_ELF)
            return reject(where, "it is not ELF");
        if (!build_id_.empty()) {
            const std::string id = build_id_of_elf(elf.get());
            if (id != build_id_)
                return reject(where, "its build-id is " + (id.empty() ? "missing" : id));
        } else if (!crc || crc_of(fd.get()) != *crc) {
            return reject(where, "its checksum differs");
        }
        // Anybody can give a program the build-id of another one, whose names would then be given to its code.
        const auto code = code_of(elf.get());
        if (module_ && !code.empty() && code != code_of(module_))
            return reject(where, "it describes code that lies elsewhere: the module has the build-id of another file");
        found.where = where;
        found.fd = std::move(fd);
        found.elf = std::move(elf);
        found.module_owner = module_owner_;
        return true;
    }

    DebugFile found;

private:
    bool reject(const std::string &where, const std::string &why) {
        notes_.push_back(fmt::format("{} is not used: {}", where, why));
        return false;
    }
    Elf *module_;
    std::string build_id_;
    std::optional<std::uint32_t> module_owner_;
    std::vector<std::string> &notes_;
};

UniqueFd copy_of(int fd) {
    return UniqueFd(fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

} // namespace

std::string build_id_path(const std::string &root, const std::string &build_id) {
    const bool hex =
        std::ranges::all_of(build_id, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
    if (!hex || build_id.size() < 4)
        return "";
    return fmt::format("{}/.build-id/{}/{}.debug", root, build_id.substr(0, 2), build_id.substr(2));
}

std::optional<std::uint32_t> owner_of(int fd) {
    struct stat status {};
    return fd >= 0 && ::fstat(fd, &status) == 0 ? std::optional(status.st_uid) : std::nullopt;
}

UniqueFd open_regular(const std::string &path) {
    auto file = capture::open_regular(-1, path);
    return file ? std::move(*file) : UniqueFd();
}

DebugFile find_debug_file(Elf *module, const DebugSearch &search, std::vector<std::string> &notes) {
    const auto own = [&](const char *where) {
        DebugFile file;
        file.where = where;
        file.module_owner = search.module_owner;
        return file;
    };
    if (has_section(module, "debug_info"))
        return own("in the file");
    const std::string build_id = build_id_of_elf(module);
    DebugFileSearch files(module, build_id, search.module_owner, notes);
    const std::string by_id = build_id_path(search.root, build_id);
    if (!by_id.empty() && (files.take(copy_of(search.by_build_id), by_id) ||
                           (search.by_build_id < 0 && files.take(open_regular(by_id), by_id))))
        return std::move(files.found);

    GElf_Word crc = 0;
    if (const char *link = dwelf_elf_gnu_debuglink(module, &crc); link && *link && !std::strchr(link, '/')) {
        const std::string beside = directory_of(search.module_path);
        for (const std::string &path :
             {beside + "/" + link, beside + "/.debug/" + link, search.root + beside + "/" + link})
            if (path != search.module_path && files.take(open_regular(path), path, &crc))
                return std::move(files.found);
    }
    if (files.take_any(copy_of(search.fetched), "debuginfod"))
        return std::move(files.found);
    // Of a Go program these are all that a kept copy has to unwind by.
    if (has_section(module, "debug_frame"))
        return own("in the file: its frames alone");
    return {};
}

DebugFile find_alternate(Dwarf *dwarf, const std::string &root, const DebugFile &beside,
                         std::vector<std::string> &notes) {
    const char *name = nullptr;
    const void *id = nullptr;
    const ssize_t length = dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &id);
    if (length <= 0 || length > 64 || !name)
        return {};
    std::string build_id;
    for (ssize_t i = 0; i < length; ++i)
        build_id += fmt::format("{:02x}", static_cast<const unsigned char *>(id)[i]);
    DebugFileSearch files(nullptr, build_id, beside.module_owner, notes);
    const std::string by_id = build_id_path(root, build_id);
    if (!by_id.empty() && files.take(open_regular(by_id), by_id))
        return std::move(files.found);
    const std::string path = *name == '/' ? name : directory_of(beside.where) + "/" + name;
    if (!files.take(open_regular(path), path))
        notes.push_back(fmt::format("{} shares debug information with {}, which is not there", beside.where, name));
    return std::move(files.found);
}

} // namespace incident::postmortem
