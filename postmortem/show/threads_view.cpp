#include "postmortem/show/threads_view.h"

#include "postmortem/terminal/escape.h"
#include "postmortem/terminal/times.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace incident::postmortem {

namespace {

// Those of a 32-bit thread behind those of the others: it has none of them.
constexpr std::array<std::string_view, 34> register_order{
    "rip", "rsp", "rbp", "eflags", "rax", "rbx", "rcx", "rdx",     "rsi",     "rdi",     "orig_rax", "r8",
    "r9",  "r10", "r11", "r12",    "r13", "r14", "r15", "fs_base", "gs_base", "cs",      "ss",       "ds",
    "eip", "esp", "ebp", "eax",    "ebx", "ecx", "edx", "esi",     "edi",     "orig_eax"};

std::string hex(JsonView number) {
    const auto value = number.natural();
    return value ? fmt::format("{:#x}", *value) : printable(number.shown());
}

std::string arguments(JsonView args) {
    std::string text;
    args.each([&](JsonView argument) { text += (text.empty() ? "" : ", ") + printable(argument.shown()); });
    return text;
}

// Says where the frames end, if the stack goes on.
std::string stack_end(JsonView stack) {
    const std::string reason = printable(stack["reason"].shown());
    if (!stack["truncated"].flag())
        return reason.empty() ? "" : " to " + reason;
    return reason.empty() ? "; cut" : "; ends because " + reason;
}

} // namespace

std::string thread_title(JsonView thread) {
    const std::string comm = printable(thread["comm"].text());
    return fmt::format("{}[{}]", comm.empty() ? "?" : comm, printable(thread["tid"].shown()));
}

bool is_triggers_thread(JsonView incident, JsonView thread) {
    const auto tid = thread["tid"].natural();
    return tid && tid == incident["thread"]["tid"].natural();
}

std::string_view thread_role(JsonView incident, JsonView thread) {
    if (!is_triggers_thread(incident, thread))
        return "thread";
    const std::string_view kind = incident["kind"].text();
    // A signal that was handled, or a rule's trigger, has killed nobody.
    const JsonView signal = incident["signal"];
    if (thread["crashed"].flag() && signal.is_object() && (!signal["fatal"].present() || signal["fatal"].flag()))
        return "crashed";
    if (kind == "exit")
        return "exited";
    // These are about a process or the host; their thread stands for it.
    return kind == "memory" || kind == "reclaim" || kind == "txg_sync" || kind == "oom" ? "thread" : "triggered";
}

std::string thread_call(JsonView thread) {
    const JsonView call = thread["syscall"];
    if (call.is_text())
        return printable(call.text());
    if (!call.is_object())
        return "";
    std::string text = fmt::format("{}({})", printable(call["name"].shown()), arguments(call["args"]));
    const auto took = call[call["in_flight"].flag() ? "elapsed_ns" : "duration_ns"].natural();
    const std::string span = took ? span_text(*took) : "";
    if (call["in_flight"].flag())
        return "in " + text + (span.empty() ? "" : " for " + span);
    if (call["ret"].present())
        text += " = " + printable(call["ret"].shown());
    if (call["error"].present())
        text += " " + printable(call["error"].shown());
    return "after " + text + (span.empty() ? "" : " <" + span + ">");
}

std::string thread_requests(JsonView thread) {
    const JsonView requests = thread["requests_in_flight"];
    const std::uint64_t count = requests["count"].count();
    if (count == 0)
        return "";
    std::string text = count == 1 ? "1 request is in flight" : fmt::format("{} requests are in flight", count);
    const JsonView oldest = requests["oldest"].at(0);
    if (!oldest.is_object())
        return text;
    text += fmt::format("{}: {}({})", count == 1 ? "" : ", the oldest", printable(oldest["name"].shown()),
                        arguments(oldest["args"]));
    const auto elapsed = oldest["elapsed_ns"].natural();
    return elapsed ? text + " for " + span_text(*elapsed) : text;
}

namespace {

// Says how a frame was found, if it was not simply called and unwound by its tables.
std::string frame_mark(JsonView frame) {
    const std::string_view how = frame["how"].text();
    if (frame["inline"].flag())
        return " [inlined]";
    if (frame["signal_frame"].flag())
        return " [signal handler called]";
    if (how == "tail call")
        return " [tail call]";
    if (how == "frame pointer" || how == "return address at the stack pointer")
        return fmt::format(" [by {}]", how);
    return "";
}

} // namespace

