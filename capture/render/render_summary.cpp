// summary.txt: the incident on one screen, for `cat`.  Made from the JSON files alone, so that it
// can be made again when the core has arrived; so all of it is checked for type, none trusted.
#include "capture/bundle/json_member.h"
#include "capture/container/container.h"
#include "capture/decode/decode_text.h"
#include "capture/render/render.h"
#include "capture/render/timeline_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <deque>

namespace incident::capture {

namespace {

constexpr std::size_t columns = 100;
constexpr std::size_t calls_shown = 12, threads_shown = 8, frames_shown = 12, facts_shown = 8, opens_shown = 3,
                      grown_shown = 2, reasons_shown = 2, words_shown = 4;

std::string text_of(const Json &object, const char *key) {
    const Json &value = member(object, key);
    return value.is_string() ? terminal_text(value.get_ref<const std::string &>()) : std::string();
}

std::uint64_t number_of(const Json &object, const char *key) {
    const Json &value = member(object, key);
    return value.is_number_integer() ? value.get<std::uint64_t>() : 0;
}

bool flag_of(const Json &object, const char *key) {
    const Json &value = member(object, key);
    return value.is_boolean() && value.get<bool>();
}

// The last lines of the timeline that are wanted, parsed from the end: the beginning may be long.
class Recent {
public:
    // until_ns: later lines are of what a process that lives on did after the trigger.
    // words: how many lines of the journal are wanted.
    Recent(std::string_view timeline, std::uint64_t tid, std::int64_t trigger_ns, std::int64_t until_ns,
           std::size_t words)
        : trigger_ns_(trigger_ns), until_ns_(until_ns), words_(words) {
        constexpr std::size_t lines_looked_at = 20000;
        for (std::size_t i = 0; !timeline.empty() && i < lines_looked_at && !full(); ++i) {
            while (timeline.ends_with('\n'))
                timeline.remove_suffix(1);
            const std::size_t begin = timeline.rfind('\n') + 1; // npos + 1 is 0
            take(timeline.substr(begin), tid);
            timeline = timeline.substr(0, begin);
        }
    }

    std::deque<std::string> of_thread; // as text, of the one it happened in, oldest first
    std::deque<std::string> words;     // what the unit and the process logged up to the trigger, oldest first
    std::vector<std::string> opened;   // paths successfully opened by any thread, newest first

private:
    bool full() const {
        return of_thread.size() >= calls_shown && opened.size() >= opens_shown && words.size() >= words_;
    }

    void take(std::string_view text, std::uint64_t tid) {
        // most lines are of neither sort: not worth a parser
        const bool own = of_thread.size() < calls_shown && text.find(fmt::format("\"tid\":{},", tid)) != text.npos;
        // by a call, or one that is long ago and remembered as a fact
        const bool open = opened.size() < opens_shown &&
                          (text.find("\"kind\":\"open\"") != text.npos ||
                           (text.find("\"fact\":\"path\"") != text.npos && text.find("\"name\":\"open") != text.npos));
        const bool word = words.size() < words_ && text.find("\"kind\":\"log\"") != text.npos &&
                          text.find("\"source\":\"kernel\"") == text.npos;
        if (!own && !open && !word)
            return;
        simdjson::dom::element line, error;
        std::int64_t at = 0;
        std::uint64_t its_tid = 0;
        std::string_view opened_path;
        if (parser_.parse(text.data(), text.size()).get(line) || !line.is_object() ||
            (until_ns_ && !line["t_ns"].get(at) && at > until_ns_))
            return;
        if (open && (line["error"].get(error) || error.is_null()) && !line["path"].get(opened_path))
            if (std::string path = terminal_text(opened_path); std::ranges::find(opened, path) == opened.end())
                opened.push_back(std::move(path));
        if (own && !line["tid"].get(its_tid) && its_tid == tid)
            of_thread.push_front(timeline_text(line, trigger_ns_));
        if (word && (line["t_ns"].get(at) || at <= trigger_ns_))
            words.push_front(timeline_text(line, trigger_ns_));
    }

