#include "capture/collect/vdso.h"

#include <elf.h>
#include <sys/auxv.h>

namespace incident::capture {

std::string_view own_vdso() {
    const auto *base = reinterpret_cast<const char *>(getauxval(AT_SYSINFO_EHDR)); // NOLINT: the kernel's address
    if (!base)
        return {};
    const auto *header = reinterpret_cast<const Elf64_Ehdr *>(base); // the section headers are the last of it
    return {base, header->e_shoff + static_cast<std::size_t>(header->e_shnum) * header->e_shentsize};
}

} // namespace incident::capture
