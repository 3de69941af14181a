#include "capture/decode/decode_text.h"

#include "capture/bundle/json_member.h"
#include "capture/decode/syscalls.h"
#include "capture/os/page_size.h"
#include "capture/render/merge_words.h"
#include "capture/render/render_lines.h"
#include "capture/render/render_modules.h"
#include "capture/render/render_parts.h"
#include "capture/render/render_process.h"
#include "capture/render/render_threads.h"
#include "capture/render/render_time.h"
#include "capture/render/render_trigger.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sys/resource.h>

#include <csignal>

namespace incident::capture {

namespace {

Json number_or_null(std::uint64_t number) {
    return number ? Json(number) : Json();
}

class IncidentJson {
public:
    IncidentJson(const RenderContext &context, const Redactor &redactor)
        : context_(context), input_(context.input), process_(context.input.process), event_(process_.event),
          redactor_(redactor), fields_(process_fields(context, redactor_)), modules_(context) {}

    Json render() {
        Json json;
        json["schema"] = 1;
        json["id"] = valid_utf8(context_.id);
        json["rule"] = valid_utf8(input_.rule.name);
        json["fired_too"] = Json::array();
        for (const std::string &name : input_.rule.fired_too)
            json["fired_too"].push_back(valid_utf8(name));
        json["kind"] = valid_utf8(input_.rule.kind);
        json["time"] = wall_text(input_.clocks.shown_at(MonotonicTime{event_.h.t_ns}));
        json["boot_id"] = valid_utf8(input_.clocks.boot_id);
        json["summary"] = sentence();
        json["process"] = process();
        json["signal"] = of_signal() ? signal() : Json();
        if (!of_signal() && !of_memory())
            json[trigger_key(input_.trigger)] = trigger_json(context_, redactor_);
        json["matches"] = matches();
        json["thread"] = {{"tid", event_.h.tid}, {"comm", valid_utf8(fixed_text(event_.comm))}};
        json["core"] = core_json(context_.core);
        json["last_words"] = last_words_json(context_.last_words);
        json["nearby"] = Json(); // known later, as those words
        json["alike"] = {{"seen", input_.similar}, {"only_counted", input_.similar_counted}, {"light", input_.light}};
        json["mini_core"] = false; // made by the reader, out of memory.bin
        json["dump"] = dump();
        json["quality"] = quality_json(context_, redactor_);
        json["signature"] = valid_utf8(redactor_.text(incident_signature(input_)));
        json["suppressed_before"] = input_.rule.suppressed_before;
        json["memory"] = memory();
        if (of_memory()) // the kind's object and the process's account are one
            json["memory"].update(trigger_json(context_, redactor_));
        if (process_.heap)
            json["heap"] = heap_summary(*process_.heap, input_.light, redactor_);
        json["pages"] = pages_json(input_);
        json["limits"] = limits();
        json["clocks"] = clocks();
        json["versions"] = {{"incidentd", INCIDENTD_VERSION}, {"event_layout", event_.h.layout}, {"kernel", kernel()}};
        json["rule_text"] = text_or_null(input_.rule.text);
        json["rule_source"] = text_or_null(input_.rule.source);
        return json;
    }

private:
    // "worker[1234] (app.service) was killed by SIGSEGV (SEGV_MAPERR) at 0x10, in thread io-3[1240]: libx.so+0x1139"
    std::string sentence() {
        std::string text = fmt::format("{}[{}]", fixed_text(event_.leader_comm), event_.h.tgid);
        if (!fields_.unit.empty())
            text += " (" + fields_.unit + ")";
        text += " " + (of_signal() ? signal_sentence() : trigger_sentence(context_));
        if (event_.h.tid != event_.h.tgid)
            text += fmt::format(", in thread {}[{}]", fixed_text(event_.comm), event_.h.tid);
        if (const ThreadSnapshot *thread = crashed_thread(process_); thread && thread->event && thread->event->regs.ip)
            text += ": " + place_text(thread->event->regs.ip);
        return valid_utf8(text);
    }