    simdjson::dom::parser parser_;
    std::int64_t trigger_ns_, until_ns_;
    std::size_t words_;
};

class Summary {
public:
    Summary(const Json &incident, const Json &threads, std::string_view timeline)
        : incident_(incident), threads_(threads), process_(member(incident, "process")),
          tid_(number_of(member(incident, "thread"), "tid")),
          recent_(timeline, tid_, trigger_ns(), last_ns(), words_wanted()) {}

    std::string render() {
        verdict();
        line(text_of(incident_, "summary"));
        line("");
        field("when", text_of(incident_, "time"));
        rule();
        process();
        signal();
        trigger();
        triggers_thread();
        last_calls();
        last_words();
        other_threads();
        opened_files();
        heap();
        core();
        quality();
        line("");
        const std::string id = text_of(incident_, "id");
        field("next", "incidentctl info " + id);
        field("", "incidentctl timeline|threads|gdb " + std::string("latest"));
        return std::move(out_);
    }

private:
    // Cut to the width; text is terminal-safe already.
    void line(std::string_view text) { (out_ += terminal_text(text, columns)) += '\n'; }

    void field(std::string_view name, const std::string &text) {
        if (!text.empty())
            line(fmt::format("{:>9}  {}", name, text));
    }

    // What most likely happened, and under it what that rests on.
    void verdict() {
        const Json &claims = member(member(incident_, "verdict"), "claims");
        if (!claims.is_array() || claims.empty())
            return;
        for (const Json &claim : claims) {
            wrapped("", text_of(claim, "claim"));
            const Json &facts = member(claim, "facts");
            for (std::size_t i = 0; facts.is_array() && i < std::min(facts.size(), facts_shown); ++i)
                if (facts[i].is_string())
                    wrapped("  - ", terminal_text(facts[i].get_ref<const std::string &>()));
        }
        line("");
    }

    // In as many lines as it takes, broken at spaces.
    void wrapped(std::string_view mark, std::string_view text) {
        std::string prefix(mark);
        while (!text.empty()) {
            std::size_t length = text.size();
            if (const std::size_t room = columns - mark.size(); length > room) {
                const std::size_t space = text.rfind(' ', room);
                length = space == std::string_view::npos || space == 0 ? room : space;
            }
            line(prefix + std::string(text.substr(0, length)));
            text.remove_prefix(std::min(text.find_first_not_of(' ', length), text.size()));
            prefix.assign(mark.size(), ' ');
        }
    }

    void rule() {
        std::string text = text_of(incident_, "rule");
        for (const Json &name : member(incident_, "fired_too"))
            text += ", " + name.get<std::string>();
        if (const auto before = number_of(incident_, "suppressed_before"))
            text += fmt::format(", {} more like it not written down before", before);
        field("rule", text);
    }

    void process() {
        field("process",
              fmt::format("{}[{}], uid {}, child of {}[{}]", text_of(process_, "comm"), number_of(process_, "pid"),
                          number_of(process_, "uid"), text_of(process_, "parent_comm"), number_of(process_, "ppid")));
        field("exe", text_of(process_, "exe"));
        if (const std::string host = text_of(process_, "exe_on_host"); !host.empty())
            field("", "on the host " + host);
        field("command", text_of(process_, "cmdline"));
        const std::string unit = text_of(process_, "unit");
        field("unit", unit.empty() ? text_of(process_, "cgroup") : unit);
        field("container", container());
    }

