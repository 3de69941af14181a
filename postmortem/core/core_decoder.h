// A core file's bytes, whatever it was compressed with.  systemd-coredump writes zstd,
// lz4 or xz depending on how it was built, or plain with Compress=no.
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
    // Regular files only; the format is told by the first bytes, not by the name.
    static Result<CoreDecoder> open(const std::string &path);

    // The bytes that follow, valid until the next call; none at the end.
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
