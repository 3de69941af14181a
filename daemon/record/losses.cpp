// Says in words what the kernel side has counted as lost.
#include "daemon/record/recorder.h"

#include <fmt/format.h>

namespace incident::daemon {

namespace {

const char *loss_name(int place) {
    switch (place) {
    case bpf::LOSS_SLOT:
        return "slots: no free ring for a thread ([record] threads)";
    case bpf::LOSS_TID_RANGE:
        return "slots: syscalls of threads whose id lies beyond the table";
    case bpf::LOSS_PROCESS_ENTRY:
        return "processes: no entry for a process ([record] processes)";
    case bpf::LOSS_DEATH_EVENT:
        return "ring buffer: death event";
    case bpf::LOSS_THREAD_EVENT:
        return "ring buffer: thread event";
    case bpf::LOSS_THREAD_STACK:
        return "ring buffer: stack of a thread";
    case bpf::LOSS_GONE_EVENT:
        return "ring buffer: gone event";
    case bpf::LOSS_WATCH_EVENT:
        return "ring buffer: watch question";
    case bpf::LOSS_PATH_CUT:
        return "paths: longer than PATH_MAX, or no memory for the rest";
    case bpf::LOSS_PATH_FAULT:
        return "paths: not readable";
    case bpf::LOSS_FREE_SLOT:
        return "slots: free list refused a slot";
    case bpf::LOSS_SCRATCH:
        return "scratch memory missing";
    case bpf::LOSS_TXG_SYNC:
        return "zfs: syncs in flight beyond the table";
    case bpf::LOSS_TXG_EVENT:
        return "ring buffer: long sync of a ZFS pool";
    case bpf::LOSS_TRIGGER:
        return "ring buffer: a rule's trigger";
    case bpf::LOSS_SNAPSHOT:
        return "ring buffer: process of a trigger";
    case bpf::LOSS_IN_FLIGHT:
        return "reclaims and block requests in flight: no room";
    case bpf::LOSS_MAPS:
        return "ring buffer: mappings";
    case bpf::LOSS_POINTERS:
        return "ring buffer: memory the stack points at";
    case bpf::LOSS_DEATH:
        return "processes: deaths of those without an entry";
    case bpf::LOSS_RETURNS:
        return "ring buffer: where functions return to whose returns are probed";
    case bpf::LOSS_SEGMENT:
        return "calls: no memory for those of a thread ([record] calls)";
    case bpf::LOSS_KEPT:
        return "processes: deaths of which only the id is known";
    case bpf::LOSS_REQUEST:
        return "io_uring: requests that are not recorded";
    case bpf::LOSS_TALLY:
        return "facts: not counted";
    default:
        return "unknown place";
    }
}

bool of_capture(int place) {
    return place == bpf::LOSS_DEATH_EVENT || place == bpf::LOSS_THREAD_EVENT || place == bpf::LOSS_THREAD_STACK ||
           place == bpf::LOSS_GONE_EVENT || place == bpf::LOSS_SNAPSHOT || place == bpf::LOSS_MAPS ||
           place == bpf::LOSS_POINTERS || place == bpf::LOSS_RETURNS || place == bpf::LOSS_KEPT;
}

const char *loss_reason(int place) {
    switch (place) {
    case bpf::LOSS_DEATH_EVENT:
    case bpf::LOSS_THREAD_EVENT:
    case bpf::LOSS_THREAD_STACK:
    case bpf::LOSS_GONE_EVENT:
    case bpf::LOSS_WATCH_EVENT:
    case bpf::LOSS_TRIGGER:
    case bpf::LOSS_TXG_EVENT:
    case bpf::LOSS_SNAPSHOT:
    case bpf::LOSS_MAPS:
    case bpf::LOSS_POINTERS:
    case bpf::LOSS_RETURNS:
        return "full, or its user has a share of it already: [record] ring_buffer is too small for what came at once";
    case bpf::LOSS_SLOT:
    case bpf::LOSS_PROCESS_ENTRY:
    case bpf::LOSS_DEATH:
    case bpf::LOSS_KEPT:
        return "more live threads or processes than configured, or than the share of one user";
    case bpf::LOSS_SEGMENT:
        return "more threads make calls than there is memory for: raise [record] calls";
    case bpf::LOSS_PATH_FAULT:
        return "the memory was unreadable at entry and at return";
    case bpf::LOSS_REQUEST:
        return "more were in flight than are listed, or than the share of one user; or nobody recorded was there at "
               "the end";
    case bpf::LOSS_TALLY:
        return "its place in the table was being written by others";
    default:
        return "";
    }
}

} // namespace

std::vector<capture::Loss> describe_refused(const std::vector<bpf::user_share> &shares) {
    std::vector<capture::Loss> refused;
    for (const bpf::user_share &share : shares) {
        const std::string who = share.owner & SHARE_OF_CGROUP
                                    ? fmt::format("root in cgroup {}", share.owner & ~SHARE_OF_CGROUP)
                                    : fmt::format("uid {}", share.owner);
        const std::pair<const char *, std::uint64_t> kinds[] = {
            {"events that belong to deaths", share.refused_deaths},
            {"other events", share.refused_events},
            {"rings of threads", share.refused_slots},
            {"entries of processes", share.refused_processes},
        };
        for (const auto &[what, count] : kinds)
            if (count)
                refused.push_back(
                    {fmt::format("share of {}: {}", who, what), "that user had more than a share", count});
    }
    return refused;
}

std::vector<capture::Loss> describe_losses(const LossCounts &now, const LossCounts &before, bool only_of_capture) {
    std::vector<capture::Loss> losses;
    for (int place = 0; place < bpf::LOSS_PLACES; ++place)
        if (now[place] > before[place] && (!only_of_capture || of_capture(place)))
            losses.push_back({loss_name(place), loss_reason(place), now[place] - before[place]});
    return losses;
}

} // namespace incident::daemon