    std::string container() {
        const Json &info = member(process_, "container_info");
        if (!info.is_object())
            return text_of(process_, "container");
        Container known;
        known.id = text_of(info, "id"), known.runtime = text_of(info, "runtime"), known.name = text_of(info, "name");
        known.image = text_of(info, "image"), known.pod = text_of(info, "pod"), known.pod_id = text_of(info, "pod_id");
        known.pod_namespace = text_of(info, "pod_namespace");
        const auto inside = static_cast<std::uint32_t>(number_of(process_, "ns_pid"));
        return words_for(known, inside == number_of(process_, "pid") ? 0 : inside);
    }

    // What stands in the object named after the kind and is worth a line.
    void trigger() {
        const std::string kind = text_of(incident_, "kind");
        const Json &trigger = member(incident_, kind.c_str());
        if (kind == "signal" || !trigger.is_object())
            return;
        if (kind == "latency") {
            const Json &spent = member(trigger, "spent");
            if (spent.is_object())
                field("spent",
                      fmt::format("{} running, {} waiting for a CPU, {} blocked",
                                  duration(number_of(spent, "running_ns")), duration(number_of(spent, "runnable_ns")),
                                  duration(number_of(spent, "blocked_ns"))));
            const Json &calls = member(trigger, "calls"), &inside = member(calls, "in_flight");
            std::string text =
                fmt::format("{} system calls, {} in them", number_of(calls, "count"), duration(number_of(calls, "ns")));
            if (inside.is_object())
                text +=
                    fmt::format("; now {} in {}", duration(number_of(inside, "elapsed_ns")), text_of(inside, "name"));
            field("", text);
        } else if (kind == "oom") {
            field("limit",
                  text_of(trigger, "cgroup").empty() ? text_of(trigger, "constraint") : text_of(trigger, "cgroup"));
            field("killed", text_of(trigger, "killed"));
            const Json &by = member(trigger, "allocating");
            if (by.is_object())
                field("wanted by", fmt::format("{}[{}]", text_of(by, "comm"), number_of(by, "pid")));
        } else if (kind == "reclaim") {
            const Json &top = member(trigger, "top");
            for (std::size_t i = 0; top.is_array() && i < std::min(top.size(), threads_shown); ++i)
                field(i == 0 ? "stalled" : "",
                      fmt::format("{}[{}] {} times, {}", text_of(top[i], "comm"), number_of(top[i], "tid"),
                                  number_of(top[i], "count"), duration(number_of(top[i], "stalled_ns"))));
        } else if (kind == "blocked") {
            const Json &waker = member(trigger, "waker");
            if (waker.is_object())
                field("woken by", flag_of(waker, "in_interrupt")
                                      ? std::string("an interrupt")
                                      : fmt::format("{}[{}]", text_of(waker, "comm"), number_of(waker, "tid")));
        }
        const Json &dump = member(incident_, "dump");
        if (flag_of(dump, "asked"))
            field("dump", flag_of(dump, "sent")
                              ? fmt::format("{} sent by the {}", text_of(dump, "signal"), text_of(dump, "by"))
                              : "refused: " + text_of(dump, "refused"));
    }

    static std::string duration(std::uint64_t ns) {
        return duration_text(static_cast<std::int64_t>(std::min<std::uint64_t>(ns, INT64_MAX)));
    }

    void signal() {
        const Json &signal = member(incident_, "signal");
        if (!signal.is_object())
            return;
        std::string text = text_of(signal, "name") + " (" + text_of(signal, "code_name") + ")";
        if (const std::string address = text_of(signal, "address"); !address.empty())
            text += " at " + address;
        if (const Json &sender = member(signal, "sender"); sender.is_object())
            text += fmt::format(" from {}[{}], uid {}", text_of(sender, "comm"), number_of(sender, "pid"),
                                number_of(sender, "uid"));
        field("signal", text);
    }

    // Where the thread's last calls end.  An exit is the last itself, entered just behind the trigger.
    std::int64_t last_ns() const { return text_of(incident_, "kind") == "exit" ? 0 : trigger_ns(); }

