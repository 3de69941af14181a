#include "capture/render/render_fds.h"

#include "capture/os/lines.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace incident::capture {

FdTable::FdTable(const std::string *listed, const std::string *sockets) {
    constexpr std::string_view head = "{\"fd\":";
    for (const std::string_view line : lines_of(listed ? std::string_view(*listed) : std::string_view{})) {
        int fd = -1;
        if (line.starts_with(head))
            std::from_chars(line.data() + head.size(), line.data() + line.size(), fd);
        if (fd >= 0)
            lines_.emplace(fd, line);
    }
    for (const std::string_view line : lines_of(sockets ? std::string_view(*sockets) : std::string_view{})) {
        const auto object = nlohmann::json::parse(line, nullptr, false);
        if (object.is_object() && object.contains("inode") && object.contains("target") &&
            object["inode"].is_number_unsigned() && object["target"].is_string())
            sockets_.emplace("socket:[" + std::to_string(object["inode"].get<std::uint64_t>()) + "]", object["target"]);
    }
}

const std::string &FdTable::listed_name(int fd, State &state) {
    if (!state.listed_known) {
        state.listed_known = true;
        if (const auto line = lines_.find(fd); line != lines_.end()) {
            const auto object = nlohmann::json::parse(line->second, nullptr, false);
            if (object.is_object() && object.contains("target") && object["target"].is_string())
                state.listed = object["target"].get<std::string>();
            if (const auto socket = sockets_.find(state.listed); socket != sockets_.end())
                state.listed = socket->second;
        }
    }
    return state.listed;
}

FdTable::State &FdTable::change(int fd) {
    State &state = state_[fd];
    if (state.changes_to_come > 0)
        --state.changes_to_come;
    state.path.clear();
    state.close_on_exec = state.connected = false;
    return state;
}

void FdTable::open(int fd, std::string path, bool close_on_exec) {
    State &state = change(fd);
    state.is_open = true;
    state.path = std::move(path);
    state.close_on_exec = close_on_exec;
}

void FdTable::connect(int fd, std::string peer) {
    State &state = state_[fd];
    if (!state.is_open)
        return;
    state.path = std::move(peer);
    state.connected = true;
}

void FdTable::close(int fd) {
    change(fd).is_open = false;
}

void FdTable::drop(State &state) {
    state.is_open = false;
    state.path.clear();
}

void FdTable::close_range(std::uint32_t first, std::uint32_t last) {
    if (!ranges_to_come_.empty())
        ranges_to_come_.pop_front();
    for (auto &[fd, state] : state_)
        if (static_cast<std::uint32_t>(fd) >= first && static_cast<std::uint32_t>(fd) <= last)
            drop(state);
}

void FdTable::duplicate(int from, int to, bool close_on_exec) {
    open(to, std::string(name(from).path), close_on_exec);
}

void FdTable::exec() {
    if (execs_to_come_ > 0)
        --execs_to_come_;
    for (auto &[fd, state] : state_)
        if (state.close_on_exec)
            drop(state);
}

bool FdTable::change_to_come(int fd, const State &state) const {
    if (state.changes_to_come > 0 || execs_to_come_ > 0)
        return true;
    return std::ranges::any_of(ranges_to_come_, [fd](const auto &range) {
        return static_cast<std::uint32_t>(fd) >= range.first && static_cast<std::uint32_t>(fd) <= range.second;
    });
}

FdTable::Name FdTable::name(int fd) {
    State &state = state_[fd];
    if (!state.is_open)
        return {};
    if (!state.path.empty())
        return {state.path, state.connected ? "connect" : "open"};
    if (change_to_come(fd, state))
        return {};
    const std::string &listed = listed_name(fd, state);
    return {listed, listed.empty() ? std::string_view{} : "end"};
}

} // namespace incident::capture
