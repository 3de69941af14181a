#include "postmortem/show/incident_text.h"

#include "capture/container/container.h"
#include "postmortem/heap/view.h"
#include "postmortem/show/facts_view.h"
#include "postmortem/show/past_view.h"
#include "postmortem/show/threads_view.h"
#include "postmortem/show/verdict_view.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/terminal/times.h"

#include <fmt/format.h>

#include <utility>

namespace incident::postmortem {

namespace {

constexpr std::uint64_t a_day_ns = 86'400'000'000'000; // more is a time, not a span
constexpr std::size_t longest_value = 120;

constexpr std::size_t threads_shown = 12;
constexpr std::size_t frames_shown = 12;
constexpr std::size_t losses_shown = 16;

class Page {
public:
    Page(const IncidentPage &page, Output &out) : page_(page), out_(out), top_(page.incident.view()) {}

    void print() {
        out_.line(out_.tone(Tone::Bold, printable(page_.bundle.name())));
        if (const std::string summary = shown(top_["summary"]); !summary.empty())
            out_.line("  " + out_.tone(Tone::Bad, summary));
        for (const std::string &line : verdict_lines(top_["verdict"]))
            out_.line("  " + (line.starts_with("  - ") ? line : out_.tone(Tone::Bold, line)));
        out_.line("");
        when();
        process();
        cause();
        core();
        pages();
        quality();
        heap();
        paragraph("nearby", nearby_lines(top_, page_.incident.trigger_wall_ns()));
        threads();
        past();
        facts();
        files();
    }

private:
    static std::string shown(JsonView view) { return printable(view.shown()); }

    void field(std::string_view label, const std::string &text, Tone tone = Tone::Plain) {
        if (!text.empty())
            out_.line(fmt::format("{:>10}  {}", label, out_.tone(tone, text)));
    }

    void when() {
        const auto wall = page_.incident.trigger_wall_ns();
        field("when", wall ? fmt::format("{}  ({})", local_time(*wall), shown(top_["time"])) : shown(top_["time"]));
        std::string rule = shown(top_["rule"]);
        if (const std::string kind = shown(top_["kind"]); !kind.empty())
            rule += " (" + kind + ")";
        top_["fired_too"].each([&](JsonView name) { rule += ", " + shown(name); });
        if (const std::uint64_t before = top_["suppressed_before"].count())
            rule += fmt::format(", {} more like it suppressed before", before);
        field("rule", rule);
    }

    void process() {
        const JsonView process = top_["process"];
        std::string text = fmt::format("{}[{}]", shown(process["comm"]), shown(process["pid"]));
        if (process["uid"].present())
            text += ", uid " + shown(process["uid"]);
        if (process["parent_comm"].present() || process["ppid"].present())
            text += fmt::format(", child of {}[{}]", shown(process["parent_comm"]), shown(process["ppid"]));
        field("process", text);
        std::string exe = shown(process["exe"]);
        if (const std::string build_id = shown(process["build_id"]); !build_id.empty())
            exe += "  build-id " + build_id;
        field("exe", exe);
        if (const std::string host = shown(process["exe_on_host"]); !host.empty())
            field("", "on the host " + host);
        field("command", shown(process["cmdline"]));
        field("unit", shown(process["unit"]));
        field("container", container());
        if (process["unit"].text().empty())
            field("cgroup", shown(process["cgroup"]));
    }

    std::string container() {
        const JsonView process = top_["process"], info = process["container_info"];
        if (!info.is_object())
            return shown(process["container"]);
        capture::Container known;
        known.id = shown(info["id"]), known.runtime = shown(info["runtime"]), known.name = shown(info["name"]);
        known.image = shown(info["image"]), known.pod = shown(info["pod"]), known.pod_id = shown(info["pod_id"]);
        known.pod_namespace = shown(info["pod_namespace"]);
        const auto inside = static_cast<std::uint32_t>(process["ns_pid"].count());
        return words_for(known, inside == process["pid"].count() ? 0 : inside);
    }

