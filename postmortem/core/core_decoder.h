// A core file's bytes, whatever it was compressed with.  systemd-coredump writes zstd,
// lz4 or xz depending on how it was built, or plain with Compress=no.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace incident::postmortem {

class CoreDecoder {
public:
    // Regular files only; the format is told by the first bytes, not by the name.
    static Result<std::unique_ptr<CoreDecoder>> open(const std::string &path);
    virtual ~CoreDecoder() = default;

    // Fills up to into.size() bytes; 0 is the end.
    virtual Result<std::size_t> read(std::span<std::uint8_t> into) = 0;
    virtual const char *format() const = 0; // "zstd", "lz4", "xz", "plain"
    std::uint64_t file_bytes() const { return file_bytes_; }
    std::uint64_t consumed() const { return consumed_; } // of file_bytes

protected:
    CoreDecoder(UniqueFd fd, std::string path, std::uint64_t file_bytes)
        : fd_(std::move(fd)), path_(std::move(path)), file_bytes_(file_bytes) {}
    Result<std::size_t> read_file(std::span<std::uint8_t> into);
    std::unexpected<Error> damaged(const std::string &why) const;

    UniqueFd fd_;
    std::string path_;
    std::uint64_t file_bytes_, consumed_ = 0;
};

} // namespace incident::postmortem
