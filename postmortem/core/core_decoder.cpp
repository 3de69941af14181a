#include "postmortem/core/core_decoder.h"

#include <array>
#include <fcntl.h>
#include <lz4frame.h>
#include <lzma.h>
#include <sys/stat.h>
#include <vector>
#include <zstd.h>

namespace incident::postmortem {

namespace {

constexpr std::size_t input_size = 256 * 1024;
constexpr std::uint64_t xz_memory_max = 512u << 20; // xz -9 needs 65 MiB to decode

class PlainDecoder : public CoreDecoder {
public:
    PlainDecoder(UniqueFd fd, std::string path, std::uint64_t file_bytes)
        : CoreDecoder(std::move(fd), std::move(path), file_bytes) {}
    Result<std::size_t> read(std::span<std::uint8_t> into) override { return read_file(into); }
    const char *format() const override { return "plain"; }
};

// The input buffer that the three compressed formats share.
class BufferedDecoder : public CoreDecoder {
protected:
    BufferedDecoder(UniqueFd fd, std::string path, std::uint64_t file_bytes)
        : CoreDecoder(std::move(fd), std::move(path), file_bytes) {}

    // More input if all was used; nothing left means the file has ended.
    Result<std::span<const std::uint8_t>> input() {
        if (used_ == filled_) {
            const auto got = read_file(buffer_);
            if (!got)
                return fail(got.error());
            used_ = 0;
            filled_ = *got;
        }
        return std::span<const std::uint8_t>(buffer_).subspan(used_, filled_ - used_);
    }
    void use(std::size_t bytes) { used_ += bytes; }

private:
    std::vector<std::uint8_t> buffer_ = std::vector<std::uint8_t>(input_size);
    std::size_t used_ = 0, filled_ = 0;
};

class ZstdDecoder : public BufferedDecoder {
public:
    ZstdDecoder(UniqueFd fd, std::string path, std::uint64_t file_bytes)
        : BufferedDecoder(std::move(fd), std::move(path), file_bytes) {}
    ~ZstdDecoder() override { ZSTD_freeDCtx(context_); }
    const char *format() const override { return "zstd"; }

    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        ZSTD_outBuffer out{into.data(), into.size(), 0};
        while (out.pos == 0) {
            const auto bytes = input();
            if (!bytes)
                return fail(bytes.error());
            ZSTD_inBuffer in{bytes->data(), bytes->size(), 0};
            const std::size_t before = in.pos;
            if (bytes->empty() && frame_whole_)
                break;
            const std::size_t hint = ZSTD_decompressStream(context_, &out, &in);
            if (ZSTD_isError(hint))
                return damaged(ZSTD_getErrorName(hint));
            use(in.pos - before);
            frame_whole_ = hint == 0;
            if (bytes->empty() && out.pos == 0)
                return damaged("it ends in the middle");
        }
        return out.pos;
    }

private:
    ZSTD_DCtx *context_ = ZSTD_createDCtx();
    bool frame_whole_ = false;
};

class Lz4Decoder : public BufferedDecoder {
public:
    Lz4Decoder(UniqueFd fd, std::string path, std::uint64_t file_bytes)
        : BufferedDecoder(std::move(fd), std::move(path), file_bytes) {
        if (LZ4F_isError(LZ4F_createDecompressionContext(&context_, LZ4F_VERSION)))
            context_ = nullptr;
    }
    ~Lz4Decoder() override { LZ4F_freeDecompressionContext(context_); }
    const char *format() const override { return "lz4"; }

    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        if (!context_)
            return fail("out of memory for lz4");
        for (;;) {
            const auto bytes = input();
            if (!bytes)
                return fail(bytes.error());
            if (bytes->empty() && frame_whole_)
                return 0;
            std::size_t produced = into.size(), taken = bytes->size();
            const std::size_t hint = LZ4F_decompress(context_, into.data(), &produced, bytes->data(), &taken, nullptr);
            if (LZ4F_isError(hint))
                return damaged(LZ4F_getErrorName(hint));
            use(taken);
            frame_whole_ = hint == 0;
            if (produced > 0)
                return produced;
            if (bytes->empty())
                return damaged("it ends in the middle");
        }
    }

private:
    LZ4F_dctx *context_ = nullptr;
    bool frame_whole_ = false;
};

