#include "postmortem/core/core_decoder.h"

#include <archive.h>
#include <sys/stat.h>

namespace incident::postmortem {

namespace {

constexpr std::size_t input_size = 256 * 1024;

} // namespace

CoreDecoder::CoreDecoder(UniqueFd fd, std::string path, std::uint64_t file_bytes)
    : fd_(std::move(fd)), path_(std::move(path)), file_bytes_(file_bytes),
      archive_(archive_read_new(), archive_read_free) {}

Result<CoreDecoder> CoreDecoder::of(UniqueFd fd, const std::string &path) {
    struct stat status {};
    if (fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
        return fail("the core " + path + " is not a regular file");
    CoreDecoder core(std::move(fd), path, static_cast<std::uint64_t>(status.st_size));
    archive *reader = core.archive_.get();
    if (!reader)
        return fail("out of memory for the core " + path);
    archive_read_support_filter_zstd(reader);
    archive_read_support_filter_lz4(reader);
    archive_read_support_filter_xz(reader);
    archive_read_support_format_raw(reader);
    archive_read_support_format_empty(reader);
    archive_entry *entry = nullptr;
    if (archive_read_open_fd(reader, core.fd_.get(), input_size) != ARCHIVE_OK)
        return core.failed();
    const int begun = archive_read_next_header(reader, &entry);
    if (begun != ARCHIVE_OK && begun != ARCHIVE_EOF)
        return core.failed();
    core.ended_ = begun == ARCHIVE_EOF;
    return core;
}

Result<std::span<const std::uint8_t>> CoreDecoder::next() {
    const void *bytes = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    while (!ended_ && size == 0) {
        const int read = archive_read_data_block(archive_.get(), &bytes, &size, &offset);
        if (read != ARCHIVE_OK && read != ARCHIVE_EOF)
            return failed();
        ended_ = read == ARCHIVE_EOF;
    }
    return std::span(static_cast<const std::uint8_t *>(bytes), size);
}

bool CoreDecoder::compressed() const {
    return archive_filter_count(archive_.get()) > 1; // the last one is the file
}

std::uint64_t CoreDecoder::consumed() const {
    return static_cast<std::uint64_t>(archive_filter_bytes(archive_.get(), -1));
}

std::unexpected<Error> CoreDecoder::failed() const {
    // libarchive uses numbers below 0 for errors in a format; other numbers are errnos of the system.
    if (const int code = archive_errno(archive_.get()); code > 0)
        return fail(Error::system("cannot read the core " + path_, code));
    // The reason alone does not tell that the file was cut: xz's is "No progress is possible".
    const char *where = consumed() >= file_bytes_ ? " is damaged at its end: " : " is damaged: ";
    return fail("the core " + path_ + where + archive_error_string(archive_.get()));
}

} // namespace incident::postmortem
