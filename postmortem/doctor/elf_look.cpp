#include "postmortem/doctor/elf_look.h"

#include "capture/collect/collect.h"
#include "capture/os/unique_fd.h"
#include "postmortem/read/json_view.h"
#include "postmortem/unwind/capped_child.h"
#include "postmortem/unwind/debug_files.h"
#include "postmortem/unwind/handles.h"

#include <gelf.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace incident::postmortem::doctor {

namespace {

constexpr std::size_t files_a_child = 64;      // descriptors of a child are counted
constexpr std::uint64_t functions_max = 20000; // looked at in one file: enough to tell its build

// Code by its address as linked.
class Code {
public:
    explicit Code(Elf *elf) {
        std::size_t count = 0;
        if (elf_getphdrnum(elf, &count) != 0)
            return;
        std::size_t size = 0;
        const char *bytes = elf_rawfile(elf, &size);
        for (std::size_t i = 0; bytes && i < count; ++i) {
            GElf_Phdr header;
            if (gelf_getphdr(elf, static_cast<int>(i), &header) && header.p_type == PT_LOAD &&
                (header.p_flags & PF_X) && header.p_offset <= size && header.p_filesz <= size - header.p_offset)
                segments_.push_back({header.p_vaddr, {bytes + header.p_offset, header.p_filesz}});
        }
    }