    void cause() {
        const JsonView signal = top_["signal"];
        if (signal.is_object()) {
            std::string text = shown(signal["name"]);
            if (const std::string code = shown(signal["code_name"]); !code.empty())
                text += " (" + code + ")";
            if (signal["address"].present())
                text += " at " + address(signal["address"]);
            if (const JsonView sender = signal["sender"]; sender.is_object())
                text += fmt::format(", sent by {}[{}]", shown(sender["comm"]), shown(sender["pid"]));
            field("signal", text);
        } else if (const JsonView detail = trigger_detail(top_); detail.is_object()) {
            std::string text;
            detail.members([&](const std::string &key, JsonView value) {
                if (!value.present() || value.is_object() || value.is_array())
                    return; // stacks, histories: in incident.json
                const bool span = key.ends_with("_ns") && value.natural() && *value.natural() < a_day_ns;
                text += (text.empty() ? "" : ", ") +
                        (span ? printable(key.substr(0, key.size() - 3)) + " " + span_text(value.count())
                              : printable(key) + " " + clipped(shown(value), longest_value));
            });
            field(printable(top_["kind"].text()), text);
        }
        if (const JsonView thread = top_["thread"]; thread.is_object())
            field("thread", thread_title(thread));
        if (const JsonView dump = top_["dump"]; dump["asked"].flag()) {
            const std::string refused = shown(dump["refused"]);
            field("dump", dump["sent"].flag() ? fmt::format("asked for with {}", shown(dump["signal"]))
                                              : "asked for, not sent" + (refused.empty() ? "" : ": " + refused));
        }
    }

    static std::string address(JsonView view) {
        const auto number = view.natural();
        return number ? fmt::format("{:#x}", *number) : shown(view);
    }

    void core() {
        const capture::CoreLink &link = page_.core.link;
        std::string text;
        if (page_.core.usable())
            text = fmt::format("{} ({}, {} join{})", printable(link.file), size_text(link.file_bytes),
                               join_name(link.join), link.truncated ? ", truncated" : "");
        else
            text = (link.pending ? "pending: " : "none: ") + printable(page_.core.why_not());
        if (page_.core.usable() && link.join == capture::Join::Window && !link.reason.empty())
            text += ": " + printable(link.reason);
        if (!page_.core.unreachable.empty())
            text += fmt::format(" (as the bundle says; the journal cannot be asked: {})",
                                printable(page_.core.unreachable));
        field("core", text, page_.core.usable() ? Tone::Good : Tone::Warn);
        if (page_.core.usable())
            field("", fmt::format("coredumpctl info {} shows its journal entry", page_.incident.pid()));
        if (top_["mini_core"].flag())
            field("", "mini.core, made from registers, stacks and mappings, opens in gdb as well");
    }

    // "28.4 MiB resident, 12.1 MiB more than 4.3 s before; since then brk +1.3 MiB in 3 calls, mmap +12.0 MiB in 5"
    void pages() {
        const JsonView pages = top_["pages"], curve = pages["rss_curve"];
        const JsonView first = curve.at(0), last = curve.at(curve.size() - 1);
        if (curve.size() == 0)
            return;
        std::string text = size_text(last["rss_bytes"].count()) + " resident";
        if (curve.size() > 1)
            text +=
                fmt::format(", {} than {} before", difference(first["rss_bytes"].count(), last["rss_bytes"].count()),
                            before(first["t_ns"], last["t_ns"]));
        field("memory", text);
        text.clear();
        pages["by_call"].members([&](const std::string &name, JsonView call) {
            if (const std::uint64_t calls = call["calls"].count())
                text += fmt::format("{}{} {} in {}", text.empty() ? "" : ", ", printable(name),
                                    signed_size(call["bytes"].integer().value_or(0)), calls);
        });
        if (text.empty())
            return;
        const std::string since = pages["complete"].flag()     ? "since its start"
                                  : pages["from_ns"].natural() ? "in the last " + before(pages["from_ns"], last["t_ns"])
                                                               : "as far as was recorded";
        field("", fmt::format("address space {} {}: {}", signed_size(pages["growth_bytes"].integer().value_or(0)),
                              since, text));
    }

