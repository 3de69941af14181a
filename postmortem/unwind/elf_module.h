// One mapped ELF file: where it lies, its code bytes, unwind tables and symbols.  Everything is parsed
// when first asked for, in the capped child only.
#pragma once

#include "capture/os/maps.h"
#include "capture/os/result.h"
#include "postmortem/image/crash_image.h"
#include "postmortem/unwind/handles.h"
#include "postmortem/unwind/symbols.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace incident::postmortem {

class ElfModule {
public:
    // fd: stays the caller's.  An Error says what is wrong with the file.
    static Result<std::unique_ptr<ElfModule>> open(int fd, const ImageModule &module, const capture::Maps &maps);
    // An ELF image as mapped at `start`: the vdso.
    static Result<std::unique_ptr<ElfModule>> of_memory(std::string bytes, std::uint64_t start);

    // Address in the process - bias = address as linked.
    std::uint64_t bias() const { return bias_; }
    Elf *elf() const { return elf_.get(); }
    std::string build_id() const; // hex; "" none

    // Bytes of its read-only segments as the file has them; how many could be read.
    std::size_t read(std::uint64_t address, std::span<char> into) const;

    // .eh_frame's rules for a linked address; null where it has none.
    FrameHandle eh_frame(std::uint64_t linked);
    // Whether the process begins there: the file's entry point, or shortly behind it.
    bool is_entry(std::uint64_t address) const;
    const Symbols &symbols() const; // sorted when first used
    // More symbols: of its debug file, which must outlive this.
    void add_symbols(Elf *debug_file);

private:
    ElfModule() = default;
    Status read_segments();
    Status place(const ImageModule &module, const capture::Maps &maps);

    struct Segment {
        std::uint64_t offset = 0, address = 0, file_size = 0; // address: as linked
        bool write = false, execute = false;
    };
    std::string bytes_; // of_memory's, which elf_ refers to
    int fd_ = -1;
    ElfHandle elf_;
    std::vector<Segment> segments_;
    std::uint64_t bias_ = 0, entry_ = 0;
    bool cfi_tried_ = false;
    CfiHandle cfi_;
    mutable bool symbols_read_ = false;
    mutable Symbols symbols_;
    Elf *debug_file_ = nullptr;
};

// The hex of an ELF file's build-id note; "" none.
std::string build_id_of_elf(Elf *elf);

} // namespace incident::postmortem