    // The bytes from `address` on.
    std::span<const char> at(std::uint64_t address) const {
        for (const Segment &segment : segments_)
            if (address >= segment.address && address - segment.address < segment.bytes.size())
                return segment.bytes.subspan(address - segment.address);
        return {};
    }

private:
    struct Segment {
        std::uint64_t address = 0;
        std::span<const char> bytes;
    };
    std::vector<Segment> segments_;
};

bool begins_with(std::span<const char> bytes, std::string_view text) {
    return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// push %rbp; mov %rsp,%rbp, in either encoding of the latter, behind an endbr64.
bool sets_up_frame(std::span<const char> code) {
    if (begins_with(code, "\xf3\x0f\x1e\xfa"))
        code = code.subspan(4);
    return begins_with(code, "\x55\x48\x89\xe5") || begins_with(code, "\x55\x48\x8b\xec");
}

// How the addresses of a CIE's functions are encoded: "R" of a "z" augmentation (LSB, Core, 10.6.1).
std::uint8_t address_encoding(const Dwarf_CIE &cie) {
    constexpr std::uint8_t absolute = 0;
    const char *letters = cie.augmentation;
    const std::uint8_t *data = cie.augmentation_data;
    if (!letters || *letters != 'z' || !data)
        return absolute;
    for (std::size_t left = cie.augmentation_data_size; *++letters && left > 0;) {
        if (*letters == 'R')
            return *data;
        const std::size_t size = *letters == 'L' ? 1 : *letters == 'P' && (*data & 0x0f) == 0x0b ? 5 : left + 1;
        if (size > left)
            return absolute;
        data += size;
        left -= size;
    }
    return absolute;
}

void count_functions(Elf *elf, Elf_Data *data, std::uint64_t section, ElfReport &report) {
    constexpr std::uint8_t pcrel_sdata4 = 0x1b; // what gcc, clang and rustc write on x86-64
    const Code code(elf);
    const auto *ident = reinterpret_cast<const unsigned char *>(elf_getident(elf, nullptr));
    const auto *begin = static_cast<const std::uint8_t *>(data->d_buf);
    Dwarf_Off cie_at = ~0ull;
    std::uint8_t encoding = 0;
    for (Dwarf_Off at = 0, next = 0; report.functions < functions_max; at = next) {
        Dwarf_CFI_Entry entry;
        const int read = dwarf_next_cfi(ident, data, true, at, &next, &entry);
        if (read > 0 || next <= at) // the end, or nothing that could be skipped
            return;
        if (read < 0)
            continue;
        if (dwarf_cfi_cie_p(&entry)) {
            cie_at = at;
            encoding = address_encoding(entry.cie);
            continue;
        }
        if (entry.fde.CIE_pointer != cie_at || encoding != pcrel_sdata4 || entry.fde.end - entry.fde.start < 8)
            continue;
        std::int32_t relative = 0;
        std::memcpy(&relative, entry.fde.start, sizeof relative);
        const std::uint64_t field = section + static_cast<std::uint64_t>(entry.fde.start - begin);
        const auto bytes = code.at(field + static_cast<std::uint64_t>(static_cast<std::int64_t>(relative)));
        if (bytes.empty())
            continue;
        ++report.functions;
        report.frame_pointers += sets_up_frame(bytes);
    }
}

void look_at_tables(Elf *elf, ElfReport &report) {
    std::size_t names = 0;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return;
    for (Elf_Scn *scn = elf_nextscn(elf, nullptr); scn; scn = elf_nextscn(elf, scn)) {
        GElf_Shdr header;
        if (!gelf_getshdr(scn, &header) || header.sh_type == SHT_NOBITS)
            continue;
        const char *name = elf_strptr(elf, names, header.sh_name);
        if (!name || std::strcmp(name, ".eh_frame") != 0)
            continue;
        Elf_Data *data = elf_rawdata(scn, nullptr);
        if (!data || !data->d_buf || data->d_size <= 4) // the terminator alone
            continue;
        report.unwind_tables = true;
        count_functions(elf, data, header.sh_addr, report);
    }
}

ElfReport look(int file, const std::string &path, int debug_file, const std::string &debug_root) {
    ElfReport report;
    const ElfHandle elf(elf_begin(file, ELF_C_READ_MMAP, nullptr));
    if (!elf || elf_kind(elf.get()) != ELF_K_ELF) {
        report.problem = "it is not ELF";
        return report;
    }
    std::vector<std::string> notes;
    const DebugFile found = find_debug_file(elf.get(),
                                            {.root = debug_root,
                                             .module_path = path,
                                             .by_build_id = debug_file,
                                             .fetched = -1,
                                             .module_owner = owner_of(file)},
                                            notes);
    report.debug = found.where.empty() ? "none" : found.where;
    look_at_tables(elf.get(), report);
    return report;
}

Json to_json(std::size_t index, const ElfReport &report) {
    return {{"index", index},
            {"problem", report.problem},
            {"debug", report.debug},
            {"tables", report.unwind_tables},
            {"functions", report.functions},
            {"frame_pointers", report.frame_pointers}};
}

void add_answer(std::string_view line, std::vector<ElfReport> &reports, std::vector<bool> &answered) {
    const auto parsed = parse_json(line);
    if (!parsed)
        return;
    const JsonView view(*parsed);
    const std::uint64_t index = view["index"].natural().value_or(SIZE_MAX);
    if (index >= reports.size() || answered[index])
        return;
    answered[index] = true;
    ElfReport &one = reports[index];
    one.problem = view["problem"].text().substr(0, 4096);
    one.debug = view["debug"].text().substr(0, 4096);
    one.unwind_tables = view["tables"].flag();
    one.functions = view["functions"].count();
    one.frame_pointers = view["frame_pointers"].count();
}

// The files of one child, opened here because it gives up root before it reads anything.
struct Opened {
    UniqueFd file, debug;
};

std::vector<Opened> open_files(const std::vector<ElfInput> &files, std::size_t begin, std::size_t end,
                               const std::string &debug_root, std::vector<ElfReport> &reports,
                               std::vector<bool> &answered) {
    std::vector<Opened> opened(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
        if (answered[i])
            continue;
        UniqueFd &file = opened[i - begin].file;
        for (const std::string &place : files[i].places)
            if (!file)
                file = open_regular(place);
        if (!file) {
            answered[i] = true;
            reports[i].problem = "it cannot be opened";
            continue;
        }
        reports[i].build_id = capture::build_id_of_file(file.get());
        if (const std::string path = build_id_path(debug_root, reports[i].build_id); !path.empty())
            opened[i - begin].debug = open_regular(path);
    }
    return opened;
}

} // namespace

std::vector<ElfReport> look_at_elf_files(const std::vector<ElfInput> &files, const std::string &debug_root) {
    std::vector<ElfReport> reports(files.size());
    std::vector<bool> answered(files.size());
    for (std::size_t i = 0; i < files.size(); ++i) {
        reports[i].path = files[i].path;
        reports[i].library = files[i].library;
    }
    for (std::size_t begin = 0; begin < files.size();) {
        const std::size_t end = std::min(begin + files_a_child, files.size());
        const auto opened = open_files(files, begin, end, debug_root, reports, answered);
        const ChildEnd child = run_capped(
            {},
            [&](const AnswerLine &answer, std::atomic<std::uint32_t> *progress) {
                elf_version(EV_CURRENT);
                for (std::size_t i = begin; i < end; ++i) {
                    if (answered[i])
                        continue;
                    if (progress)
                        progress->store(static_cast<std::uint32_t>(i));
                    const Opened &one = opened[i - begin];
                    answer(dump_json(to_json(i, look(one.file.get(), files[i].path, one.debug.get(), debug_root))));
                }
            },
            [&](std::string_view line) { add_answer(line, reports, answered); });
        // The one it died of costs itself; the others are looked at by another child.
        while (begin < end && answered[begin])
            ++begin;
        if (begin < end) {
            const bool known = child.progress >= begin && child.progress < end && !answered[child.progress];
            const std::size_t culprit = known ? child.progress : begin;
            answered[culprit] = true;
            reports[culprit].problem = "it could not be read: " + (child.why.empty() ? "no answer" : child.why);
        }
    }
    return reports;
}

} // namespace incident::postmortem::doctor
