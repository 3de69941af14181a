#include "capture/render/render_time.h"

#include <ctime>

namespace incident::capture {

std::string_view WallClock::text(WallTime time) {
    constexpr std::uint64_t second = 1'000'000'000;
    if (const std::uint64_t now = time.ns / second; now != second_) {
        const auto seconds = static_cast<std::time_t>(now); // at most the year 2554
        std::tm utc{};
        gmtime_r(&seconds, &utc);
        length_ = std::strftime(text_, sizeof text_, "%Y-%m-%dT%H:%M:%S.", &utc);
        second_ = now;
    }
    std::uint64_t rest = time.ns % second;
    for (std::size_t i = 9; i-- > 0; rest /= 10)
        text_[length_ + i] = static_cast<char>('0' + rest % 10);
    text_[length_ + 9] = 'Z';
    return {text_, length_ + 10};
}

std::string wall_text(WallTime time) {
    return std::string(WallClock({}).text(time));
}

} // namespace incident::capture
