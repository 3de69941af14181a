#include "capture/os/zfs_kstat.h"

#include "capture/os/lines.h"
#include "capture/os/number.h"

#include <algorithm>
#include <array>
#include <optional>

namespace incident::capture {

namespace {

constexpr std::size_t ROWS_MAX = 100'000; // zfs_txg_history is a number an administrator chooses
constexpr std::size_t FRAMES_MAX = 128;

std::vector<std::string_view> words(std::string_view line) {
    std::vector<std::string_view> found;
    for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
        const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
        found.push_back(line.substr(at, end - at));
        at = end;
    }
    return found;
}

struct Column {
    std::string_view name;
    std::uint64_t TxgRow::*field;
};
constexpr std::array COLUMNS{
    Column{"txg", &TxgRow::txg},       Column{"birth", &TxgRow::birth_ns},   Column{"ndirty", &TxgRow::dirty},
    Column{"nread", &TxgRow::read},    Column{"nwritten", &TxgRow::written}, Column{"reads", &TxgRow::reads},
    Column{"writes", &TxgRow::writes}, Column{"otime", &TxgRow::open_ns},    Column{"qtime", &TxgRow::quiesce_ns},
    Column{"wtime", &TxgRow::wait_ns}, Column{"stime", &TxgRow::sync_ns},
};

std::optional<TxgRow> row(const std::vector<std::string_view> &header, const std::vector<std::string_view> &line) {
    if (line.size() != header.size())
        return std::nullopt;
    TxgRow row;
    for (std::size_t i = 0; i < header.size(); ++i) {
        if (header[i] == "state") {
            if (line[i].size() != 1)
                return std::nullopt;
            row.state = line[i].front();
            continue;
        }
        const auto column = std::ranges::find(COLUMNS, header[i], &Column::name);
        if (column == COLUMNS.end())
            continue; // of a newer OpenZFS
        const auto value = whole_number<std::uint64_t>(line[i]);
        if (!value)
            return std::nullopt;
        row.*column->field = *value;
    }
    return row;
}

} // namespace

std::vector<TxgRow> parse_txgs(std::string_view text) {
    std::vector<TxgRow> rows;
    std::vector<std::string_view> header;
    for (const std::string_view line : lines_of(text)) {
        auto fields = words(line);
        if (fields.empty())
            continue;
        // Before the header 0.7 has the kstat's own line of numbers.
        if (fields.front() == "txg")
            header = std::move(fields);
        else if (const auto parsed = header.empty() ? std::nullopt : row(header, fields))
            rows.push_back(*parsed);
        if (rows.size() == ROWS_MAX)
            break;
    }
    return rows;
}

std::vector<std::string> parse_kernel_stack(std::string_view text) {
    std::vector<std::string> frames;
    for (const std::string_view line : lines_of(text)) {
        // "[<0>] function+0x1/0x2 [module]" (fs/proc/base.c, proc_pid_stack); before 4.15 an address in "[<…>]"
        const std::size_t open = line.find("[<"), close = line.find(">] ");
        if (open != 0 || close == std::string_view::npos || line.size() == close + 3)
            continue;
        frames.emplace_back(line.substr(close + 3));
        if (frames.size() == FRAMES_MAX)
            break;
    }
    return frames;
}

bool in_zfs(const std::vector<std::string> &frames) {
    return std::ranges::any_of(
        frames, [](const std::string &frame) { return frame.ends_with(" [zfs]") || frame.ends_with(" [spl]"); });
}

} // namespace incident::capture
