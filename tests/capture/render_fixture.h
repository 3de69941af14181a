// A hand-made incident: a process "app" [100] whose thread 101 dies of SIGSEGV at t = 10 s.
#pragma once

#include "capture/render/render_parts.h"

#include <nlohmann/json.hpp>

#include <sys/syscall.h>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

namespace incident::capture::test {

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t trigger_ns = 10 * second;
constexpr std::uint64_t wall_offset = 1'795'270'000ull * second; // 2026-11-21T14:06:40Z at t = 0

template <std::size_t N> void set_text(char (&field)[N], std::string_view text) {
    std::memset(field, 0, N);
    std::memcpy(field, text.data(), std::min(text.size(), N));
}

// components: the file's name first.
inline void set_exe(bpf::death_event &event, std::initializer_list<std::string_view> components) {
    event.exe = {};
    for (const std::string_view component : components) {
        component.copy(event.exe.names + event.exe.length, component.size());
        event.exe.length += static_cast<__u32>(component.size()) + 1;
        ++event.exe.parts;
    }
}

inline bpf::syscall_record call(long nr, std::uint64_t start_ns, std::int64_t ret, std::vector<std::uint64_t> args = {},
                                std::uint64_t duration_ns = 1000) {
    bpf::syscall_record record{};
    record.nr = static_cast<int>(nr);
    record.start_ns = start_ns;
    record.duration_ns = duration_ns;
    record.ret = ret;
    for (std::size_t i = 0; i < args.size() && i < SYSCALL_ARGS; ++i)
        record.args[i] = args[i];
    return record;
}

struct Made {
    IncidentInput input;
    Collected collected;
    std::vector<std::string> redact;
    CoreLink core;

    Made() {
        input.rule = {"crash", "signal", "[[rule]]\nname = \"crash\"\n", "/etc/incidentd/rules.d/a.toml:1", 2};
        input.clocks = {
            {trigger_ns}, {trigger_ns + 5 * second}, {trigger_ns + wall_offset}, "0123456789abcdef0123456789abcdef"};
        bpf::death_event &event = input.process.event;
        event.h = {bpf::EVENT_DEATH, EVENT_LAYOUT, trigger_ns, 100, 101, 7 * second, 8 * second};
        event.number = event.delivered = SIGSEGV;
        event.code = SEGV_MAPERR;
        event.fatal = event.has_siginfo = 1;
        event.disposition = bpf::DISPOSITION_FATAL;
        event.address = 0x10;
        event.threads = 2;
        set_text(event.comm, "io-1");
        set_text(event.leader_comm, "app");
        set_text(event.parent_comm, "systemd");
        event.parent_tgid = 1;
        set_exe(event, {"app", "bin", "usr"});
        event.cgroup_parts = 2;
        set_text(event.cgroup[0], "app.service");
        set_text(event.cgroup[1], "system.slice");
        event.args_length = 14;
        std::memcpy(event.args, "app\0--fast\0-v\0", 14);
        event.start_code = 0x400000;
        event.end_code = 0x500000;
        event.vmas = 1;
        event.vma[0] = {0x400000, 0x500000, 1, 5, 77, 8 << 20 | 1, 0, {}};
        set_text(event.vma[0].name, "app");
        bpf::process_entry &entry = input.process.entry.emplace();
        entry.tgid = 100;
        entry.since_birth = 1;
        input.process.threads_expected = 2;
        add_thread(101, "io-1");
        add_thread(100, "app");
        input.process.gone = true;
    }

    ThreadSnapshot &add_thread(std::uint32_t tid, std::string_view comm) {
        ThreadSnapshot &thread = input.process.threads.emplace_back();
        thread.tid = tid;
        thread.rings.emplace();
        thread.rings->slot.tid = tid;
        thread.rings->slot.since_birth = 1;
        thread.event.emplace();
        std::memset(&*thread.event, 0, sizeof *thread.event);
        thread.event->h.tid = tid;
        thread.event->regs.ip = 0x401234;
        thread.event->regs.sp = 0x7ffd00001000;
        thread.event->regs.orig_ax = ~0ull;
        thread.event->stack_address = 0x7ffd00001000;
        thread.event->stack_wanted = 64;
        thread.stack = {{0x7ffd00001000, std::vector<std::uint8_t>(64)}};
        set_text(thread.event->comm, comm);
        return thread;
    }

    ThreadSnapshot &thread(std::size_t i) { return input.process.threads[i]; }

    void add_call(const bpf::syscall_record &record, std::size_t i = 0) {
        thread(i).rings->syscalls.push_back(record);
        ++thread(i).rings->slot.syscalls;
    }
    // A call of openat and its path.
    CallPath &open_file(std::uint64_t start_ns, const std::string &path, std::int64_t ret, std::size_t i = 0,
                        std::uint64_t flags = 0, int directory = -100) {
        add_call(call(SYS_openat, start_ns, ret, {static_cast<std::uint32_t>(directory), 0x1000, flags}), i);
        ++thread(i).rings->slot.opens;
        return thread(i).rings->paths.emplace_back(CallPath{.start_ns = start_ns, .bytes = path});
    }
    bpf::signal_record &add_signal(bpf::signal_record record) {
        bpf::process_entry &entry = *input.process.entry;
        bpf::signal_record &place = entry.signal[entry.signals % SIGNAL_RECORDS];
        place = record;
        place.seq = ++entry.signals;
        return place;
    }

    RenderContext context() const {
        return {input, collected, "20261121T140650.000Z-crash-app-100-abcdef", "", {}, {}, redact, core};
    }
    std::vector<nlohmann::json> timeline() const {
        std::vector<nlohmann::json> lines;
        std::string text = timeline_of(context(), redactor());
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t end = text.find('\n', at);
            lines.push_back(nlohmann::json::parse(text.substr(at, end - at)));
            at = end + 1;
        }
        return lines;
    }
    // Lines of one kind only.
    std::vector<nlohmann::json> timeline(std::string_view kind) const {
        std::vector<nlohmann::json> lines = timeline();
        std::erase_if(lines, [&](const nlohmann::json &line) { return line["kind"] != kind; });
        return lines;
    }
    Redactor redactor() const { return Redactor(redact); }
    nlohmann::ordered_json incident() const { return incident_of(context(), redactor()); }
    nlohmann::ordered_json threads() const { return threads_of(context(), redactor()); }
    std::string summary() const { return render_summary(incident(), threads(), timeline_of(context(), redactor())); }
};

} // namespace incident::capture::test
