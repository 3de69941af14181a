#include "capture/decode/io_request.h"

#include "capture/decode/decode_text.h"

#include <linux/io_uring.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace incident::capture {

namespace {

// enum io_uring_op of include/uapi/linux/io_uring.h, of Linux 6.18: newer than the header of many a build.
constexpr std::array<std::string_view, 63> operations = {"nop",
                                                         "readv",
                                                         "writev",
                                                         "fsync",
                                                         "read_fixed",
                                                         "write_fixed",
                                                         "poll_add",
                                                         "poll_remove",
                                                         "sync_range",
                                                         "sendmsg",
                                                         "recvmsg",
                                                         "timeout",
                                                         "timeout_remove",
                                                         "accept",
                                                         "async_cancel",
                                                         "link_timeout",
                                                         "connect",
                                                         "fallocate",
                                                         "openat",
                                                         "close",
                                                         "files_update",
                                                         "statx",
                                                         "read",
                                                         "write",
                                                         "fadvise",
                                                         "madvise",
                                                         "send",
                                                         "recv",
                                                         "openat2",
                                                         "epoll_ctl",
                                                         "splice",
                                                         "provide_buffers",
                                                         "remove_buffers",
                                                         "tee",
                                                         "shutdown",
                                                         "renameat",
                                                         "unlinkat",
                                                         "mkdirat",
                                                         "symlinkat",
                                                         "linkat",
                                                         "msg_ring",
                                                         "fsetxattr",
                                                         "setxattr",
                                                         "fgetxattr",
                                                         "getxattr",
                                                         "socket",
                                                         "uring_cmd",
                                                         "send_zc",
                                                         "sendmsg_zc",
                                                         "read_multishot",
                                                         "waitid",
                                                         "futex_wait",
                                                         "futex_wake",
                                                         "futex_waitv",
                                                         "fixed_fd_install",
                                                         "ftruncate",
                                                         "bind",
                                                         "listen",
                                                         "recv_zc",
                                                         "epoll_wait",
                                                         "readv_fixed",
                                                         "writev_fixed",
                                                         "pipe"};
static_assert(operations[IORING_OP_SYNC_FILE_RANGE] == "sync_range" &&
              operations[IORING_OP_SENDMSG_ZC] == "sendmsg_zc");
constexpr unsigned read_multishot = 49, ftruncate_op = 55, bind_op = 56, listen_op = 57;

// A field of the entry that is an argument of the call; Nothing: the call's argument is 0.
// Wide…: that field, which has room for 64 bits, or if it is 0 the length (io_uring/advise.c).
enum class Field { Nothing, Fd, Address, Offset, Length, Flags, WideAddress, WideOffset };
struct SameCall {
    unsigned operation;
    long number;
    std::array<Field, SYSCALL_ARGS> arguments;
};
using enum Field;
constexpr SameCall same_calls[] = {
    {IORING_OP_READV, SYS_preadv2, {Fd, Address, Length, Offset, Nothing, Flags}},
    {IORING_OP_WRITEV, SYS_pwritev2, {Fd, Address, Length, Offset, Nothing, Flags}},
    {IORING_OP_READ, SYS_pread64, {Fd, Address, Length, Offset}},
    {IORING_OP_READ_FIXED, SYS_pread64, {Fd, Address, Length, Offset}},
    {read_multishot, SYS_pread64, {Fd, Address, Length, Offset}},
    {IORING_OP_WRITE, SYS_pwrite64, {Fd, Address, Length, Offset}},
    {IORING_OP_WRITE_FIXED, SYS_pwrite64, {Fd, Address, Length, Offset}},
    {IORING_OP_FSYNC, SYS_fsync, {Fd}},
    {IORING_OP_SYNC_FILE_RANGE, SYS_sync_file_range, {Fd, Offset, Length, Flags}},
    {IORING_OP_FALLOCATE, SYS_fallocate, {Fd, Length, Offset, Address}},
    {ftruncate_op, SYS_ftruncate, {Fd, Offset}},
    {IORING_OP_FADVISE, SYS_fadvise64, {Fd, Offset, WideAddress, Flags}},
    {IORING_OP_MADVISE, SYS_madvise, {Address, WideOffset, Flags}},
    {IORING_OP_OPENAT, SYS_openat, {Fd, Address, Flags, Length}},
    {IORING_OP_OPENAT2, SYS_openat2, {Fd, Address, Offset, Length}},
    {IORING_OP_CLOSE, SYS_close, {Fd}},
    {IORING_OP_STATX, SYS_statx, {Fd, Address, Flags, Length, Offset}},
    {IORING_OP_RENAMEAT, SYS_renameat2, {Fd, Address, Length, Offset, Flags}},
    {IORING_OP_UNLINKAT, SYS_unlinkat, {Fd, Address, Flags}},
    {IORING_OP_MKDIRAT, SYS_mkdirat, {Fd, Address, Length}},
    {IORING_OP_SYMLINKAT, SYS_symlinkat, {Address, Fd, Offset}},
    {IORING_OP_LINKAT, SYS_linkat, {Fd, Address, Length, Offset, Flags}},
    {IORING_OP_EPOLL_CTL, SYS_epoll_ctl, {Fd, Length, Offset, Address}},
    {IORING_OP_SOCKET, SYS_socket, {Fd, Offset, Length}},
    {IORING_OP_CONNECT, SYS_connect, {Fd, Address, Offset}},
    {IORING_OP_ACCEPT, SYS_accept4, {Fd, Address, Offset, Flags}},
    {bind_op, SYS_bind, {Fd, Address, Offset}},
    {listen_op, SYS_listen, {Fd, Length}},
    {IORING_OP_SHUTDOWN, SYS_shutdown, {Fd, Length}},
    {IORING_OP_SEND, SYS_sendto, {Fd, Address, Length, Flags}},
    {IORING_OP_SEND_ZC, SYS_sendto, {Fd, Address, Length, Flags, Offset}},
    {IORING_OP_RECV, SYS_recvfrom, {Fd, Address, Length, Flags}},
    {IORING_OP_SENDMSG, SYS_sendmsg, {Fd, Address, Flags}},
    {IORING_OP_SENDMSG_ZC, SYS_sendmsg, {Fd, Address, Flags}},
    {IORING_OP_RECVMSG, SYS_recvmsg, {Fd, Address, Flags}},
};

unsigned operation_of(const bpf::io_request &request) {
    return request.code & REQUEST_OPERATION;
}

unsigned flags_of(const bpf::io_request &request) {
    return request.code >> REQUEST_FLAGS_SHIFT & REQUEST_FLAGS_MASK;
}

// Whether the entry of the queue is known.
bool is_described(const bpf::io_request &request) {
    return !(request.code & (REQUEST_UNSEEN | REQUEST_UNREAD));
}

const SameCall *same_call(const bpf::io_request &request) {
    const auto *const found = std::ranges::find(same_calls, operation_of(request), &SameCall::operation);
    return found != std::end(same_calls) && is_described(request) ? found : nullptr;
}

__u64 field(const bpf::io_request &request, Field which) {
    switch (which) {
    case Fd:
        return static_cast<__u32>(request.fd);
    case Address:
        return request.address;
    case Offset:
        return request.offset;
    case Length:
        return request.length;
    case Flags:
        return request.op_flags;
    case WideAddress:
        return request.address ? request.address : request.length;
    case WideOffset:
        return request.offset ? request.offset : request.length;
    case Nothing:
        break;
    }
    return 0;
}

bool opens_or_closes(unsigned operation) {
    constexpr unsigned all[] = {IORING_OP_OPENAT, IORING_OP_OPENAT2, IORING_OP_ACCEPT, IORING_OP_SOCKET,
                                IORING_OP_CLOSE};
    return std::ranges::find(all, operation) != std::end(all);
}

} // namespace

