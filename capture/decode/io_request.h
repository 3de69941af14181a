// What a request of io_uring asks for, in the words of the system call that does the same.
#pragma once

#include "bpf/event.h"
#include "bpf/requests.h"
#include "capture/decode/syscalls.h"

#include <optional>
#include <string>

namespace incident::capture {

// "io_uring:read"; "io_uring:operation_77" where it has no name here, "io_uring" where the operation is not known.
std::string request_name(const bpf::io_request &request);

// The 64-bit system call that does the same with the same arguments; nullopt: none does, or what was asked is not
// known. Its duration and result are the request's; a descriptor in it may be one of the ring's own table
// (names_descriptors).
std::optional<bpf::syscall_record> request_as_call(const bpf::io_request &request);

// Whether the descriptors that it names, opens and closes are the process's.
bool names_descriptors(const bpf::io_request &request);

// Whether its result is known: it is completed, and said so.
bool has_result(const bpf::io_request &request);

// path: what it names, where that is known.
DecodedCall decode_request(const bpf::io_request &request, const std::string *path);

// "read"; "operation_77" where it has no name here.
std::string uring_operation_name(unsigned operation);

// What is to be said of it beside that; "" if nothing.
std::string request_note(const bpf::io_request &request);

} // namespace incident::capture