std::string frame_line(std::size_t number, JsonView frame) {
    const auto ip = frame["ip"].natural();
    std::string text = fmt::format("#{:<2} {}", number, ip ? fmt::format("{:#018x}", *ip) : "?");
    const JsonView symbol = frame["symbol"], module = frame["module"], file = frame["file"];
    if (symbol.present()) {
        text += " " + printable(symbol.shown());
        if (const std::uint64_t offset = frame["symbol_offset"].count(); offset && !frame["inline"].flag())
            text += fmt::format("+{:#x}", offset);
    }
    text += frame_mark(frame);
    if (!symbol.present() && module.text() == "jit/anon") {
        const JsonView maker = frame["made_by"];
        text += " code made at run time" + (maker.present() ? ", perhaps by " + printable(maker.shown()) : "");
    } else if (module.present()) {
        const std::string name = printable(module.shown());
        text += symbol.present() ? " (" + name + ")"
                                 : " " + name + (frame["offset"].present() ? "+" + hex(frame["offset"]) : "");
    }
    if (file.present())
        text +=
            " at " + printable(file.shown()) + (frame["line"].present() ? ":" + printable(frame["line"].shown()) : "");
    return text;
}

PanicFrames panic_frames(JsonView incident, JsonView thread) {
    PanicFrames frames;
    if (is_triggers_thread(incident, thread))
        incident["verdict"]["claims"].each([&](JsonView claim) {
            if (const JsonView panic = claim["panic"]; panic.is_object())
                frames = {printable(panic["of"].text()), panic["frames"].count()};
        });
    return frames;
}

std::vector<std::string> stack_lines(JsonView thread, std::size_t most, const PanicFrames &panic) {
    std::vector<std::string> lines;
    const JsonView stack = thread["stack"], frames = stack["frames"];
    const std::size_t first = panic.count < frames.size() ? panic.count : 0,
                      shown = std::min(frames.size() - first, most);
    if (first != 0)
        lines.push_back(fmt::format("({} frame{} of {}'s panic machinery: incidentctl --json threads)", first,
                                    first == 1 ? "" : "s", panic.of));
    for (std::size_t i = first; i < first + shown; ++i)
        lines.push_back(frame_line(i, frames.at(i)));
    if (frames.size() > first + shown)
        lines.push_back(fmt::format("… {} more frames", frames.size() - first - shown));
    const JsonView how = stack["how"];
    if (frames.size() == 0)
        lines.push_back("(no user stack" +
                        (stack["reason"].present() ? ": " + printable(stack["reason"].shown()) : "") + ")");
    else if (how.present())
        lines.push_back(fmt::format("(unwound by {}{})", printable(how.shown()), stack_end(stack)));
    if (const JsonView missing = thread["missing"]; !missing.shown().empty())
        lines.push_back("(missing: " + printable(missing.shown()) + ")");
    return lines;
}

std::vector<std::string> kernel_stack_lines(JsonView thread) {
    std::vector<std::string> lines;
    thread["kernel_stack"].each([&](JsonView frame) {
        // A line of text as the daemon resolved it, or an object with address and symbol.
        const JsonView symbol = frame["symbol"];
        lines.push_back(frame.is_object() ? fmt::format("{} {}", hex(frame["ip"]), printable(symbol.shown()))
                                          : printable(frame.shown()));
    });
    return lines;
}

std::vector<std::string> register_lines(JsonView thread) {
    constexpr std::size_t in_a_line = 4;
    const JsonView registers = thread["registers"];
    std::vector<std::string> cells;
    const auto add = [&](std::string_view name, JsonView value) {
        if (value.present())
            cells.push_back(padded(padded(printable(name), 8) + " " + hex(value), 28));
    };
    for (const std::string_view name : register_order)
        add(name, registers[name]);
    registers.members([&](const std::string &name, JsonView value) {
        if (std::ranges::find(register_order, name) == register_order.end())
            add(name, value);
    });
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (i % in_a_line == 0)
            lines.emplace_back();
        lines.back() += cells[i];
    }
    return lines;
}

} // namespace incident::postmortem
