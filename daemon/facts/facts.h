// A process as the rules see it.  The facts come from /proc while the process is there, else from what the kernel side
// copied at the event.
#pragma once

#include "bpf/event.h"
#include "capture/collect/collect.h"
#include "capture/os/process_ref.h"
#include "capture/os/program.h"
#include "rules/model/rule.h"

#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace incident::daemon {

// The text in a field of fixed length: up to the first NUL, and never beyond the field.
template <std::size_t N> std::string text_of(const char (&field)[N]) {
    return std::string(field, strnlen(field, N));
}

// Copies an event out of the bytes of the ring buffer, because these may not be aligned and must not be changed.
// nullopt: there are too few bytes.
template <typename T> std::optional<T> event_of(std::span<const std::uint8_t> bytes) {
    if (bytes.size() < sizeof(T))
        return std::nullopt;
    T event;
    std::memcpy(&event, bytes.data(), sizeof(T));
    return event;
}

std::string cgroup_of(const char (*parts)[CGROUP_PART_LEN], std::uint32_t count);

inline capture::ProcessRef process_of(const rules::ProcessFacts &facts) {
    return {facts.pid, {facts.start_boot_ns}};
}
using capture::process_of; // for an event, a thread, or an entry

rules::ProcessFacts facts_of(const capture::OsRoots &os, const bpf::death_event &event);
rules::ProcessFacts facts_of(const capture::OsRoots &os, const bpf::watch_event &event);
// Whether the facts are those of the program that asked.  /proc may already show another one, which the process has
// executed since.
bool same_program(const bpf::watch_event &event, const rules::ProcessFacts &facts);

// Limits the counts and lengths in an event to its arrays, and zeroes the unused rest, so that old contents of the ring
// buffer never get into a bundle.
void tidy(bpf::death_event &event);
void tidy(bpf::thread_event &event);

} // namespace incident::daemon
