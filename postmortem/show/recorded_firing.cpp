#include "postmortem/show/recorded_firing.h"

#include "capture/decode/syscalls.h"
#include "rules/text/errnos.h"

#include <fmt/format.h>

#include <charconv>

namespace incident::postmortem {

namespace {

std::string string_of(JsonView view) {
    return std::string(view.text());
}

int error_number(JsonView name) {
    return name.present() ? rules::errno_number(string_of(name)).value_or(0) : 0;
}

std::vector<std::uint8_t> bytes_of_hex(std::string_view hex) {
    std::vector<std::uint8_t> bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        std::uint8_t byte = 0;
        const auto [end, error] = std::from_chars(hex.data() + i, hex.data() + i + 2, byte, 16);
        if (error != std::errc() || end != hex.data() + i + 2)
            return {};
        bytes.push_back(byte);
    }
    return bytes;
}

rules::SignalEvent signal_event(const JsonView &signal) {
    rules::SignalEvent event;
    event.number = static_cast<int>(std::min<std::uint64_t>(signal["number"].count(), 64));
    event.fatal = signal["fatal"].flag();
    // si_code > 0 is the kernel's own (include/uapi/asm-generic/siginfo.h: SI_FROMKERNEL)
    event.from_kernel = signal["from"].text() == "siginfo" && signal["code"].integer().value_or(0) > 0;
    if (const JsonView sender = signal["sender"]; sender.is_object()) {
        event.sender_pid = static_cast<std::uint32_t>(sender["pid"].count());
        event.sender_uid = static_cast<std::uint32_t>(sender["uid"].count());
        event.sender_comm = string_of(sender["comm"]);
    }
    return event;
}

// The object named after the kind, as capture/render/render_trigger.cpp writes it.
Result<rules::EventKind> event_of(const std::string &kind, JsonView top, const std::string &rule,
                                  std::size_t condition) {
    const JsonView detail = trigger_detail(top);
    if (top["signal"].is_object()) {
        rules::SignalEvent signal = signal_event(top["signal"]);
        if (kind == "exit") // of an exit rule that waits for deaths by signal
            return rules::ExitEvent{0, signal.number};
        return signal;
    }
    if (!detail.is_object())
        return fail(fmt::format("incident.json has no \"{}\"", kind));
    const std::uint64_t elapsed = detail["elapsed_ns"].count();
    const bool in_flight = detail["in_flight"].flag();
    if (kind == "latency")
        return rules::LatencyEvent{rule, condition, elapsed, in_flight, 0};
    if (kind == "oom")
        return rules::OomEvent{detail["constraint"].text() == "CONSTRAINT_MEMCG"};
    if (kind == "reclaim")
        return rules::ReclaimEvent{detail["scope"].text() == "cgroup", detail["last"]["duration_ns"].count()};
    if (kind == "txg_sync")
        return rules::TxgEvent{string_of(detail["pool"]), elapsed, in_flight, 0};
    if (kind == "syscall")
        return rules::SyscallEvent{string_of(detail["name"]), detail["ret"].integer().value_or(0),
                                   detail["duration_ns"].count()};
    if (kind == "blocked")
        return rules::BlockedEvent{elapsed, in_flight, detail["idle"].flag(), 0};
    if (kind == "memory")
        return rules::MemoryEvent{detail["rss"].count()};
    if (kind == "exit")
        return rules::ExitEvent{static_cast<int>(detail["status"].count() & 0xff), 0};
    if (kind == "block_io")
        return rules::BlockIoEvent{string_of(detail["device"]), detail["duration_ns"].count(),
                                   error_number(detail["error"]), detail["operation"].text() != "read"};
    if (kind == "tracepoint") {
        auto record = bytes_of_hex(detail["record"].text());
        if (record.empty())
            return fail("the tracepoint's record is not in the bundle (it is left out where [privacy] redact is set)");
        return rules::TracepointEvent{rule, condition, std::move(record)};
    }
    return fail(fmt::format("the kind \"{}\" is not known to this version", kind));
}

} // namespace

Result<rules::Recorded> recorded_firing(const Incident &incident, const rules::Lookups &lookups) {
    const JsonView top = incident.view();
    const auto trigger_ns = incident.trigger_ns(), wall_ns = incident.trigger_wall_ns();
    if (!trigger_ns || !wall_ns)
        return fail("incident.json has no time of the trigger");
    const std::uint64_t to_wall = static_cast<std::uint64_t>(*wall_ns) - static_cast<std::uint64_t>(*trigger_ns);

    rules::Recorded recorded;
    recorded.rule = string_of(top["rule"]);
    const JsonView matches = top["matches"];
    recorded.condition = matches["condition"].count();
    auto event = event_of(string_of(top["kind"]), top, recorded.rule, recorded.condition);
    if (!event)
        return fail(event.error());
    recorded.event.what = std::move(*event);
    recorded.event.t_ns = static_cast<std::uint64_t>(*wall_ns);
    const JsonView process = top["process"];
    auto &facts = recorded.event.process;
    facts.pid = incident.pid();
    facts.start_boot_ns = process["tgid_start_ns"].count();
    facts.uid = static_cast<std::uint32_t>((process["euid"].present() ? process["euid"] : process["uid"]).count());
    // A bundle that does not say it is nobody's that is known: it shares a limit with its like.
    constexpr std::uint32_t nobody_known = ~0u;
    facts.real_uid = process["uid"].present() ? static_cast<std::uint32_t>(process["uid"].count()) : nobody_known;
    facts.comm = incident.comm();
    facts.exe = incident.exe();
    facts.cgroup = string_of(process["cgroup"]);
    facts.unit = string_of(process["unit"]);
    matches["kept"].each([&](JsonView match) {
        recorded.matches.push_back(
            {match["t_ns"].count() + to_wall, match["value"].count(), match["condition"].count()});
    });
    recorded.matches_total = matches["total"].count();
    recorded.value_total = matches["value_total"].count();
    auto then = rules::parse_rules({{"rule_text", string_of(top["rule_text"])}}, lookups);
    if (then.rules.size() == 1)
        recorded.rule_then = std::move(then.rules.front());
    return recorded;
}

void add_format(const Incident &incident, TracepointFormats &formats) {
    const JsonView tracepoint = incident.view()["tracepoint"];
    if (tracepoint["format"].is_text())
        formats.emplace(string_of(tracepoint["tracepoint"]), string_of(tracepoint["format"]));
}

} // namespace incident::postmortem