    // One that ended at once may have no entry any more; a signal without a capture comes with its record.
    Sender sender() const {
        const auto *signal = std::get_if<SignalTrigger>(&input_.trigger);
        if (!signal || !signal->told || !has_sender(signal->told->number, signal->told->code))
            return signal && signal->told ? Sender{} : sender_of(process_);
        const bpf::signal_record &record = *signal->told;
        return {true, record.sender_tgid, record.sender_tid, record.sender_uid,
                std::string(fixed_text(record.sender_comm))};
    }

    std::string signal_sentence() const {
        std::string text = event_.fatal                                     ? "was killed by "
                           : event_.disposition == bpf::DISPOSITION_IGNORED ? "ignored "
                                                                            : "got ";
        text += signal_name(event_.number);
        if (event_.has_siginfo || event_.code)
            text += " (" + signal_code_name(event_.number, event_.code) + ")";
        if (is_fault())
            text += " at " + hex_text(event_.address);
        if (const Sender sender = this->sender(); sender.known && sender.pid != event_.h.tgid)
            text += fmt::format(" from {}[{}]", sender.comm, sender.pid);
        return text;
    }

    bool of_signal() const { return std::holds_alternative<SignalTrigger>(input_.trigger); }

    bool of_memory() const { return std::holds_alternative<MemoryTrigger>(input_.trigger); }

    // What the rule counted, where it counts.
    Json matches() const {
        Json list = Json::array();
        for (const Match &match : input_.matches)
            list.push_back({{"t_ns", match.t_ns}, {"value", match.value}, {"condition", match.condition}});
        return {{"total", input_.matches_total},
                {"value_total", input_.value_total},
                {"condition", input_.rule.condition},
                {"kept", list}};
    }

    Json dump() const {
        const DumpRecord &dump = input_.dump;
        Json findings = Json::array();
        for (const std::string &finding : dump.findings)
            findings.push_back(valid_utf8(finding));
        return {{"asked", dump.asked},
                {"sent", dump.sent},
                {"signal", dump.asked ? Json(signal_name(dump.signal)) : Json()},
                {"by", dump.asked && !dump.by_kernel ? "daemon" : "kernel"},
                {"refused", text_or_null(dump.refused)},
                {"dry_run", dump.dry_run},
                {"findings", findings}};
    }

    std::string place_text(std::uint64_t ip) {
        const Mapping *mapping = modules_.mapping(UserAddress(ip));
        if (!mapping)
            return hex_text(ip) + " (in no mapping)";
        const std::string path = redactor_.text(mapping->path);
        const std::string name = path.empty() ? "anonymous memory" : path.substr(path.rfind('/') + 1);
        return name + "+" + hex_text(mapping->offset_of(UserAddress(ip)).value);
    }

    // si_code > 0 of a synchronous signal: si_addr counts (sigaction(2))
    bool is_fault() const {
        return event_.code > 0 && event_.code != SI_KERNEL &&
               (event_.number == SIGSEGV || event_.number == SIGBUS || event_.number == SIGILL ||
                event_.number == SIGFPE || event_.number == SIGTRAP || event_.number == SIGSYS);
    }

