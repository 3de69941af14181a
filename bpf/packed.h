/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * A call that is over, in as few 4-byte words as it needs; nothing of it is lost.  bpf/segments.bpf.h packs,
 * daemon/record/unpack.cpp unpacks.
 *
 * The first word says which others follow, in this order:
 *   start      low half of the time since the call before it began (of the first in a segment: since its start_ns)
 *   start      high half                                    PACKED_LONG_AGO
 *   duration   low half                                     unless PACKED_UNTIMED
 *   duration   high half                                    PACKED_LONG; both ~0: it was not seen to return
 *   number     of a call beyond the table                   PACKED_NUMBER
 *   result     low half                                     PACKED_RESULT; else 0
 *   result     high half                                    PACKED_WIDE_RESULT; else the sign of the low one
 *   arguments  for each that the call has: low half         bit PACKED_LOW + i; else 0
 *                                          high half        bit PACKED_HIGH + i; else 0
 * One that has the number, flags, arguments and result of the call before it, in the same segment, is PACKED_AGAIN:
 * then only start and duration follow.
 *
 * Behind a call may stand what else was kept of it: a word with PACKED_EXTRA, what it is and how many bytes follow.
 */
#ifndef INCIDENT_BPF_PACKED_H
#define INCIDENT_BPF_PACKED_H

#define PACKED_NUMBER_MASK 511 /* of the number; it stands in a word of its own if it is larger */
#define PACKED_NUMBER (1u << 9)
#define PACKED_COMPAT (1u << 10)
#define PACKED_ARGS_GONE (1u << 11)
#define PACKED_UNTIMED (1u << 12)
#define PACKED_LONG_AGO (1u << 13)
#define PACKED_LONG (1u << 14)
#define PACKED_RESULT (1u << 15)
#define PACKED_WIDE_RESULT (1u << 16)
#define PACKED_LOW 17
#define PACKED_HIGH 23
#define PACKED_AGAIN (1u << 31)

#define PACKED_EXTRA (1u << 30)
#define PACKED_EXTRA_LENGTH 0xffffu
#define PACKED_EXTRA_KIND_SHIFT 16
#define PACKED_EXTRA_KIND_MASK 255u
#define PACKED_ADDRESS 1u         /* kind: struct sockaddr */
#define PACKED_EVENTS 2u          /* kind: struct epoll_event, up to EVENTS_KEPT */
#define PACKED_PAYLOAD 3u         /* kind: what the call has sent or received */
#define PACKED_EXTRA_WORDS_MAX 33 /* the first, and an address */

/* kind: the path that the call names, without a NUL.  Above the kind stand its enum path_status, whether two words with
 * openat2's open_how.flags come first, and how many PACKED_PATH_REST belong to it. */
#define PACKED_PATH 6u
#define PACKED_PATH_STATUS_SHIFT 24
#define PACKED_PATH_STATUS_MASK 3u
#define PACKED_PATH_HOW (1u << 26)
#define PACKED_PATH_RESTS_SHIFT 27
#define PACKED_PATH_RESTS_MASK 7u
#define PACKED_PATH_WORDS(bytes) (3 + (bytes) / 4)

/* kind: a piece of a path that has no room in PATH_HEAD_LEN: of the next call, or of the one in flight.  Above the kind
 * stands which piece it is, from 1 on. */
#define PACKED_PATH_REST 7u
#define PACKED_PATH_REST_SHIFT 24
#define PACKED_PATH_REST_MASK 7u

/* A request of io_uring is no call: it may stand before the first one as well, and what follows is not so many bytes
 * but the words of a struct io_request (bpf/requests.h) that are not 0; bit i: word i is there. */
#define PACKED_REQUEST 4u
#define PACKED_REQUEST_PATH 5u /* kind: the path that the request before names, with its NUL */

#define PACKED_WORDS_MAX 20 /* the first, 2 of start, 2 of duration, the number, 2 of the result, 12 of arguments */

#endif
