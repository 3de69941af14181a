#include "capture/render/render_lines.h"

#include "capture/decode/syscalls.h"
#include "capture/os/lines.h"
#include "capture/os/number.h"
#include "capture/render/merge_words.h"
#include "capture/render/render_json.h"
#include "capture/render/render_time.h"
#include "capture/render/render_trigger.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <utility>

namespace incident::capture {

std::vector<const bpf::signal_record *> signals_of(const bpf::process_entry &entry, std::uint64_t *torn) {
    std::vector<const bpf::signal_record *> records;
    const std::uint64_t kept = std::min<std::uint64_t>(entry.signals, SIGNAL_RECORDS);
    for (std::uint64_t i = entry.signals - kept; i != entry.signals; ++i) {
        const bpf::signal_record &record = entry.signal[i % SIGNAL_RECORDS];
        if (record.seq == i + 1)
            records.push_back(&record);
        else if (torn)
            ++*torn;
    }
    return records;
}

std::vector<const bpf::lineage_record *> lineage_of(const bpf::process_entry &entry) {
    std::vector<const bpf::lineage_record *> records;
    const std::uint64_t kept = std::min<std::uint64_t>(entry.lineage, LINEAGE_RECORDS);
    for (std::uint64_t i = entry.lineage - kept; i != entry.lineage; ++i)
        records.push_back(&entry.line[i % LINEAGE_RECORDS]);
    return records;
}

bool has_sender(int number, int code) {
    return code == SI_USER || code == SI_TKILL || code == SI_QUEUE ||
           (number == SIGCHLD && code > 0 && code != SI_KERNEL);
}

std::string status_text(int status) {
    if (WIFSIGNALED(status))
        return "killed by " + signal_name(WTERMSIG(status)) + (WCOREDUMP(status) ? " (core dumped)" : "");
    return "exited " + std::to_string(WEXITSTATUS(status));
}

std::string_view phase_name(std::uint8_t phase) {
    return phase == bpf::SIGNAL_GENERATED ? "generated" : phase == bpf::SIGNAL_DELIVERED ? "delivered" : "unknown";
}

std::string_view disposition_name(std::uint8_t disposition) {
    // In the order of bpf::signal_disposition.
    constexpr std::string_view names[] = {"unknown", "fatal", "handled", "ignored", "stop"};
    static_assert(std::size(names) == bpf::DISPOSITION_STOP + 1);
    return disposition < std::size(names) ? names[disposition] : names[bpf::DISPOSITION_UNKNOWN];
}

std::string_view result_name(std::uint8_t result) {
    constexpr std::string_view names[] = {"delivered", "ignored", "already pending", "overflow", "information lost"};
    return result < std::size(names) ? names[result] : "unknown";
}

namespace {

class Lines {
public:
    Lines(const RenderContext &context, const Redactor &redactor)
        : context_(context), process_(context.input.process), redactor_(redactor), clock_(context.input.clocks) {}

    std::vector<ProcessLine> render() {
        bool trigger_seen = !std::holds_alternative<SignalTrigger>(context_.input.trigger);
        if (trigger_seen)
            rule_trigger();
        if (process_.entry) {
            for (const bpf::signal_record *record : signals_of(*process_.entry))
                trigger_seen |= signal(*record);
            for (const bpf::lineage_record *record : lineage_of(*process_.entry))
                lineage(*record);
            exec_of_entry(*process_.entry);
        }
        if (!trigger_seen)
            trigger();
        clock_changes();
        kernel_log();
        for (const ThreadSnapshot &thread : process_.threads)
            if (thread.rings && thread.rings->slot.exit_ns && !exited_.contains(thread.tid))
                add(thread.rings->slot.exit_ns, thread.tid, "exit", "thread", "", [](JsonObject &) {});
        return std::move(lines_);
    }

private:
    // All lines have the same members first, whatever their kind.
    template <typename Rest>
    void add(std::uint64_t t_ns, std::uint32_t tid, std::string_view kind, std::string_view name, std::string_view path,
             const Rest &rest) {
        ProcessLine &line = lines_.emplace_back();
        line.t_ns = t_ns;
        JsonObject object(line.text);
        object.number("t_ns", t_ns);
        object.text("wall", clock_.of(MonotonicTime{t_ns}));
        tid ? object.number("tid", tid) : object.null("tid"); // of none: the machine
        object.text("kind", kind);
        object.text("name", name);
        object.texts("args", std::vector<std::string>{});
        object.null("ret");
        object.null("error");
        object.null("duration_ns");
        path.empty() ? object.null("path") : object.text("path", redactor_.text(path));
        object.null("fd");
        object.boolean("in_flight", false);
        rest(object);
        object.end();
    }

