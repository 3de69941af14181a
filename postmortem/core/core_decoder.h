// Reads a core file, however it is compressed. systemd-coredump writes zstd, lz4 or xz, depending on how it was built,
// and uncompressed files with Compress=no.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct archive;

namespace incident::postmortem {

class CoreDecoder {
public:
    // Reads an open regular file from its beginning. The first bytes say which format it is; `path` is its name in
    // errors.
    static Result<CoreDecoder> of(UniqueFd fd, const std::string &path);

    // The next bytes, valid until the next call; empty at the end.
    Result<std::span<const std::uint8_t>> next();
    bool compressed() const;
    std::uint64_t file_bytes() const { return file_bytes_; }
    std::uint64_t consumed() const; // of file_bytes

private:
    CoreDecoder(UniqueFd fd, std::string path, std::uint64_t file_bytes);
    std::unexpected<Error> failed() const;

    UniqueFd fd_;
    std::string path_;
    std::uint64_t file_bytes_;
    std::unique_ptr<archive, int (*)(archive *)> archive_;
    bool ended_ = false;
};

} // namespace incident::postmortem
