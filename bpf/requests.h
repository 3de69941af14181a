/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What the kernel side keeps of a request of io_uring.  From its submission to its completion it stands in the map
 * "io_requests"; then it is kept among the calls of the thread in whose context the completion was posted.  Included as
 * event.h is, and by the same rules.
 */
#ifndef INCIDENT_BPF_REQUESTS_H
#define INCIDENT_BPF_REQUESTS_H

#include "bpf/event.h"

#ifdef __cplusplus
namespace incident::bpf
{
#endif

/* What the submission says is of the entry in the queue (struct io_uring_sqe, include/uapi/linux/io_uring.h), which
 * lies in memory that the program can write to: what it was when the kernel took it is not known for certain. */
struct io_request {
    __u64 t_ns;        /* it was submitted; of one whose submission is not known: completed */
    __u64 duration_ns; /* until its completion was posted; NO_DURATION: not known, IN_FLIGHT: that is still to come */
    __u64 user_data;
    __u64 address; /* sqe->addr */
    __u64 offset;  /* sqe->off, which is addr2 of some operations */
    __s32 fd;
    __u32 length;   /* sqe->len */
    __u32 op_flags; /* sqe->rw_flags and the other names of that field */
    __s32 result;
    __u32 submitter; /* tid in the first pid namespace; 0: not known */
    __u32 code;      /* the operation, and REQUEST_* below */
};

#define REQUEST_WORDS 16u

#define REQUEST_OPERATION 0xffu
#define REQUEST_FLAGS_SHIFT 8 /* IOSQE_*, of the entry */
#define REQUEST_FLAGS_MASK 0xffu
#define REQUEST_DIRECT (1u << 25)   /* what it opens or closes is in the ring's own table */
#define REQUEST_SILENT (1u << 26)   /* unless it fails, it has no completion (IOSQE_CQE_SKIP_SUCCESS) */
#define REQUEST_OVERFLOW (1u << 27) /* the completion queue was full: the completion waits in the kernel */
#define REQUEST_MORE (1u << 28)     /* further completions follow (IORING_CQE_F_MORE) */
#define REQUEST_UNSEEN (1u << 29)   /* a completion whose submission is not known */
#define REQUEST_NAMELESS (1u << 30) /* … nor its operation: it belongs to no request of its own */
#define REQUEST_UNREAD (1u << 31)   /* the entry was gone: but for operation and user_data nothing of it is known */

/* Map "io_requests", by the request's address in the kernel. */
#define REQUESTS_MAX 8192
#define REQUEST_PATH_LEN 120 /* with its NUL: one that has as many goes on */
struct pending_request {
    struct io_request request;
    __u64 process_start_boot_ns;
    __u32 tgid;
    __u32 share;       /* index into share_words of the user whose it is */
    __u32 path_length; /* with its NUL; 0: it names none, or that was not readable */
    __u32 pad;
    char path[REQUEST_PATH_LEN];
};

EVENT_ASSERT(sizeof(struct io_request) == REQUEST_WORDS * 4);
EVENT_ASSERT(sizeof(struct pending_request) == 208);

#ifdef __cplusplus
} // namespace incident::bpf
#endif
#endif
