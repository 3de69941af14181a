// A process as the rules see it: from /proc while it is there, else from what the
// kernel side copied at the event.
#pragma once

#include "bpf/event.h"
#include "capture/collect/collect.h"
#include "capture/os/process_ref.h"
#include "rules/model/rule.h"

#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace incident::daemon {

// Text out of a fixed field of an event: up to the first NUL, never beyond the field.
template <std::size_t N> std::string text_of(const char (&field)[N]) {
    return std::string(field, strnlen(field, N));
}

// An event out of ring-buffer bytes: a copy, for they are neither aligned to every type nor
// ours to change; nullopt: too short to be one.
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
using capture::process_of; // of an event, a thread, an entry

rules::ProcessFacts facts_of(const capture::OsRoots &os, const bpf::death_event &event);
rules::ProcessFacts facts_of(const capture::OsRoots &os, const bpf::watch_event &event);
// Whether the facts are of the program that asked: /proc may show another one, executed since.
bool same_program(const bpf::watch_event &event, const rules::ProcessFacts &facts);

// Counts and lengths of an event brought within its arrays, the unused rest zeroed: what
// the ring buffer held before must not end up in a bundle.
void tidy(bpf::death_event &event);
void tidy(bpf::thread_event &event);

} // namespace incident::daemon