    // Of the timeline's clock; 0: not known.
    std::int64_t trigger_ns() const {
        const Json &trigger = member(member(incident_, "clocks"), "trigger_ns");
        return trigger.is_number_integer() ? trigger.get<std::int64_t>() : 0;
    }

    bool is_triggers(const Json &thread) const { return number_of(thread, "tid") == tid_; }

    const Json *captured() const {
        if (threads_.is_array())
            for (const Json &thread : threads_)
                if (is_triggers(thread))
                    return &thread;
        return nullptr;
    }

    static std::string frame_text(const Json &frame) {
        std::string text = text_of(frame, "ip");
        const std::string module = text_of(frame, "module"), symbol = text_of(frame, "symbol"),
                          file = text_of(frame, "file");
        if (!symbol.empty())
            text += "  " + symbol + (flag_of(frame, "inline") ? " [inlined]" : "");
        if (!file.empty())
            text += fmt::format(" at {}:{}", file.substr(file.rfind('/') + 1), number_of(frame, "line"));
        else if (!module.empty())
            text += symbol.empty() ? "  " + module + "+" + text_of(frame, "offset")
                                   : " (" + module.substr(module.rfind('/') + 1) + ")";
        return text;
    }

    void triggers_thread() {
        const Json &thread = member(incident_, "thread");
        field("thread", fmt::format("{}[{}]", text_of(thread, "comm"), number_of(thread, "tid")));
        const Json *found = captured();
        if (!found)
            return field("", "not captured");
        const Json &registers = member(*found, "registers"), &stack = member(*found, "stack");
        if (registers.is_object()) {
            std::string text;
            const bool narrow = registers.contains("eip");
            for (const char *name :
                 narrow ? std::array{"eip", "esp", "eax", "edi", "esi"} : std::array{"rip", "rsp", "rax", "rdi", "rsi"})
                text += fmt::format("{}{} {}", text.empty() ? "" : "  ", name, text_of(registers, name));
            field("", text);
        }
        const Json &frames = member(stack, "frames");
        for (std::size_t i = 0; frames.is_array() && i < std::min(frames.size(), frames_shown); ++i)
            field("", fmt::format("#{} {}", i, frame_text(frames[i])));
        if (frames.is_array() && frames.size() > frames_shown)
            field("", fmt::format("… {} more frames", frames.size() - frames_shown));
    }

    void last_calls() {
        line("");
        line("   Before it, in this thread:");
        for (const std::string &event : recent_.of_thread)
            line(event);
        if (recent_.of_thread.empty())
            line("             nothing was recorded");
    }

    std::size_t words_wanted() const {
        return std::min<std::size_t>(number_of(member(incident_, "last_words"), "before"), words_shown);
    }

    void last_words() {
        if (recent_.words.empty())
            return;
        line("");
        line("   Its last words in the journal:");
        for (const std::string &word : recent_.words)
            line(word);
    }

    static std::string doing(const Json &thread) {
        if (const Json &missing = member(thread, "missing"); missing.is_string())
            return "missing: " + text_of(thread, "missing");
        const Json &call = member(thread, "syscall");
        if (!call.is_object())
            return "no call recorded";
        std::string args;
        if (const Json &list = member(call, "args"); list.is_array())
            for (const Json &argument : list)
                if (argument.is_string())
                    args += (args.empty() ? "" : ", ") + terminal_text(argument.get_ref<const std::string &>());
        const bool inside = flag_of(call, "in_flight") || flag_of(call, "interrupted");
        std::string text = fmt::format("{} {}({})", inside ? "in" : "after", text_of(call, "name"), args);
        const Json &took = member(call, flag_of(call, "in_flight") ? "elapsed_ns" : "duration_ns");
        if (took.is_number_integer())
            text += " <" + duration_text(took.get<std::int64_t>()) + ">";
        return text;
    }

