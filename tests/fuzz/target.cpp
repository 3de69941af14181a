#include "tests/fuzz/target.h"

#include "capture/decode/decode_text.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace incident::fuzz {

namespace {

std::int64_t processor_ms() {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

} // namespace

std::vector<Target> &targets() {
    static std::vector<Target> all;
    return all;
}

void run(const Target &target, std::string_view input) {
    const std::int64_t begun = processor_ms();
    target.run(input);
    const std::int64_t took = processor_ms() - begun;
    if (took > input_ms_max)
        std::fprintf(stderr, "%lld ms of processor time\n", static_cast<long long>(took));
    must(took <= input_ms_max, "one input is read in a short time");
}

void must(bool held, std::string_view what) {
    if (held)
        return;
    std::fprintf(stderr, "does not hold: %.*s\n", static_cast<int>(what.size()), what.data());
    std::abort();
}

void must_be_harmless(std::string_view text, std::string_view what) {
    while (!text.empty()) {
        const capture::CodePoint point = capture::next_code_point(text);
        must(text.front() == '\n' || (point.valid && capture::is_printable(point.value)), what);
        text.remove_prefix(point.length);
    }
}

std::string_view Input::bytes(std::size_t most) {
    const std::string_view taken = rest_.substr(0, most);
    rest_.remove_prefix(taken.size());
    return taken;
}

std::vector<std::string_view> parts_of(std::string_view input) {
    constexpr std::string_view separator = "\n%%\n";
    std::vector<std::string_view> parts;
    for (std::size_t end; (end = input.find(separator)) != std::string_view::npos;) {
        parts.push_back(input.substr(0, end));
        input.remove_prefix(end + separator.size());
    }
    parts.push_back(input);
    return parts;
}

} // namespace incident::fuzz
