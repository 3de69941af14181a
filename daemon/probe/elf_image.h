// Reads an ELF file that is to be probed: segments, sections, symbols, notes.  It uses pread instead of libelf, because
// the file belongs to the owner of the probed program, who may truncate it at any time (a mapping would then raise
// SIGBUS here) or fill it with anything.  Every offset is checked, and every table has a limit that is named below.
#pragma once

#include "capture/os/address.h"
#include "capture/os/elf_headers.h"
#include "capture/os/result.h"

#include <elf.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace incident::daemon {

using capture::FileOffset;
using capture::LinkAddress;

struct ElfSymbol {
    std::string_view name;       // without version; valid during the walk only
    std::string_view version;    // "" : none
    bool default_version = true; // "@@", or none
    LinkAddress address;
    std::uint64_t size = 0;
    unsigned char type = 0, binding = 0; // STT_*, STB_*
    bool defined = false;
};

struct ElfNote {
    std::string_view name; // without its NUL
    std::uint32_t type = 0;
    std::string_view description;
};

class ElfImage {
public:
    static constexpr std::uint32_t segments_max = 512;
    static constexpr std::uint32_t sections_max = 65536;
    static constexpr std::uint64_t names_max = 256ull << 20;  // bytes of one string table
    static constexpr std::uint64_t symbols_max = 16ull << 20; // of one symbol table
    static constexpr std::uint64_t versions_max = 4096;       // versions a library defines
    static constexpr std::uint64_t notes_max = 4ull << 20;    // bytes of one note section
    static constexpr std::uint64_t code_max = 1ull << 30;     // bytes of code that are walked

    // fd: a regular file, open for reading for as long as the image is used; not owned.
    // Error: not an x86-64 program or library.
    static Result<ElfImage> read(int fd);

    // Where the file has the byte that a program has at the address; nullopt if no segment holds it.  executable: only
    // segments that can be executed count.
    std::optional<FileOffset> file_offset(LinkAddress address, bool executable) const;
    // Up to `length` bytes there.
    std::vector<std::uint8_t> bytes(LinkAddress address, std::size_t length) const;

    // Calls `each` for each piece of the executable segments until it returns false.  The last `overlap` bytes of a
    // piece are also the first of the next.
    void walk_code(std::size_t overlap,
                   const std::function<bool(LinkAddress address, std::span<const std::uint8_t>)> &each) const;

    bool has_section(std::string_view name) const;
    std::optional<LinkAddress> section_address(std::string_view name) const;
    bool has_symbols() const;         // .symtab: the file is not stripped
    bool has_dynamic_symbols() const; // .dynsym
    // Calls `each` for each symbol of .symtab and .dynsym until it returns false.  Error: a table is larger than its
    // file or its limit.
    Status walk_symbols(const std::function<bool(const ElfSymbol &)> &each) const;
    // The notes in the sections of this name (SHT_NOTE).  A malformed note ends its section.
    void walk_notes(std::string_view section, const std::function<void(const ElfNote &)> &each) const;
    bool loads() const { return !segments_.empty(); } // false: a debug file may have none that holds bytes

private:
    struct Section {
        std::string name;
        Elf64_Shdr header{};
    };

    explicit ElfImage(int fd) : read_(capture::reader_of(fd)) {}
    bool read_at(std::uint64_t offset, void *to, std::size_t length) const;
    Status read_sections(const Elf64_Ehdr &header);
    const Section *section_of_type(std::uint32_t type) const;
    Result<std::string> names_of(const Section &section) const;
    std::vector<std::string> read_versions() const;
    Status walk_table(const Section &table, const std::function<bool(const ElfSymbol &)> &each, bool &go_on) const;

    capture::ElfReader read_;
    std::uint64_t size_ = 0;
    std::vector<Elf64_Phdr> segments_; // PT_LOAD
    std::vector<Section> sections_;
};

} // namespace incident::daemon
