#include "capture/render/render_calls.h"

#include "capture/decode/decode.h"
#include "capture/decode/syscalls.h"

#include <fcntl.h>
#include <linux/close_range.h>

#include <cerrno>

namespace incident::capture {

std::uint64_t Call::open_flags() const {
    if (!record || !is_open_call(nr(), compat()))
        return 0;
    const std::string name = syscall_name(nr(), compat());
    if (name == "openat2")
        return path ? path->how_flags : 0;
    return name == "open" ? record->args[1] : name == "openat" ? record->args[2] : 0;
}

int Call::directory() const {
    return record && path_argument(nr(), compat(), true) > 1 ? static_cast<int>(record->args[0]) : AT_FDCWD;
}

std::optional<FdChange> change_of(const Call &call) {
    using What = FdChange::What;
    const tables::Call &row = decode::call_of(call.nr(), call.compat());
    if (row.name.empty() || !call.record)
        return std::nullopt;
    const bool done = !call.in_flight() && call.ret() >= 0 && call.ret() <= INT32_MAX;
    FdChange change{.what = What::Open, .t_ns = call.in_flight() ? call.start() : call.end()};
    if (row.kind == tables::Class::Exec) {
        change.what = What::Exec;
        return done ? std::optional(change) : std::nullopt;
    }
    const __u64 *const args = call.record->args;
    const auto first = static_cast<std::uint32_t>(args[0]), second = static_cast<std::uint32_t>(args[1]);
    const bool fcntl_dup = row.name.starts_with("fcntl") && (second == F_DUPFD || second == F_DUPFD_CLOEXEC);
    if (row.name.starts_with("dup") || fcntl_dup) {
        change.what = What::Duplicate;
        change.fd = static_cast<int>(first);
        change.to = static_cast<int>(call.ret());
        change.close_on_exec = fcntl_dup ? second == F_DUPFD_CLOEXEC : row.name == "dup3" && (args[2] & O_CLOEXEC);
        return done ? std::optional(change) : std::nullopt;
    }
    if (row.name == "connect") {
        change.what = What::Connect;
        change.fd = static_cast<int>(first);
        const bool begun = !call.in_flight() && (call.ret() == 0 || call.ret() == -EINPROGRESS);
        return begun && call.address ? std::optional(change) : std::nullopt;
    }
    change.t_ns = call.start();
    change.after = true;
    // close gives the number back even when it fails (EINTR, EIO), but for EBADF
    if (row.name == "close" && (call.in_flight() || call.ret() != -EBADF)) {
        change.what = What::Close;
        change.fd = static_cast<int>(first);
        return change;
    }
    if (row.name == "close_range" && (call.in_flight() || call.ret() == 0) && !(args[2] & CLOSE_RANGE_CLOEXEC)) {
        change.what = What::CloseRange;
        change.first = first;
        change.last = second;
        return change;
    }
    if (row.returns != tables::Returns::Fd || !done)
        return std::nullopt;
    change.t_ns = call.end();
    change.after = false;
    change.fd = static_cast<int>(call.ret());
    change.close_on_exec = (call.open_flags() & O_CLOEXEC) != 0;
    return change;
}

void FdChange::announce(FdTable &table) const {
    switch (what) {
    case What::Open:
    case What::Close:
        return table.announce(fd);
    case What::Duplicate:
        return table.announce(to);
    case What::CloseRange:
        return table.announce_close_range(first, last);
    case What::Exec:
        return table.announce_exec();
    case What::Connect:
        return;
    }
}

void FdChange::apply(FdTable &table, std::string name) const {
    switch (what) {
    case What::Open:
        return table.open(fd, std::move(name), close_on_exec);
    case What::Close:
        return table.close(fd);
    case What::Duplicate:
        return table.duplicate(fd, to, close_on_exec);
    case What::CloseRange:
        return table.close_range(first, last);
    case What::Exec:
        return table.exec();
    case What::Connect:
        return table.connect(fd, std::move(name));
    }
}

} // namespace incident::capture