    Json process() {
        const bpf::process_entry *entry = process_.entry ? &*process_.entry : nullptr;
        Json json;
        json["pid"] = event_.h.tgid;
        json["tgid_start_ns"] = event_.h.process_start_boot_ns;
        json["start_time"] = wall_text(input_.clocks.shown_at(BootTime{event_.h.process_start_boot_ns}));
        json["comm"] = valid_utf8(fixed_text(event_.leader_comm));
        json["exe"] = text_or_null(fields_.exe.text);
        json["exe_on_host"] = text_or_null(fields_.exe_on_host);
        json["isa"] = isa_name(process_);
        const std::string build_id = context_.build_id_exe.empty() ? exe_build_id(event_) : context_.build_id_exe;
        json["build_id"] = text_or_null(build_id);
        json["cmdline"] = text_or_null(fields_.cmdline.text);
        json["argv"] = Json::array();
        for (const std::string &argument : fields_.argv)
            json["argv"].push_back(valid_utf8(argument));
        json["uid"] = event_.uid;
        json["gid"] = event_.gid;
        json["euid"] = event_.euid;
        json["loginuid"] = event_.loginuid == ~0u ? Json() : Json(event_.loginuid);
        json["unit"] = text_or_null(fields_.unit);
        json["cgroup"] = text_or_null(fields_.cgroup.text);
        json["cgroup_id"] = number_or_null(event_.cgroup_id);
        json["container"] = text_or_null(fields_.container);
        json["container_info"] = fields_.container_info;
        json["ppid"] = event_.parent_tgid;
        json["parent_comm"] = valid_utf8(fixed_text(event_.parent_comm));
        json["parent_start_ns"] = event_.parent_start_boot_ns;
        json["fork_ns"] = number_or_null(entry ? entry->fork_ns : 0);
        json["exec_ns"] = number_or_null(entry ? entry->exec_ns : 0);
        json["exec_name"] = text_or_null(fields_.exec_name);
        json["execs"] = entry ? Json(entry->execs) : Json();
        json["recorded_since_birth"] = entry && entry->since_birth;
        json["first_event_ns"] = number_or_null(entry ? entry->first_ns : 0);
        json["gone_ns"] = number_or_null(entry ? entry->gone_ns : 0);
        json["threads"] = event_.threads;
        json["ns_pid"] = event_.ns_tgid;
        json["namespaces"] = {{"pid", event_.pid_ns},
                              {"mnt", event_.mnt_ns},
                              {"net", event_.net_ns},
                              {"user", event_.user_ns},
                              {"cgroup", event_.cgroup_ns}};
        json["dumpable"] = event_.dumpable;
        json["oom_score_adj"] = static_cast<std::int64_t>(event_.oom_score_adj_plus) - 1000;
        json["facts"] = {{"exe", fields_.exe.from}, {"cmdline", fields_.cmdline.from}, {"cgroup", fields_.cgroup.from}};
        json["cut"] = Json::array();
        for (const auto &[name, fact] :
             {std::pair("exe", &fields_.exe), {"cmdline", &fields_.cmdline}, {"cgroup", &fields_.cgroup}})
            if (fact->cut)
                json["cut"].push_back(name);
        return json;
    }

    Json signal() {
        Json json;
        json["number"] = event_.number;
        json["name"] = signal_name(event_.number);
        json["code"] = event_.code;
        json["code_name"] = signal_code_name(event_.number, event_.code);
        json["errno"] = event_.si_errno;
        json["address"] = is_fault() ? Json(hex_text(event_.address)) : Json();
        json["value"] = !is_fault() && event_.address ? Json(hex_text(event_.address)) : Json();
        json["sender"] = Json();
        if (const Sender sender = this->sender(); sender.known)
            json["sender"] = {{"pid", sender.pid},
                              {"tid", number_or_null(sender.tid)},
                              {"uid", sender.uid},
                              {"comm", text_or_null(sender.comm)}};
        json["fatal"] = event_.fatal != 0;
        json["disposition"] = disposition_name(static_cast<std::uint8_t>(std::min(event_.disposition, 255u)));
        json["delivered"] = event_.delivered;
        json["from"] = event_.has_siginfo ? "siginfo" : "the last generated record";
        json["siginfo"] = event_.has_siginfo ? Json(siginfo_bytes()) : Json();
        return json;
    }

    // kernel_siginfo, which is how siginfo_t begins (include/linux/signal_types.h), in hexadecimal
    std::string siginfo_bytes() const {
        constexpr std::size_t kernel_siginfo_size = 48;
        std::string text;
        for (std::size_t i = 0; i < kernel_siginfo_size; ++i)
            text += fmt::format("{:02x}", event_.siginfo[i]);
        return text;
    }