std::string uring_operation_name(unsigned operation) {
    return operation < operations.size() ? std::string(operations[operation])
                                         : "operation_" + std::to_string(operation);
}

std::string request_name(const bpf::io_request &request) {
    return request.code & REQUEST_NAMELESS ? "io_uring" : "io_uring:" + uring_operation_name(operation_of(request));
}

std::optional<bpf::syscall_record> request_as_call(const bpf::io_request &request) {
    const SameCall *const same = same_call(request);
    if (!same)
        return std::nullopt;
    bpf::syscall_record call{};
    call.start_ns = request.t_ns;
    call.duration_ns = request.duration_ns;
    call.ret = request.result;
    call.nr = static_cast<__s32>(same->number);
    if (operation_of(request) == IORING_OP_FSYNC && (request.op_flags & IORING_FSYNC_DATASYNC))
        call.nr = SYS_fdatasync;
    std::ranges::transform(same->arguments, call.args, [&](Field which) { return field(request, which); });
    return call;
}

bool names_descriptors(const bpf::io_request &request) {
    if (!is_described(request))
        return false;
    const bool own_table = (request.code & REQUEST_DIRECT) && opens_or_closes(operation_of(request));
    return !own_table && !(flags_of(request) & IOSQE_FIXED_FILE);
}

bool has_result(const bpf::io_request &request) {
    return request.duration_ns != IN_FLIGHT;
}

DecodedCall decode_request(const bpf::io_request &request, const std::string *path) {
    DecodedCall decoded;
    if (const auto call = request_as_call(request)) {
        std::array<std::uint64_t, SYSCALL_ARGS> args{};
        std::ranges::copy(call->args, args.begin());
        decoded = decode_syscall(call->nr, false, args.data(), path);
    } else if (is_described(request) && operation_of(request) != IORING_OP_NOP) {
        decoded.fd = request.fd;
        decoded.args.push_back(std::to_string(request.fd));
        for (const __u64 value : {request.address, __u64{request.length}, request.offset, __u64{request.op_flags}})
            decoded.args.push_back(hex_text(value));
    }
    decoded.name = request_name(request);
    if (!names_descriptors(request)) {
        if (decoded.fd >= 0 && (flags_of(request) & IOSQE_FIXED_FILE)) // its number in the ring's table
            if (const auto number = std::ranges::find(decoded.args, std::to_string(decoded.fd));
                number != decoded.args.end())
                number->insert(0, "fixed ");
        decoded.fd = -1;
        decoded.returns_fd = false;
    }
    return decoded;
}

std::string request_note(const bpf::io_request &request) {
    if (request.code & REQUEST_OVERFLOW)
        return "the completion queue was full";
    if (request.code & REQUEST_NAMELESS)
        return "a completion that belongs to no request of its own";
    if (request.code & REQUEST_UNSEEN)
        return "when it was submitted is not known";
    if (request.code & REQUEST_SILENT)
        return "it is not told when it ends";
    if (request.code & REQUEST_MORE)
        return "more completions follow";
    return request.code & REQUEST_UNREAD ? "what it asked for is not known" : "";
}

} // namespace incident::capture
