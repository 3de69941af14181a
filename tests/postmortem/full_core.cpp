#include "full_core.h"

#include "capture/collect/collect.h"
#include "capture/os/unique_fd.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <sys/procfs.h>

namespace incident::postmortem::test {

namespace {

template <typename T> T object_at(std::string_view bytes, std::size_t at) {
    T object{};
    if (at <= bytes.size() && sizeof object <= bytes.size() - at)
        std::memcpy(&object, bytes.data() + at, sizeof object);
    return object;
}

template <typename Visit> void each_segment(std::string_view core, Visit visit) {
    const auto header = object_at<Elf64_Ehdr>(core, 0);
    for (std::size_t i = 0; i < header.e_phnum; ++i)
        visit(object_at<Elf64_Phdr>(core, header.e_phoff + i * sizeof(Elf64_Phdr)));
}

void read_note(std::uint32_t type, std::string_view text, CrashImage &image) {
    if (type == NT_PRSTATUS) {
        const auto status = object_at<elf_prstatus>(text, 0);
        ImageThread thread;
        thread.tid = static_cast<std::uint32_t>(status.pr_pid);
        thread.is_triggers = image.threads.empty();
        thread.registers.emplace();
        std::memcpy(&*thread.registers, &status.pr_reg, sizeof status.pr_reg);
        if (thread.is_triggers)
            image.signal = status.pr_cursig;
        image.threads.push_back(thread);
    } else if (type == NT_PRPSINFO) {
        const auto info = object_at<elf_prpsinfo>(text, 0);
        image.pid = static_cast<std::uint32_t>(info.pr_pid);
        image.ppid = static_cast<std::uint32_t>(info.pr_ppid);
        image.comm.assign(info.pr_fname, strnlen(info.pr_fname, sizeof info.pr_fname));
        image.argv = {std::string(info.pr_psargs, strnlen(info.pr_psargs, sizeof info.pr_psargs))};
    } else if (type == NT_SIGINFO && !image.has_siginfo) { // gdb writes one for each thread
        std::memcpy(image.siginfo.data(), text.data(), std::min(text.size(), image.siginfo.size()));
        image.has_siginfo = true;
    } else if (type == NT_AUXV) {
        image.auxv = text;
    }
}

void read_notes(std::string_view notes, CrashImage &image) {
    auto aligned = [](std::size_t size) { return (size + 3) & ~std::size_t{3}; };
    for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
        const auto note = object_at<Elf64_Nhdr>(notes, at);
        const std::size_t text = at + sizeof note + aligned(note.n_namesz);
        read_note(note.n_type, notes.substr(text, note.n_descsz), image);
        at = text + aligned(note.n_descsz);
    }
}

ImageModule module_of(const capture::Mapping &mapping) {
    ImageModule module;
    module.path = mapping.path;
    module.start = mapping.start;
    module.first_offset = mapping.offset;
    module.inode = mapping.inode;
    module.major = mapping.major;
    module.minor = mapping.minor;
    const UniqueFd file(::open(mapping.path.c_str(), O_RDONLY | O_CLOEXEC));
    module.build_id = capture::build_id_of_file(file.get());
    return module;
}

} // namespace

std::string core_memory(std::string_view core, std::uint64_t address, std::size_t length) {
    std::string bytes;
    each_segment(core, [&](const Elf64_Phdr &segment) {
        const std::uint64_t at = address + bytes.size();
        if (segment.p_type == PT_LOAD && bytes.size() < length && at >= segment.p_vaddr &&
            at - segment.p_vaddr < segment.p_filesz)
            bytes += core.substr(segment.p_offset + (at - segment.p_vaddr),
                                 std::min(length - bytes.size(), segment.p_filesz - (at - segment.p_vaddr)));
    });
    return bytes;
}

CrashImage image_of_core(std::string_view core, std::string_view maps) {
    CrashImage image;
    each_segment(core, [&](const Elf64_Phdr &segment) {
        if (segment.p_type == PT_NOTE)
            read_notes(core.substr(segment.p_offset, segment.p_filesz), image);
    });
    image.maps = capture::Maps::parse(maps);
    image.maps_whole = true;
    for (const capture::Mapping &mapping : image.maps.all()) {
        if (!mapping.is_file())
            continue;
        if (image.modules.empty() || image.modules.back().path != mapping.path)
            image.modules.push_back(module_of(mapping));
        image.modules.back().end = mapping.end;
    }
    if (!image.modules.empty())
        image.exe = image.modules.front().path;
    auto keep = [&](std::uint64_t address, std::uint64_t length) {
        image.memory.add(address, core_memory(core, address, length));
    };
    for (const ImageThread &thread : image.threads) {
        const UserAddress below((thread.registers->rsp - 128) & ~std::uint64_t{4095});
        if (const capture::Mapping *stack = image.maps.find(below))
            keep(below.value, std::min(captured_stack, stack->end - below));
        keep(thread.registers->rip - 128, 256);
    }
    if (const auto vdso = image.aux(AT_SYSINFO_EHDR))
        if (const capture::Mapping *mapping = image.maps.find(UserAddress(*vdso)))
            keep(mapping->start.value, mapping->end - mapping->start);
    return image;
}

} // namespace incident::postmortem::test