    void code(JsonObject &line, int number, int code, std::uint64_t address) {
        line.number("signal", number);
        line.number("code", code);
        line.text("code_name", signal_code_name(number, code));
        const bool fault = code > 0 && code != SI_KERNEL && number != SIGCHLD;
        fault || address ? line.hex("address", address) : line.null("address");
    }

    // Returns whether it is the one that triggered the incident.
    bool signal(const bpf::signal_record &record) {
        const bool trigger = is_trigger(record);
        add(record.t_ns, record.target_tid, "signal", signal_name(record.number), "", [&](JsonObject &line) {
            line.text("phase", phase_name(record.phase));
            code(line, record.number, record.code, record.address);
            if (record.phase == bpf::SIGNAL_DELIVERED) {
                line.null("sender");
                line.text("disposition", disposition_name(record.disposition));
            } else {
                // signal_generate runs in the sender's context; for a fault or the kernel's own
                // signal that is just whoever was running
                sender(line, has_sender(record.number, record.code) ? "sender" : "context", record);
                line.text("result", result_name(record.result));
                line.boolean("group", record.group);
            }
            if (trigger)
                line.boolean("trigger", true);
        });
        return trigger;
    }

    bool is_trigger(const bpf::signal_record &record) const {
        const bpf::death_event &event = process_.event;
        const auto *signal = std::get_if<SignalTrigger>(&context_.input.trigger);
        if (!signal)
            return false;
        if (signal->told)
            return record.phase == signal->told->phase && record.t_ns == signal->told->t_ns &&
                   record.number == signal->told->number;
        return record.phase == bpf::SIGNAL_DELIVERED && record.target_tid == event.h.tid &&
               (record.number == event.number || std::cmp_equal(record.number, event.delivered)) &&
               std::uint32_t{record.disposition} == event.disposition;
    }

    static void sender(JsonObject &line, std::string_view key, const bpf::signal_record &record) {
        if (key != "sender")
            line.null("sender");
        JsonObject who(line.open(key));
        who.number("pid", record.sender_tgid);
        who.number("tid", record.sender_tid);
        who.number("uid", record.sender_uid);
        who.text("comm", fixed_text(record.sender_comm));
        who.end();
    }

    // Of other kinds than a signal: a line of its own.
    void rule_trigger() {
        const bpf::death_event &event = process_.event;
        const TriggerLine trigger = trigger_line(context_);
        add(event.h.t_ns, event.h.tid, "trigger", redactor_.text(trigger.name), "", [&](JsonObject &line) {
            if (trigger.duration_ns)
                line.number("elapsed_ns", trigger.duration_ns);
            line.boolean("trigger", true);
        });
    }

    // The trigger where the ring of signals has no record of it.
    void trigger() {
        if (const auto *seen = std::get_if<SignalTrigger>(&context_.input.trigger); seen && seen->told) {
            signal(*seen->told);
            return;
        }
        const bpf::death_event &event = process_.event;
        add(event.h.t_ns, event.h.tid, "signal", signal_name(event.number), "", [&](JsonObject &line) {
            line.text("phase", "delivered");
            code(line, event.number, event.code, event.address);
            line.null("sender");
            line.text("disposition",
                      disposition_name(static_cast<std::uint8_t>(std::min<std::uint32_t>(event.disposition, 255))));
            line.boolean("trigger", true);
        });
    }