    void other_threads() {
        if (!threads_.is_array())
            return;
        std::size_t others = 0;
        for (const Json &thread : threads_) {
            if (is_triggers(thread))
                continue;
            if (others++ == 0) {
                line("");
                line("   Other threads:");
            }
            if (others <= threads_shown)
                line(fmt::format("   {:>8} {:<15} {}", number_of(thread, "tid"), text_of(thread, "comm"),
                                 doing(thread)));
        }
        if (others > threads_shown)
            line(fmt::format("            +{} more", others - threads_shown));
    }

    void opened_files() {
        line("");
        for (std::size_t i = 0; i < std::min(recent_.opened.size(), opens_shown); ++i)
            field(i == 0 ? "opened" : "", recent_.opened[i]);
    }

    // What its heap held and how it grew; of the pointers the verdict tells.
    void heap() {
        const Json &heap = member(incident_, "heap");
        if (!heap.is_object() || number_of(heap, "since_ns") == 0)
            return;
        const Json &account = member(heap, "account"), &window = member(heap, "in_window");
        const auto grown = static_cast<std::int64_t>(number_of(window, "allocated_bytes")) -
                           static_cast<std::int64_t>(number_of(window, "freed_bytes"));
        field("heap",
              fmt::format("{} allocations alive, {} bytes; {:+} bytes in the last {}", number_of(account, "live"),
                          number_of(account, "live_bytes"), grown, duration(number_of(member(heap, "window"), "ns"))));
        const Json &growing = member(heap, "growing");
        for (std::size_t i = 0; growing.is_array() && i < std::min(growing.size(), grown_shown); ++i)
            field(i == 0 ? "growing" : "",
                  fmt::format("+{} bytes by {}", number_of(growing[i], "bytes"), text_of(growing[i], "place")));
    }

    void core() {
        const Json &core = member(incident_, "core");
        const std::string join = text_of(core, "join"), file = text_of(core, "file"), reason = text_of(core, "reason");
        std::string text =
            file.empty() ? "none" : file + " (" + join + (flag_of(core, "truncated") ? ", truncated)" : ")");
        if (file.empty() && join != "none" && !join.empty())
            text = "journal entry without a file (" + join + ")";
        if (flag_of(core, "pending"))
            text = "not there yet";
        field("core", text + (reason.empty() ? "" : ": " + reason));
        if (flag_of(incident_, "mini_core"))
            field("", "mini.core, made from registers, stacks and mappings, opens in gdb");
    }

    void quality() {
        const Json &quality = member(incident_, "quality");
        const std::uint64_t left_out = number_of(quality, "left_out");
        const std::uint64_t past = number_of(quality, "past_ns");
        field("quality",
              fmt::format("{}: {} of {} threads; {} calls recorded{}, {}{} overwritten, {} lost",
                          flag_of(quality, "complete") ? "complete" : "incomplete",
                          number_of(quality, "threads_captured"), number_of(quality, "threads"),
                          number_of(quality, "recorded"),
                          past ? fmt::format(" (the last {})", duration_text(static_cast<std::int64_t>(past))) : "",
                          left_out ? fmt::format("{} left out, ", left_out) : "", number_of(quality, "overwritten"),
                          number_of(quality, "lost")));
        const Json &reasons = member(quality, "incomplete_because");
        for (std::size_t i = 0; reasons.is_array() && i < std::min(reasons.size(), reasons_shown); ++i)
            if (reasons[i].is_string())
                field("", terminal_text(reasons[i].get_ref<const std::string &>()));
        if (reasons.is_array() && reasons.size() > reasons_shown)
            field("", fmt::format("… {} more reasons", reasons.size() - reasons_shown));
    }

    const Json &incident_, &threads_, &process_;
    std::uint64_t tid_;
    Recent recent_;
    std::string out_;
};

} // namespace

std::string render_summary(const nlohmann::ordered_json &incident, const nlohmann::ordered_json &threads,
                           std::string_view timeline) {
    return Summary(incident, threads, timeline).render();
}

} // namespace incident::capture
