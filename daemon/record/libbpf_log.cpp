#include "daemon/record/libbpf_log.h"

#include <bpf/libbpf.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace incident::daemon {

std::string &libbpf_log() {
    static thread_local std::string log;
    return log;
}

namespace {

int keep_libbpf_message(libbpf_print_level level, const char *format, va_list arguments) {
    if (level == LIBBPF_DEBUG)
        return 0;
    char line[4096];
    const int length = std::vsnprintf(line, sizeof(line), format, arguments);
    constexpr std::size_t cap = 64 * 1024;
    if (length > 0 && libbpf_log().size() < cap)
        libbpf_log().append(line, std::min<std::size_t>(length, sizeof(line) - 1));
    return length;
}

} // namespace

void keep_libbpf_messages() {
    libbpf_set_print(keep_libbpf_message);
}

Error libbpf_error(std::string_view doing, int code) {
    constexpr std::size_t lines = 6;
    const std::string &log = libbpf_log();
    std::size_t at = log.size();
    for (std::size_t seen = 0; at > 0 && seen <= lines; --at)
        if (log[at - 1] == '\n')
            ++seen;
    Error error = Error::system(doing, code);
    error.what.append("\n").append(log, at ? at + 1 : 0);
    return error;
}

} // namespace incident::daemon
