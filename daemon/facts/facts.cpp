#include "daemon/facts/facts.h"

#include "capture/decode/kernel_path.h"

#include "capture/os/proc_stat.h"

#include <algorithm>
#include <cstring>

namespace incident::daemon {

namespace {

// Zeroes a field from its first NUL on, and its last byte: always a terminated string.
template <std::size_t N> void end_text(char (&field)[N]) {
    const std::size_t used = std::min(strnlen(field, N), N - 1);
    std::memset(field + used, 0, N - used);
}

template <typename T, std::size_t N> void zero_from(T (&array)[N], std::size_t used) {
    std::memset(static_cast<void *>(array + std::min(used, N)), 0, sizeof(T) * (N - std::min(used, N)));
}

void tidy(bpf::kernel_path &path) {
    path.parts = std::min<__u32>(path.parts, PATH_PARTS);
    path.length = path.parts ? std::min<__u32>(path.length, sizeof path.names) : 0;
    zero_from(path.names, path.length);
}

// The live process's own word, where it still is that process and executes that program.
void refine(rules::ProcessFacts &facts, const capture::OsRoots &os, const capture::Program &program) {
    const auto live = capture::identify(os, facts.pid);
    if (!live || live->start_ticks != capture::start_ticks_of({facts.start_boot_ns}) || !program.may_be(live->program))
        return;
    if (!live->exe.empty())
        facts.exe = live->exe;
    // An exiting process stands in "/" of a v1 hierarchy already: the kernel side saw it before.
    if (live->cgroup.size() > 1) {
        facts.cgroup = live->cgroup;
        facts.unit = live->unit;
    }
    facts.uid = live->uid;
    facts.real_uid = live->real_uid;
}

// Fills in the facts that both events have under the same names.
template <typename Event>
rules::ProcessFacts facts_from(const capture::OsRoots &os, const Event &event, std::uint32_t uid, std::string comm) {
    rules::ProcessFacts facts;
    facts.pid = event.h.tgid;
    facts.start_boot_ns = event.h.process_start_boot_ns;
    facts.uid = uid;
    facts.comm = std::move(comm);
    facts.exe = capture::path_of(event.exe);
    facts.cgroup = cgroup_of(event.cgroup, event.cgroup_parts);
    facts.unit = capture::unit_of_cgroup(facts.cgroup);
    refine(facts, os, capture::program_of(event.h));
    return facts;
}

} // namespace

std::string cgroup_of(const char (*parts)[CGROUP_PART_LEN], std::uint32_t count) {
    std::string text;
    for (std::uint32_t i = std::min<std::uint32_t>(count, CGROUP_PARTS); i > 0; --i)
        text.append("/").append(text_of(parts[i - 1]));
    return text.empty() ? "/" : text;
}

rules::ProcessFacts facts_of(const capture::OsRoots &os, const bpf::death_event &event) {
    rules::ProcessFacts facts = facts_from(os, event, event.euid, text_of(event.leader_comm));
    facts.real_uid = event.uid;
    return facts;
}

rules::ProcessFacts facts_of(const capture::OsRoots &os, const bpf::watch_event &event) {
    return facts_from(os, event, event.uid, text_of(event.comm));
}

// By the file's name alone: of the directories the kernel side sees those of the file system, /proc those of the
// mounts.
bool same_program(const bpf::watch_event &event, const rules::ProcessFacts &facts) {
    if (event.exe.parts == 0 || facts.exe.empty())
        return true;                                                                                 // a kernel thread
    return facts.exe.substr(facts.exe.rfind('/') + 1).starts_with(capture::file_name_of(event.exe)); // "… (deleted)"
}

void tidy(bpf::death_event &event) {
    end_text(event.comm);
    end_text(event.leader_comm);
    end_text(event.parent_comm);
    if (!event.has_siginfo)
        std::memset(event.siginfo, 0, sizeof(event.siginfo));
    event.args_length = std::min<__u32>(event.args_length, ARGS_LEN);
    zero_from(event.args, event.args_length);
    tidy(event.exe);
    event.cgroup_parts = std::min<__u32>(event.cgroup_parts, CGROUP_PARTS);
    for (__u32 i = 0; i < event.cgroup_parts; ++i)
        end_text(event.cgroup[i]);
    zero_from(event.cgroup, event.cgroup_parts);
    event.vmas = std::min<__u32>(event.vmas, VMA_RECORDS);
    for (__u32 i = 0; i < event.vmas; ++i)
        end_text(event.vma[i].name);
    zero_from(event.vma, event.vmas);
    for (auto &head : event.elf) {
        head.length = std::min<__u32>(head.length, ELF_HEAD_LEN);
        zero_from(head.bytes, head.length);
    }
}

void tidy(bpf::thread_event &event) {
    end_text(event.comm);
    event.kernel_frames = std::min<__u32>(event.kernel_frames, KERNEL_FRAMES);
    zero_from(event.kernel_stack, event.kernel_frames);
    for (auto &window : event.window) {
        window.length = std::min<__u16>(window.length, WINDOW_LEN);
        zero_from(window.bytes, window.length);
    }
}

} // namespace incident::daemon
