#include "postmortem/terminal/output.h"

#include "capture/os/environment.h"
#include "postmortem/terminal/child.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace incident::postmortem {

namespace {

constexpr std::size_t buffer_size = 64 * 1024;

bool set(const char *variable) {
    const char *value = capture::environment(variable);
    return value && *value;
}

std::string pager_command() {
    const char *pager = capture::environment("PAGER");
    // An empty PAGER is the usual way to ask for none.
    return pager ? pager : "less -FRX";
}

} // namespace

std::string Output::tone(Tone tone, std::string_view text) const {
    if (!colour_ || tone == Tone::Plain || text.empty())
        return std::string(text);
    const char *start = "";
    switch (tone) {
    case Tone::Plain:
        break;
    case Tone::Dim:
        start = "\x1b[2m";
        break;
    case Tone::Bold:
        start = "\x1b[1m";
        break;
    case Tone::Bad:
        start = "\x1b[31m";
        break;
    case Tone::Good:
        start = "\x1b[32m";
        break;
    case Tone::Warn:
        start = "\x1b[33m";
        break;
    }
    return std::string(start) + std::string(text) + "\x1b[0m";
}

FdOutput::FdOutput(int fd) : fd_(fd), terminal_(isatty(fd) == 1) {
    if (!terminal_)
        return;
    const char *term = capture::environment("TERM");
    colour_ = !set("NO_COLOR") && term && std::string_view(term) != "dumb";
    winsize size{};
    if (ioctl(fd, TIOCGWINSZ, &size) == 0)
        width_ = size.ws_col;
}

FdOutput::~FdOutput() {
    (void)finish();
}

void FdOutput::write(std::string_view text) {
    if (closed_ || error_)
        return;
    buffer_ += text;
    if (buffer_.size() >= buffer_size)
        flush();
}

void FdOutput::flush() {
    std::string_view rest = buffer_;
    while (!rest.empty() && !closed_ && !error_) {
        const ssize_t written = ::write(pipe_ ? pipe_.get() : fd_, rest.data(), rest.size());
        if (written >= 0)
            rest.remove_prefix(static_cast<std::size_t>(written));
        else if (errno == EPIPE)
            closed_ = true;
        else if (errno != EINTR)
            error_ = errno;
    }
    buffer_.clear();
}

void FdOutput::page() {
    if (!terminal_ || pipe_)
        return;
    const std::string command = pager_command();
    if (command.empty() || command == "cat")
        return;
    flush();
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return; // no pager is no reason not to print
    UniqueFd reading(ends[0]), writing(ends[1]);
    const auto child = spawn({"/bin/sh", "-c", command}, {.input = reading.get()});
    if (!child)
        return;
    // An interrupt is the pager's to handle while it shows what we print.
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    pipe_ = std::move(writing);
    pager_ = *child;
}

Status FdOutput::finish() {
    flush();
    if (pipe_) {
        pipe_.reset(); // the pager's end of input
        (void)wait_child(pager_);
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
    }
    if (error_)
        return fail(Error::system("cannot write the output", error_));
    return {};
}

} // namespace incident::postmortem
