// One mapped ELF file: its address, code bytes, unwind tables and symbols. Everything is parsed when it is first
// needed, and only in the capped child.
#pragma once

#include "capture/os/maps.h"
#include "capture/os/result.h"
#include "postmortem/image/crash_image.h"
#include "postmortem/unwind/go_table.h"
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
    // The caller keeps `fd`. kept: the file is a copy without code and data (capture/modules), of which no byte is read
    // as one of memory. An Error says what is wrong with the file.
    static Result<std::unique_ptr<ElfModule>> open(int fd, const ImageModule &module, const capture::Maps &maps,
                                                   Isa isa, bool kept = false);
    // An ELF image as mapped at `start`: the vdso.
    static Result<std::unique_ptr<ElfModule>> of_memory(std::string bytes, UserAddress start, Isa isa);

    LoadBias bias() const { return bias_; }
    Elf *elf() const { return elf_.get(); }
    std::string build_id() const; // hex; "" none

    // Copies bytes of its read-only segments from the file; returns how many could be read.
    std::size_t read(UserAddress address, std::span<char> into) const;

    // The rules of .eh_frame for an address; null if it has none.
    FrameHandle eh_frame(LinkAddress linked);
    // True if the process begins there: at the file's entry point, or a few bytes after it.
    bool is_entry(UserAddress address) const;
    const Symbols &symbols() const; // sorted when first used
    const GoTable *go() const;      // of a Go program; null: it is none, or its table cannot be read
    // Adds the symbols of its debug file, which must outlive this object.
    void add_symbols(Elf *debug_file);

private:
    explicit ElfModule(Isa isa) : isa_(isa) {}
    Status read_segments();
    Status place(const ImageModule &module, const capture::Maps &maps);

    struct Segment {
        FileOffset offset;
        LinkAddress address;
        std::uint64_t file_size = 0;
        bool write = false, execute = false;
    };
    Isa isa_;
    std::string bytes_; // from of_memory(); elf_ refers to them
    int fd_ = -1;
    bool kept_ = false;
    ElfHandle elf_;
    std::vector<Segment> segments_;
    LoadBias bias_;
    LinkAddress entry_; // 0: none
    bool cfi_tried_ = false;
    CfiHandle cfi_;
    mutable bool symbols_read_ = false;
    mutable Symbols symbols_;
    mutable bool go_tried_ = false;
    mutable std::optional<GoTable> go_;
    Elf *debug_file_ = nullptr;
};

// The hex of an ELF file's build-id note; "" none.
std::string build_id_of_elf(Elf *elf);

} // namespace incident::postmortem