    static std::string before(JsonView then, JsonView now) {
        return span_text(now.count() - std::min(now.count(), then.count()));
    }
    static std::string difference(std::uint64_t then, std::uint64_t now) {
        return now < then ? size_text(then - now) + " less" : size_text(now - then) + " more";
    }
    static std::string signed_size(std::int64_t bytes) {
        const auto magnitude = bytes < 0 ? 0 - static_cast<std::uint64_t>(bytes) : static_cast<std::uint64_t>(bytes);
        return (bytes < 0 ? "-" : "+") + size_text(magnitude);
    }

    void quality() {
        const JsonView quality = top_["quality"];
        if (!quality.is_object())
            return field("quality", "not stated in the bundle", Tone::Warn);
        const bool complete = quality["complete"].flag();
        const std::uint64_t left_out = quality["left_out"].count(), past = quality["past_ns"].count();
        field("quality",
              fmt::format("{}: {} of {} threads; events: {} recorded{}, {}{} overwritten, {} lost",
                          complete ? "complete" : "incomplete", quality["threads_captured"].count(),
                          quality["threads"].count(), quality["recorded"].count(),
                          past ? fmt::format(" (the last {})", span_text(past)) : "",
                          left_out ? fmt::format("{} left out, ", left_out) : "", quality["overwritten"].count(),
                          quality["lost"].count()),
              complete ? Tone::Good : Tone::Warn);
        // Reasons name every loss already; a bundle without them has the losses alone.
        const JsonView reasons = quality["incomplete_because"], losses = quality["losses"];
        for (std::size_t i = 0; i < std::min(reasons.size(), losses_shown); ++i)
            field("", shown(reasons.at(i)));
        for (std::size_t i = 0; reasons.size() == 0 && i < std::min(losses.size(), losses_shown); ++i)
            field("", fmt::format("lost {}: {} ({})", shown(losses.at(i)["count"]), shown(losses.at(i)["where"]),
                                  shown(losses.at(i)["reason"])));
        if (const std::size_t all = std::max(reasons.size(), losses.size()); all > losses_shown)
            field("", fmt::format("… {} more (incidentctl --json info)", all - losses_shown));
        quality["collectors"].each([&](JsonView collector) {
            if (const std::string error = shown(collector["error"]); !error.empty())
                field("", fmt::format("{} {}: {}", collector["ok"].flag() ? "cut" : "not collected",
                                      shown(collector["name"]), error));
        });
        quality["probes"].each([&](JsonView probe) {
            if (probe["state"].is_text() && probe["state"].text() != "active")
                field("", fmt::format("probe {} {}: {}", shown(probe["name"]), shown(probe["state"]),
                                      shown(probe["reason"])));
            if (const std::uint64_t missed = probe["missed"].count())
                field("", fmt::format("probe {} missed {} events", shown(probe["name"]), missed));
        });
    }

    void paragraph(std::string_view label, const std::vector<std::string> &lines) {
        for (const std::string &line : lines)
            field(&line == lines.data() ? label : "", line);
    }

    void heap() {
        const JsonView heap = top_["heap"];
        paragraph("heap", heap_account_lines(heap));
        if (heap["growing"].size())
            paragraph("growing", heap_growth_lines(heap));
        else
            paragraph("held by", heap_growth_lines(heap));
        paragraph("pointers", heap_pointer_lines(heap));
    }

