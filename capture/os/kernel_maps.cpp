#include "capture/os/kernel_maps.h"

#include "capture/os/auxv.h"
#include "capture/os/page_size.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace incident::capture {

namespace {

enum : std::uint16_t { vm_read = 1, vm_write = 2, vm_exec = 4 }; // include/linux/mm.h

// Its components stand last one first; a newline is printed as the kernel does (seq_path, "\n" only).
std::string path_text(std::string_view names, const bpf::maps_entry &entry) {
    std::vector<std::string_view> parts;
    std::size_t at = entry.path;
    for (unsigned i = 0; i < entry.parts && at < names.size(); ++i) {
        const std::string_view rest = names.substr(at);
        parts.push_back(rest.substr(0, rest.find('\0')));
        at += parts.back().size() + 1;
    }
    std::string path;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        path += '/';
        for (const char c : *part)
            path += c == '\n' ? std::string("\\012") : std::string(1, c);
    }
    if (entry.flags & bpf::MAPS_PATH_CUT)
        path.insert(0, "/..."); // no path of a file: nobody will look for it under a false name
    return path;
}

std::string name_of(const bpf::maps_entry &entry, const bpf::death_event &whose) {
    if (entry.start == auxv_value(saved_auxv(whose), AT_SYSINFO_EHDR))
        return "[vdso]";
    if (entry.start <= whose.start_stack && whose.start_stack < entry.end)
        return "[stack]";
    if (whose.start_brk < whose.brk && entry.start <= whose.brk && entry.end >= whose.start_brk)
        return "[heap]"; // vma_is_initial_heap(), include/linux/mm.h
    return "";
}

} // namespace

std::string kernel_maps_text(std::span<const std::uint8_t> bytes, const bpf::death_event &whose, bool &cut) {
    constexpr std::size_t entries_at = offsetof(bpf::maps_event, entry);
    if (bytes.size() < entries_at)
        return "";
    bpf::maps_event head; // without its entries
    std::memcpy(static_cast<void *>(&head), bytes.data(), entries_at);
    const std::string_view names(head.names, std::min<std::size_t>(head.names_length, MAPS_NAMES_LEN));
    cut = cut || head.cut;
    std::string text;
    for (std::size_t i = 0; i < head.count; ++i) {
        bpf::maps_entry entry;
        const std::size_t at = entries_at + i * sizeof entry;
        if (at + sizeof entry > bytes.size())
            break;
        std::memcpy(&entry, bytes.data() + at, sizeof entry);
        cut = cut || (entry.flags & bpf::MAPS_PATH_CUT);
        std::string name = entry.inode ? path_text(names, entry) : name_of(entry, whose);
        if (entry.inode && entry.flags & bpf::MAPS_DELETED)
            name += " (deleted)";
        // fs/proc/task_mmu.c, show_map_vma(): the name begins at column 73
        std::string line = fmt::format("{:08x}-{:08x} {}{}{}{} {:08x} {:02x}:{:02x} {} ", entry.start, entry.end,
                                       entry.flags & vm_read ? 'r' : '-', entry.flags & vm_write ? 'w' : '-',
                                       entry.flags & vm_exec ? 'x' : '-', entry.flags & bpf::MAPS_SHARED ? 's' : 'p',
                                       entry.inode ? entry.page_offset * page_size : 0, entry.device >> 20,
                                       entry.device & 0xfffff, entry.inode);
        if (!name.empty() && line.size() < 73)
            line.resize(73, ' ');
        text += line + name + '\n';
    }
    return text;
}

} // namespace incident::capture
