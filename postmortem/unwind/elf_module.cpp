#include "postmortem/unwind/elf_module.h"

#include "postmortem/unwind/go_file.h"

#include <elfutils/libdwelf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gelf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace incident::postmortem {

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t entry_bytes = 64;  // of code at the entry point: glibc's and musl's are shorter
constexpr std::size_t segments_max = 1024; // PT_LOADs looked at; a linker makes four

template <typename Place> Place page_of(Place place) {
    return Place(place.value & ~(page - 1));
}

} // namespace

std::string build_id_of_elf(Elf *elf) {
    const void *bits = nullptr;
    const ssize_t length = std::clamp<ssize_t>(dwelf_elf_gnu_build_id(elf, &bits), 0, 64);
    return fmt::format("{:02x}", fmt::join(std::span(static_cast<const unsigned char *>(bits), length), ""));
}

Result<std::unique_ptr<ElfModule>> ElfModule::open(int fd, const ImageModule &module, const capture::Maps &maps,
                                                   Isa isa, bool kept) {
    std::unique_ptr<ElfModule> opened(new ElfModule(isa));
    opened->fd_ = fd;
    opened->kept_ = kept;
    opened->elf_.reset(elf_begin(fd, ELF_C_READ_MMAP, nullptr));
    if (!opened->elf_)
        return fail(std::string("cannot be read as ELF: ") + elf_errmsg(-1));
    if (const Status read = opened->read_segments(); !read)
        return fail(read.error());
    if (const Status placed = opened->place(module, maps); !placed)
        return fail(placed.error());
    return opened;
}

Result<std::unique_ptr<ElfModule>> ElfModule::of_memory(std::string bytes, UserAddress start, Isa isa) {
    std::unique_ptr<ElfModule> opened(new ElfModule(isa));
    opened->bytes_ = std::move(bytes);
    opened->elf_.reset(elf_memory(opened->bytes_.data(), opened->bytes_.size()));
    if (!opened->elf_)
        return fail(std::string("cannot be read as ELF: ") + elf_errmsg(-1));
    if (const Status read = opened->read_segments(); !read)
        return fail(read.error());
    opened->bias_ = start - page_of(opened->segments_.front().address);
    return opened;
}

Status ElfModule::read_segments() {
    GElf_Ehdr header;
    if (elf_kind(elf_.get()) != ELF_K_ELF || !gelf_getehdr(elf_.get(), &header))
        return fail("is not ELF");
    const bool narrow = isa_ == Isa::i386;
    if (gelf_getclass(elf_.get()) != (narrow ? ELFCLASS32 : ELFCLASS64) ||
        header.e_machine != (narrow ? EM_386 : EM_X86_64))
        return fail(narrow ? "is not an i386 file" : "is not an x86-64 file");
    entry_ = LinkAddress(header.e_entry);
    std::size_t count = 0;
    if (elf_getphdrnum(elf_.get(), &count) != 0)
        return fail("has no program headers");
    for (std::size_t i = 0; i < count && segments_.size() < segments_max; ++i) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf_.get(), static_cast<int>(i), &segment) && segment.p_type == PT_LOAD)
            segments_.push_back({FileOffset(segment.p_offset), LinkAddress(segment.p_vaddr), segment.p_filesz,
                                 (segment.p_flags & PF_W) != 0, (segment.p_flags & PF_X) != 0});
    }
    if (segments_.empty())
        return fail("has no segment to load");
    return {};
}

// The executable segments tell best: pages of others may be in the file twice, where segments meet.
Status ElfModule::place(const ImageModule &module, const capture::Maps &maps) {
    std::optional<LoadBias> bias;
    for (const bool executable : {true, false}) {
        for (const capture::Mapping &mapping : maps.all()) {
            if (mapping.start < module.start || mapping.end > module.end || mapping.path != module.path ||
                mapping.inode != module.inode || mapping.execute != executable)
                continue;
            for (const Segment &segment : segments_) {
                const FileOffset begin = page_of(segment.offset);
                const std::uint64_t length = mapping.end - mapping.start;
                if (segment.execute != executable || mapping.offset + length <= begin ||
                    mapping.offset >= segment.offset + segment.file_size || (!executable && mapping.offset != begin))
                    continue;
                const LoadBias found = mapping.start + (begin - mapping.offset) - page_of(segment.address);
                if (bias && *bias != found)
                    return fail("is not mapped as its program headers say");
                bias = found;
                break;
            }
        }
        if (bias)
            break;
    }
    if (!bias)
        return fail("has no segment that is mapped where the process had one");
    bias_ = *bias;
    return {};
}

std::string ElfModule::build_id() const {
    return build_id_of_elf(elf_.get());
}

std::size_t ElfModule::read(UserAddress address, std::span<char> into) const {
    if (kept_)
        return 0;
    const LinkAddress linked = address - bias_;
    for (const Segment &segment : segments_) {
        if (segment.write || linked < segment.address || linked - segment.address >= segment.file_size)
            continue;
        const std::uint64_t at = linked - segment.address, offset = (segment.offset + at).value;
        const std::size_t length = std::min<std::uint64_t>(into.size(), segment.file_size - at);
        if (fd_ < 0) {
            if (offset > bytes_.size() || length > bytes_.size() - offset)
                return 0;
            std::memcpy(into.data(), bytes_.data() + offset, length);
            return length;
        }
        const ssize_t got = ::pread(fd_, into.data(), length, static_cast<off_t>(offset));
        return got > 0 ? static_cast<std::size_t>(got) : 0;
    }
    return 0;
}

FrameHandle ElfModule::eh_frame(LinkAddress linked) {
    if (!cfi_tried_) {
        cfi_tried_ = true;
        cfi_.reset(dwarf_getcfi_elf(elf_.get()));
    }
    Dwarf_Frame *frame = nullptr;
    if (cfi_ && dwarf_cfi_addrframe(cfi_.get(), linked.value, &frame) == 0)
        return FrameHandle(frame);
    return nullptr;
}

bool ElfModule::is_entry(UserAddress address) const {
    return entry_.value != 0 && address - bias_ >= entry_ && address - bias_ - entry_ < entry_bytes;
}

void ElfModule::add_symbols(Elf *debug_file) {
    debug_file_ = debug_file;
    symbols_read_ = false;
    symbols_ = {};
}

const GoTable *ElfModule::go() const {
    if (!go_tried_) {
        go_tried_ = true;
        go_ = go_table_of(elf_.get());
    }
    return go_ ? &*go_ : nullptr;
}

const Symbols &ElfModule::symbols() const {
    if (!symbols_read_) {
        symbols_read_ = true;
        symbols_.add(elf_.get());
        if (debug_file_)
            symbols_.add(debug_file_);
        symbols_.sort();
    }
    return symbols_;
}

} // namespace incident::postmortem
