// Where a verb writes: a terminal, a pager, a file, or a test's string.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <string>
#include <string_view>
#include <sys/types.h>

namespace incident::postmortem {

enum class Tone { Plain, Dim, Bold, Bad, Good, Warn };

class Output {
public:
    virtual ~Output() = default;
    virtual void write(std::string_view text) = 0;
    // The reader has gone (head, or a pager that was closed), so nothing more needs to be written.
    virtual bool closed() const { return false; }
    // Announces long output: on a terminal it goes through the pager from now on.
    virtual void page() {}
    virtual void flush() {}
    virtual bool terminal() const { return false; }
    virtual std::size_t width() const { return 0; } // columns; 0: unlimited

    void line(std::string_view text) {
        write(text);
        write("\n");
    }
    // Adds a colour to a text if colours are wanted. The text must be printable already.
    std::string tone(Tone tone, std::string_view text) const;

protected:
    bool colour_ = false;
};

class StringOutput : public Output {
public:
    void write(std::string_view text) override { text_ += text; }
    const std::string &text() const { return text_; }

private:
    std::string text_;
};

// Buffers its output. A failed write is kept as an error; EPIPE only sets closed().
class FdOutput : public Output {
public:
    explicit FdOutput(int fd);
    ~FdOutput() override;
    FdOutput(const FdOutput &) = delete;
    FdOutput &operator=(const FdOutput &) = delete;

    void write(std::string_view text) override;
    bool closed() const override { return closed_; }
    void page() override;
    bool terminal() const override { return terminal_; }
    std::size_t width() const override { return width_; }
    void flush() override;
    // Flushes and waits for the pager, if there is one.
    Status finish();

private:
    int fd_;
    bool terminal_ = false;
    bool closed_ = false;
    std::size_t width_ = 0;
    int error_ = 0;
    UniqueFd pipe_; // to the pager
    pid_t pager_ = -1;
    std::string buffer_;
};

} // namespace incident::postmortem