class XzDecoder : public BufferedDecoder {
public:
    XzDecoder(UniqueFd fd, std::string path, std::uint64_t file_bytes)
        : BufferedDecoder(std::move(fd), std::move(path), file_bytes) {
        started_ = lzma_stream_decoder(&stream_, xz_memory_max, LZMA_CONCATENATED);
    }
    ~XzDecoder() override { lzma_end(&stream_); }
    const char *format() const override { return "xz"; }

    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        if (started_ != LZMA_OK)
            return fail("out of memory for xz");
        stream_.next_out = into.data();
        stream_.avail_out = into.size();
        while (!ended_ && stream_.avail_out == into.size()) {
            const auto bytes = input();
            if (!bytes)
                return fail(bytes.error());
            stream_.next_in = bytes->data();
            stream_.avail_in = bytes->size();
            const lzma_ret result = lzma_code(&stream_, bytes->empty() ? LZMA_FINISH : LZMA_RUN);
            use(bytes->size() - stream_.avail_in);
            if (result == LZMA_STREAM_END)
                ended_ = true;
            else if (result == LZMA_MEMLIMIT_ERROR)
                return damaged("it asks for more memory than any xz level needs");
            else if (result == LZMA_BUF_ERROR)
                return damaged("it ends in the middle");
            else if (result != LZMA_OK)
                return damaged("xz cannot decode it");
        }
        return into.size() - stream_.avail_out;
    }

private:
    lzma_stream stream_ = LZMA_STREAM_INIT;
    lzma_ret started_;
    bool ended_ = false;
};

bool starts_with(std::span<const std::uint8_t> bytes, std::initializer_list<std::uint8_t> magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

} // namespace

Result<std::unique_ptr<CoreDecoder>> CoreDecoder::open(const std::string &path) {
    // O_NONBLOCK: the path may come from a bundle and name a FIFO.
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW));
    if (!fd) {
        Error error = Error::system("cannot open the core " + path);
        if (error.code == EACCES)
            error.what += " (run as root, or as the user who owned the process)";
        return fail(std::move(error));
    }
    struct stat status {};
    if (fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
        return fail("the core " + path + " is not a regular file");
    std::array<std::uint8_t, 6> magic{};
    const ssize_t got = pread(fd.get(), magic.data(), magic.size(), 0);
    const auto size = static_cast<std::uint64_t>(status.st_size);
    const std::span<const std::uint8_t> head(magic.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    std::unique_ptr<CoreDecoder> decoder;
    if (starts_with(head, {0x28, 0xb5, 0x2f, 0xfd}))
        decoder = std::make_unique<ZstdDecoder>(std::move(fd), path, size);
    else if (starts_with(head, {0x04, 0x22, 0x4d, 0x18}))
        decoder = std::make_unique<Lz4Decoder>(std::move(fd), path, size);
    else if (starts_with(head, {0xfd, '7', 'z', 'X', 'Z', 0x00}))
        decoder = std::make_unique<XzDecoder>(std::move(fd), path, size);
    else
        decoder = std::make_unique<PlainDecoder>(std::move(fd), path, size);
    return decoder;
}

Result<std::size_t> CoreDecoder::read_file(std::span<std::uint8_t> into) {
    for (;;) {
        const ssize_t got = ::read(fd_.get(), into.data(), into.size());
        if (got >= 0) {
            consumed_ += static_cast<std::uint64_t>(got);
            return static_cast<std::size_t>(got);
        }
        if (errno != EINTR)
            return fail(Error::system("cannot read the core " + path_));
    }
}

std::unexpected<Error> CoreDecoder::damaged(const std::string &why) const {
    return fail("the core " + path_ + " is damaged: " + why);
}

} // namespace incident::postmortem
