#include "capture/os/proc_stat.h"

#include "capture/os/number.h"

#include <unistd.h>

#include <array>

namespace incident::capture {

std::optional<ProcStat> parse_proc_stat(std::string_view text) {
    ProcStat stat;
    const std::size_t open = text.find('('), close = text.rfind(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open || open < 2 ||
        !whole_number(text.substr(0, open - 1), stat.pid))
        return std::nullopt;
    stat.comm = text.substr(open + 1, close - open - 1);
    // Fields 3 (state) to 22 (starttime) must be there, those to 28 (startstack) may, proc(5).
    constexpr std::size_t needed = 20;
    std::array<std::string_view, 26> field;
    std::string_view rest = text.substr(close + 1);
    for (std::string_view &each : field) {
        if (!rest.starts_with(' ')) {
            if (&each < &field[needed])
                return std::nullopt;
            break;
        }
        rest.remove_prefix(1);
        each = rest.substr(0, rest.find_first_of(" \n"));
        rest.remove_prefix(each.size());
    }
    if (field[0].size() != 1 || !whole_number(field[1], stat.ppid) || !whole_number(field[17], stat.threads) ||
        !whole_number(field[19], stat.start_ticks))
        return std::nullopt;
    stat.state = field[0][0];
    whole_number(field[20], stat.memory);
    whole_number(field[23], stat.start_code);
    whole_number(field[25], stat.start_stack);
    return stat;
}

std::uint64_t start_ticks_of(BootTime start) {
    static const long per_second = ::sysconf(_SC_CLK_TCK); // USER_HZ
    return start.ns / (1'000'000'000ull / static_cast<std::uint64_t>(per_second > 0 ? per_second : 100));
}

} // namespace incident::capture