    Json memory() const {
        const std::uint64_t resident =
            (event_.rss_file_pages + event_.rss_anon_pages + event_.rss_shmem_pages) * page_size;
        return {
            {"rss_bytes",
             {{"total", resident},
              {"file", event_.rss_file_pages * page_size},
              {"anon", event_.rss_anon_pages * page_size},
              {"shmem", event_.rss_shmem_pages * page_size}}},
            {"swap_bytes", event_.swap_pages * page_size},
            {"peak_rss_bytes", std::max<std::uint64_t>(event_.hiwater_rss_pages * page_size, most_resident(resident))},
            {"vm_bytes", event_.total_vm_pages * page_size},
            {"peak_vm_bytes", std::max(event_.hiwater_vm_pages, event_.total_vm_pages) * page_size},
            {"minor_faults", event_.minor_faults},
            {"major_faults", event_.major_faults},
            {"layout",
             {{"start_code", hex_text(event_.start_code)},
              {"end_code", hex_text(event_.end_code)},
              {"start_brk", hex_text(event_.start_brk)},
              {"brk", hex_text(event_.brk)},
              {"start_stack", hex_text(event_.start_stack)},
              {"arg_start", hex_text(event_.arg_start)},
              {"arg_end", hex_text(event_.arg_end)},
              {"env_start", hex_text(event_.env_start)},
              {"env_end", hex_text(event_.env_end)}}}};
    }

    // The kernel's high-water marks are brought up to date only where memory is given back (update_hiwater_rss(),
    // include/linux/mm.h); whoever reads them takes the larger of the two, as fs/proc/task_mmu.c does.
    std::uint64_t most_resident(std::uint64_t now) const {
        if (const auto *memory = std::get_if<MemoryTrigger>(&input_.trigger)) {
            now = std::max(now, memory->rss);
            for (const auto &[t_ns, bytes] : memory->samples)
                now = std::max(now, bytes);
        }
        return now;
    }

    Json limits() const {
        constexpr std::uint64_t infinity = ~0ull; // RLIM_INFINITY
        const ThreadSnapshot *thread = crashed_thread(process_);
        return {{"core_bytes", event_.limits[RLIMIT_CORE].soft == infinity ? Json("unlimited")
                                                                           : Json(event_.limits[RLIMIT_CORE].soft)},
                {"stack_bytes_wanted", thread && thread->event ? Json(thread->event->stack_wanted) : Json()},
                {"signals", SIGNAL_RECORDS}};
    }

    Json clocks() const {
        const Clocks &clocks = input_.clocks;
        Json changes = Json::array();
        for (const ClockChange &change : clocks.changes)
            changes.push_back({{"t_ns", change.at.ns}, {"slept_ns", change.slept_ns}, {"set_by_ns", change.set_by_ns}});
        return {{"trigger_ns", event_.h.t_ns},         {"seen_ns", input_.trigger_seen.ns},
                {"monotonic_ns", clocks.monotonic.ns}, {"boottime_ns", clocks.boottime.ns},
                {"realtime_ns", clocks.realtime.ns},   {"boot_id", valid_utf8(clocks.boot_id)},
                {"changes", std::move(changes)}};
    }

    // "Linux version 6.1.0-53-amd64 (…)" → "6.1.0-53-amd64"
    Json kernel() const {
        constexpr std::string_view head = "Linux version ";
        const std::string *version = context_.collected.file("host/version");
        if (!version || !version->starts_with(head))
            return {};
        const std::string_view text = std::string_view(*version).substr(head.size());
        return text_or_null(text.substr(0, text.find_first_of(" \n")));
    }

    const RenderContext &context_;
    const IncidentInput &input_;
    const ProcessSnapshot &process_;
    const bpf::death_event &event_;
    const Redactor &redactor_;
    ProcessFields fields_;
    Modules modules_;
};

} // namespace

nlohmann::ordered_json incident_of(const RenderContext &context, const Redactor &redactor) {
    return IncidentJson(context, redactor).render();
}

} // namespace incident::capture
