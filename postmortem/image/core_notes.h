// Builds the PT_NOTE segment of a core, as the kernel writes it (fs/binfmt_elf.c).
#pragma once

#include "postmortem/image/crash_image.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

// A row of NT_FILE.
struct CoreFileMapping {
    UserAddress start, end;
    FileOffset offset;
    std::string path;
};

class CoreNotes {
public:
    explicit CoreNotes(Isa isa) : isa_(isa) {}

    // One note; name is "CORE" for all of them.
    void add(std::uint32_t type, std::string_view description);
    void add_prstatus(const CrashImage &image, const ImageThread &thread); // needs thread.registers
    void add_prpsinfo(const CrashImage &image);
    void add_siginfo(const CrashImage &image);
    void add_files(const std::vector<CoreFileMapping> &mappings);

    const std::string &bytes() const { return bytes_; }

private:
    Isa isa_;
    std::string bytes_;
};

} // namespace incident::postmortem