    void threads() {
        const auto document =
            page_.threads ? Result<Json>(*page_.threads) : read_json(page_.bundle, "threads.json", threads_json_max);
        if (!document)
            return field("threads", printable(document.error().what), Tone::Bad);
        const JsonView threads = *document;
        out_.line("");
        for (std::size_t i = 0; i < std::min(threads.size(), threads_shown); ++i) {
            const JsonView thread = threads.at(i);
            const bool triggers = is_triggers_thread(top_, thread);
            const std::string call = thread_call(thread);
            out_.line(fmt::format("{:>10}  {}{}", thread_role(top_, thread),
                                  out_.tone(triggers ? Tone::Bold : Tone::Plain, thread_title(thread)),
                                  call.empty() ? "" : "  " + call));
            if (const std::string requests = thread_requests(thread); !requests.empty())
                out_.line(fmt::format("{:>10}  {}", "", requests));
            if (triggers)
                for (const std::string &line : stack_lines(thread, frames_shown, panic_frames(top_, thread)))
                    out_.line(fmt::format("{:>10}  {}", "", line));
        }
        if (threads.size() > threads_shown)
            field("", fmt::format("… {} more threads (incidentctl threads)", threads.size() - threads_shown));
    }

    void past() {
        const auto words = last_word_lines(top_, page_.bundle, page_.incident.trigger_ns());
        const auto output = output_lines(page_.bundle, "stdout"), errors = output_lines(page_.bundle, "stderr");
        if (!words.empty() || !output.empty() || !errors.empty())
            out_.line("");
        paragraph("last words", words);
        paragraph("stdout", output);
        if (errors != output)
            paragraph("stderr", errors);
    }

    void facts() {
        const FactLines facts = fact_lines(page_.bundle, page_.incident.trigger_ns());
        const std::pair<std::string_view, const std::vector<std::string> &> paragraphs[] = {{"peers", facts.peers},
                                                                                            {"failed", facts.failures},
                                                                                            {"slow", facts.slow},
                                                                                            {"paths", facts.files},
                                                                                            {"memory", facts.growth}};
        bool first = true;
        for (const auto &[name, lines] : paragraphs) {
            if (!lines.empty() && std::exchange(first, false))
                out_.line("");
            paragraph(name, lines);
        }
    }

    void files() {
        const auto manifest = page_.bundle.manifest();
        out_.line("");
        field("bundle", printable(page_.path));
        if (!manifest)
            return field("files", printable(manifest.error().what), Tone::Bad);
        std::string line;
        for (const capture::ManifestEntry &entry : *manifest) {
            if (entry.path.starts_with("gdb/") && entry.path != "gdb/open.gdb")
                continue; // what open.gdb loads
            const std::string item = fmt::format("{} {}", printable(entry.path), size_text(entry.size));
            if (!line.empty() && columns(line) + columns(item) > 84) {
                field("", line);
                line.clear();
            }
            line += (line.empty() ? "" : ", ") + item;
        }
        field("", line);
    }

    const IncidentPage &page_;
    Output &out_;
    JsonView top_;
};

} // namespace

void print_incident(const IncidentPage &page, Output &out) {
    Page(page, out).print();
}

Json incident_document(const IncidentPage &page) {
    Json document = page.incident.document();
    document["id"] = page.bundle.name();
    document["path"] = page.path;
    const capture::CoreLink &link = page.core.link;
    document["core"] = {
        {"join", join_name(link.join)},  {"reason", page.core.why_not()},         {"file", link.file},
        {"file_bytes", link.file_bytes}, {"journal_cursor", link.journal_cursor}, {"truncated", link.truncated},
        {"pending", link.pending},       {"journal_error", page.core.unreachable}};
    document["files"] = Json::array();
    if (const auto manifest = page.bundle.manifest())
        for (const capture::ManifestEntry &entry : *manifest)
            document["files"].push_back({{"path", entry.path}, {"size", entry.size}, {"sha256", entry.sha256}});
    else
        document["files_error"] = manifest.error().what;
    return document;
}

} // namespace incident::postmortem
