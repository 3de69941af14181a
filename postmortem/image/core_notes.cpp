#include "postmortem/image/core_notes.h"

#include "postmortem/image/elf_layout.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <sys/procfs.h>

namespace incident::postmortem {

namespace {

template <typename T> std::string_view bytes_of(const T &object) {
    return {reinterpret_cast<const char *>(&object), sizeof object};
}

// Copies what fits and leaves a NUL behind it.
template <std::size_t N> void put_text(char (&to)[N], std::string_view text) {
    std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}

} // namespace

void CoreNotes::add(std::uint32_t type, std::string_view description) {
    constexpr std::string_view name("CORE", 5);
    const Elf64_Nhdr header{name.size(), static_cast<Elf64_Word>(description.size()), type};
    bytes_ += bytes_of(header);
    bytes_ += name;
    bytes_.resize((bytes_.size() + 3) & ~std::size_t{3});
    bytes_ += description;
    bytes_.resize((bytes_.size() + 3) & ~std::size_t{3});
}

void CoreNotes::add_prstatus(const CrashImage &image, const ImageThread &thread) {
    elf_prstatus status;
    std::memset(&status, 0, sizeof status); // padding too: the bytes are written
    // every thread's has the signal that killed the process (fill_thread_core_info)
    status.pr_info.si_signo = image.signal;
    status.pr_cursig = static_cast<short>(image.signal);
    status.pr_pid = static_cast<pid_t>(thread.tid);
    status.pr_ppid = static_cast<pid_t>(image.ppid);
    static_assert(sizeof status.pr_reg == sizeof(user_regs_struct)); // one layout, two names: bits/procfs.h
    std::memcpy(&status.pr_reg, &*thread.registers, sizeof status.pr_reg);
    add(NT_PRSTATUS, bytes_of(status));
}

void CoreNotes::add_prpsinfo(const CrashImage &image) {
    elf_prpsinfo info;
    std::memset(&info, 0, sizeof info);
    info.pr_sname = 'R'; // a dying thread runs
    info.pr_uid = image.uid;
    info.pr_gid = image.gid;
    info.pr_pid = static_cast<int>(image.pid);
    info.pr_ppid = static_cast<int>(image.ppid);
    put_text(info.pr_fname, image.comm);
    std::string arguments;
    for (const std::string &argument : image.argv) {
        if (!arguments.empty())
            arguments += ' ';
        arguments += argument;
        if (arguments.size() >= sizeof info.pr_psargs)
            break;
    }
    put_text(info.pr_psargs, arguments);
    add(NT_PRPSINFO, bytes_of(info));
}

// count, page size, {start, end, offset in pages} each, then the paths (fill_files_note).
void CoreNotes::add_files(const std::vector<CoreFileMapping> &mappings) {
    std::string rows, paths;
    auto word = [&](std::uint64_t value) { rows += bytes_of(value); };
    word(mappings.size());
    word(page_size);
    for (const CoreFileMapping &mapping : mappings) {
        word(mapping.start);
        word(mapping.end);
        word(mapping.offset / page_size);
        paths.append(mapping.path).push_back('\0');
    }
    add(NT_FILE, rows + paths);
}

} // namespace incident::postmortem
