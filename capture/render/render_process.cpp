#include "capture/render/render_process.h"
#include "capture/decode/kernel_path.h"

#include "capture/collect/collect.h"
#include "capture/container/container.h"
#include "capture/decode/decode_text.h"
#include "capture/os/auxv.h"
#include "capture/render/render_lines.h"
#include "capture/render/render_modules.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <ranges>

namespace incident::capture {

namespace {

std::vector<std::string> split_arguments(std::string_view text) {
    std::vector<std::string> argv;
    while (text.ends_with('\0'))
        text.remove_suffix(1);
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\0'), text.size());
        argv.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(text.size(), end + 1));
    }
    return argv;
}

std::string_view without_end(std::string_view text) {
    while (text.ends_with('\n') || text.ends_with('\0'))
        text.remove_suffix(1);
    return text;
}

Sourced exe_of(const RenderContext &context) {
    if (const std::string *live = context.collected.file("process/exe"); live && !without_end(*live).empty())
        return {std::string(without_end(*live)), "live"};
    const bpf::kernel_path &path = context.input.process.event.exe;
    if (path.parts)
        return {path_of(path), "kernel", path.cut != 0};
    return {};
}

// An exiting process stands in "/" of a v1 hierarchy already: then the kernel's word of when it was captured.
Sourced cgroup_of(const RenderContext &context) {
    std::string live;
    if (const std::string *file = context.collected.file("process/cgroup"))
        live = cgroup_of_text(*file);
    if (live.size() > 1)
        return {std::move(live), "live"};
    const bpf::death_event &event = context.input.process.event;
    if (std::string kernel = cgroup_of_event(event); !kernel.empty())
        return {std::move(kernel), "kernel", event.cgroup_cut != 0};
    return live.empty() ? Sourced{} : Sourced{std::move(live), "live"};
}

// What the collector has made, with its texts redacted; null for what it does not know.
Json container_info(const std::string &file, const Redactor &redactor) {
    Json json = Json::parse(file, nullptr, false);
    if (!json.is_object())
        return {};
    for (auto &[key, value] : json.items())
        value = value.is_string() ? text_or_null(redactor.text(value.get_ref<const std::string &>())) : Json();
    return json;
}

// With its NULs.
Sourced cmdline_of(const RenderContext &context) {
    if (const std::string *live = context.collected.file("process/cmdline"); live && !live->empty())
        return {*live, "live"};
    const bpf::death_event &event = context.input.process.event;
    const std::size_t length = std::min<std::size_t>(event.args_length, ARGS_LEN);
    if (length)
        return {std::string(event.args, length), "kernel", event.args_cut != 0};
    return {};
}

} // namespace

ProcessFields process_fields(const RenderContext &context, const Redactor &redactor) {
    ProcessFields fields;
    fields.exe = exe_of(context);
    fields.exe.text = redactor.text(fields.exe.text);
    fields.cgroup = cgroup_of(context);
    fields.unit = redactor.text(unit_of_cgroup(fields.cgroup.text));
    fields.container = container_of_cgroup(fields.cgroup.text);
    fields.cgroup.text = redactor.text(fields.cgroup.text);
    if (const std::string *file = context.collected.file("process/container"))
        fields.container_info = container_info(*file, redactor);
    for (const auto &[file, host] : paths_on_host(context))
        if (file.first == fields.exe.text)
            fields.exe_on_host = redactor.text(host);
    fields.cmdline = cmdline_of(context);
    fields.cmdline.text = redactor.separated(fields.cmdline.text);
    constexpr std::size_t cmdline_max = 64 * 1024; // the whole is in process/cmdline
    if (fields.cmdline.text.size() > cmdline_max) {
        fields.cmdline.text.resize(cmdline_max);
        fields.cmdline.cut = true;
    }
    fields.argv = split_arguments(fields.cmdline.text);
    fields.cmdline.text.clear();
    for (const std::string &argument : fields.argv)
        fields.cmdline.text += (fields.cmdline.text.empty() ? "" : " ") + argument;
    if (const auto &entry = context.input.process.entry)
        fields.exec_name = redactor.text(fixed_text(entry->exec_name));
    return fields;
}

std::string_view isa_name(const ProcessSnapshot &process) {
    const auto in_code = [&](std::uint64_t segment) {
        return std::ranges::any_of(process.threads, [&](const ThreadSnapshot &thread) {
            return thread.event && thread.event->regs.cs == segment;
        });
    };
    return abi_name(saved_auxv(process.event), in_code(code_segment_32bit), in_code(code_segment_64bit));
}

std::string exe_build_id(const bpf::death_event &event) {
    const bpf::elf_head &head = event.elf[ELF_HEADS - 1];
    return head.address ? build_id_of_head(head.bytes, std::min<std::size_t>(head.length, ELF_HEAD_LEN)) : "";
}

Sender sender_of(const ProcessSnapshot &process) {
    const bpf::death_event &event = process.event;
    Sender sender;
    // A SIGKILL that is a coredump's or group exit's second half was not sent by whoever ran then.
    const int number = event.number;
    constexpr std::uint8_t queued = 0; // TRACE_SIGNAL_DELIVERED (include/trace/events/signal.h): others changed nothing
    const auto is_it = [&](const bpf::signal_record &record) {
        return record.phase == bpf::SIGNAL_GENERATED && record.number == number && record.result == queued &&
               (record.group || record.target_tid == event.h.tid);
    };
    if (process.entry)
        for (const bpf::signal_record *record : signals_of(*process.entry) | std::views::reverse) {
            if (!is_it(*record))
                continue;
            if (has_sender(number, record->code) && (!event.has_siginfo || record->code == event.code))
                return {true, record->sender_tgid, record->sender_tid, record->sender_uid,
                        std::string(fixed_text(record->sender_comm))};
            // What the kernel raises without a siginfo of its own arrives as if the thread that ran had sent it
            // (SEND_SIG_NOINFO, __send_signal_locked() in kernel/signal.c): SIGXFSZ, SIGPIPE.
            if (record->code == SI_KERNEL && event.code == SI_USER)
                return sender;
        }
    if (event.has_siginfo && has_sender(number, event.code)) {
        // struct kernel_siginfo: three ints, padding, then si_pid and si_uid (asm-generic/siginfo.h)
        constexpr std::size_t fields = 16;
        std::memcpy(&sender.pid, event.siginfo + fields, sizeof sender.pid);
        std::memcpy(&sender.uid, event.siginfo + fields + sizeof sender.pid, sizeof sender.uid);
        sender.known = true;
    }
    return sender;
}

} // namespace incident::capture