    void lineage(const bpf::lineage_record &record) {
        const std::string_view comm = fixed_text(record.comm);
        const auto named = [&](JsonObject &line) { line.text("comm", comm); };
        switch (record.kind) {
        case bpf::LINEAGE_FORK:
            return add(record.t_ns, record.tid, "fork", "born", "", named);
        case bpf::LINEAGE_EXEC: {
            const bpf::process_entry &entry = *process_.entry;
            const bool last = record.t_ns == entry.exec_ns;
            exec_seen_ |= last;
            return add(record.t_ns, record.tid, "exec", "exec", last ? fixed_text(entry.exec_name) : "", named);
        }
        case bpf::LINEAGE_CHILD:
            return add(record.t_ns, process_.event.h.tgid, "fork", "child", "", [&](JsonObject &line) {
                line.number("child", record.tid);
                line.text("comm", comm);
            });
        case bpf::LINEAGE_CHILD_EXIT:
            return add(record.t_ns, process_.event.h.tgid, "exit", "child", "", [&](JsonObject &line) {
                line.number("child", record.tid);
                line.text("comm", comm);
                line.number("status", record.status);
                line.text("status_text", status_text(record.status));
            });
        case bpf::LINEAGE_THREAD_EXIT:
            exited_.insert(record.tid);
            return add(record.t_ns, record.tid, "exit", "thread", "", named);
        default:
            return;
        }
    }

    // Those that the process has lived to see.
    void clock_changes() {
        for (const ClockChange &change : context_.input.clocks.changes) {
            if (change.at_boot < BootTime{process_.event.h.process_start_boot_ns})
                continue;
            if (change.slept_ns)
                add(change.at.ns, 0, "clock", "slept", "",
                    [&](JsonObject &line) { line.number("slept_ns", change.slept_ns); });
            if (change.set_by_ns)
                add(change.at.ns, 0, "clock", "set", "",
                    [&](JsonObject &line) { line.number("set_by_ns", change.set_by_ns); });
        }
    }

    // What the kernel has logged lately: lines "[12.345678] <6> text".
    void kernel_log() {
        constexpr std::size_t newest = 200;
        const std::string *log = context_.collected.file("host/kernel_log");
        if (!log)
            return;
        std::vector<std::string_view> all;
        for (const std::string_view line : lines_of(*log))
            all.push_back(line);
        for (std::size_t i = all.size() - std::min(all.size(), newest); i < all.size(); ++i)
            kernel_line(all[i]);
    }

    void kernel_line(std::string_view line) {
        const std::size_t point = line.find('.'), bracket = line.find("] <"), end = line.find("> ", bracket);
        if (!line.starts_with('[') || point > bracket || end == std::string_view::npos)
            return;
        const auto seconds = whole_number<std::uint64_t>(line.substr(1, point - 1));
        const auto micros = whole_number<std::uint64_t>(line.substr(point + 1, bracket - point - 1));
        const auto priority = whole_number<int>(line.substr(bracket + 3, end - bracket - 3));
        if (!seconds || !micros || !priority || *seconds > UINT32_MAX || *micros > 999'999)
            return;
        const MonotonicTime at{*seconds * 1'000'000'000 + *micros * 1000};
        lines_.push_back({at.ns, log_line({.t_ns = at.ns,
                                           .wall = clock_.of(at),
                                           .source = "kernel",
                                           .identifier = "kernel",
                                           .message = redactor_.text(line.substr(end + 2)),
                                           .priority = *priority & 7})}); // without the facility
    }

    // The last exec, where newer children have pushed its record out of the ring.
    void exec_of_entry(const bpf::process_entry &entry) {
        if (entry.exec_ns && !exec_seen_)
            add(entry.exec_ns, entry.tgid, "exec", "exec", fixed_text(entry.exec_name), [](JsonObject &) {});
    }

    const RenderContext &context_;
    const ProcessSnapshot &process_;
    const Redactor &redactor_;
    WallClock clock_;
    std::vector<ProcessLine> lines_;
    std::set<std::uint32_t> exited_;
    bool exec_seen_ = false;
};

} // namespace

std::vector<ProcessLine> process_lines(const RenderContext &context, const Redactor &redactor) {
    return Lines(context, redactor).render();
}

} // namespace incident::capture
