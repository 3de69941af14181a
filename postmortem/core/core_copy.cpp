#include "postmortem/core/core_copy.h"

#include "capture/os/elf_headers.h"
#include "postmortem/terminal/times.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <vector>

namespace incident::postmortem {

namespace {

constexpr std::size_t page = 4096;
// The head is collected until all program headers are in it; 65,535 of them take 3.5 MiB.
constexpr std::size_t head_max = 8u << 20;
// Beyond the stated end: notes of tools that append, rounding.  More is no core.
constexpr std::uint64_t tail_slack = 1u << 20;

bool all_zero(std::span<const std::uint8_t> bytes) {
    return bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

class Writer {
public:
    Writer(int fd, bool stream, const std::string &place) : fd_(fd), stream_(stream), place_(place) {}

    Status write(std::span<const std::uint8_t> bytes) {
        while (!bytes.empty()) {
            const std::size_t length = std::min<std::size_t>(page - offset_ % page, bytes.size());
            std::size_t run = length;
            // Runs of pages that are not zero go out in one write.
            const bool hole = !stream_ && all_zero(bytes.first(length));
            while (run < bytes.size()) {
                const auto next = bytes.subspan(run, std::min(page, bytes.size() - run));
                if ((!stream_ && all_zero(next)) != hole)
                    break;
                run += next.size();
            }
            if (!hole)
                if (const Status written = write_all(bytes.first(run)); !written)
                    return written;
            offset_ += run;
            bytes = bytes.subspan(run);
        }
        return {};
    }

    Status finish() {
        if (!stream_ && ftruncate(fd_, static_cast<off_t>(offset_)) != 0)
            return failed();
        return {};
    }

    Status check_space(std::uint64_t needed) const {
        struct statvfs space {};
        if (stream_ || fstatvfs(fd_, &space) != 0)
            return {};
        const std::uint64_t available = std::uint64_t{space.f_bavail} * space.f_frsize;
        if (available >= needed)
            return {};
        return fail(
            fmt::format("the core takes {} in {}, where {} are free", size_text(needed), place_, size_text(available)));
    }

    std::uint64_t offset() const { return offset_; }

private:
    Status write_all(std::span<const std::uint8_t> bytes) {
        std::uint64_t at = offset_;
        while (!bytes.empty()) {
            const ssize_t written = stream_ ? ::write(fd_, bytes.data(), bytes.size())
                                            : ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
            if (written < 0 && errno != EINTR)
                return failed();
            if (written > 0) {
                bytes = bytes.subspan(static_cast<std::size_t>(written));
                at += static_cast<std::uint64_t>(written);
            }
        }
        return {};
    }
    Status failed() const { return fail(Error::system("cannot write the core to " + place_)); }

    int fd_;
    bool stream_;
    const std::string &place_;
    std::uint64_t offset_ = 0;
};

} // namespace

Result<std::optional<std::uint64_t>> stated_core_size(std::span<const std::uint8_t> head) {
    if (head.size() < sizeof(Elf64_Ehdr)) // of a 32-bit core more follows, too
        return std::nullopt;
    const capture::ElfReader read = capture::reader_of_head(head);
    const auto header = capture::read_elf_header(read);
    if (!header)
        return fail(header.error());
    if (header->e_type != ET_CORE)
        return fail("an ELF file, but no core");
    std::uint64_t end = header->e_phoff + std::uint64_t{header->e_phnum} * header->e_phentsize;
    if (header->e_phoff > head_max || end > head_max)
        return fail("an ELF core whose program headers are not at its start");
    if (head.size() < end)
        return std::nullopt;
    for (const Elf64_Phdr &segment : capture::read_program_headers(read, *header, header->e_phnum)) {
        std::uint64_t last = 0;
        if (__builtin_add_overflow(segment.p_offset, segment.p_filesz, &last) || last > INT64_MAX)
            return fail("an ELF core with a segment beyond any file");
        end = std::max(end, last);
    }
    // gdb's generate-core-file appends section headers, the kernel one when there are
    // more than 65,534 segments (e_phnum is PN_XNUM then).
    const std::uint64_t sections = std::uint64_t{header->e_shnum} * header->e_shentsize;
    if (header->e_shoff > INT64_MAX - sections)
        return fail("an ELF core with section headers beyond any file");
    if (header->e_shoff)
        end = std::max(end, header->e_shoff + sections);
    return end;
}

Result<CopiedCore> copy_core(CoreDecoder &core, int into, bool stream, const std::string &place,
                             const CopyControl &control) {
    using Clock = std::chrono::steady_clock;
    Writer writer(into, stream, place);
    std::vector<std::uint8_t> head; // until the size is known
    std::optional<std::uint64_t> stated;
    auto shown = Clock::now();
    for (;;) {
        if (control.interrupted && control.interrupted())
            return fail(Error{"interrupted", EINTR});
        const auto got = core.next();
        if (!got)
            return fail(got.error());
        std::span<const std::uint8_t> bytes = *got;
        if (!stated) {
            head.insert(head.end(), bytes.begin(), bytes.end());
            const auto size = stated_core_size(head);
            if (!size)
                return fail(Error(size.error()).in("not usable as a core"));
            stated = *size;
            if (!stated && (got->empty() || head.size() > head_max))
                return fail("not usable as a core: it ends before its headers do");
            if (!stated)
                continue;
            if (const Status space = writer.check_space(*stated); !space)
                return fail(space.error());
            bytes = head;
        }
        if (got->empty())
            break;
        if (writer.offset() + bytes.size() > *stated + tail_slack)
            return fail("not usable as a core: it goes on beyond the end its headers state");
        if (const Status written = writer.write(bytes); !written)
            return fail(written.error());
        if (control.progress && Clock::now() - shown > std::chrono::milliseconds(200)) {
            shown = Clock::now();
            control.progress(core.consumed(), core.file_bytes());
        }
    }
    if (const Status finished = writer.finish(); !finished)
        return fail(finished.error());
    return CopiedCore{writer.offset(), writer.offset() < *stated};
}

} // namespace incident::postmortem
