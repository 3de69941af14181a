#include "capture/render/render_parts.h"

#include "capture/decode/decode_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace incident::capture {

namespace {

bool begins_with_any(std::string_view symbol, std::initializer_list<std::string_view> names) {
    return std::ranges::any_of(names, [&](std::string_view name) { return symbol.starts_with(name); });
}

// "bpf_prog_6c506a629097e8d3_signal_taken": of the program, not of bpf(2).
bool is_bpf_program(std::string_view symbol) {
    constexpr std::string_view prefix = "bpf_prog_";
    constexpr std::size_t tag_digits = 16;
    return symbol.starts_with(prefix) && symbol.size() >= prefix.size() + tag_digits &&
           symbol.substr(prefix.size(), tag_digits).find_first_not_of("0123456789abcdef") == symbol.npos;
}

// Function names of kernel/trace/bpf_trace.c, kernel/bpf/, kernel/events/, kernel/kprobes.c and arch/x86, 6.1 to 6.18.
bool is_uprobe(std::string_view symbol) {
    return begins_with_any(symbol,
                           {"uprobe_", "uretprobe_", "__uprobe_", "__uretprobe_", "handler_chain", "handle_swbp",
                            "handle_trampoline", "handle_uretprobe", "handle_syscall_uprobe", "__do_sys_uprobe",
                            "__do_sys_uretprobe", "__x64_sys_uprobe", "__x64_sys_uretprobe"});
}

bool is_tracing(std::string_view symbol) {
    return is_bpf_program(symbol) || is_uprobe(symbol) ||
           begins_with_any(symbol, {"bpf_trampoline_",    "bpf_dispatcher_",  "__bpf_prog_",     "bpf_trace_run",
                                    "__bpf_trace_",       "bpf_get_stack",    "__bpf_get_stack", "bpf_get_task_stack",
                                    "get_perf_callchain", "perf_callchain_",  "trace_call_bpf",  "perf_trace_",
                                    "perf_call_bpf_",     "perf_syscall_",    "__traceiter_",    "kprobe_",
                                    "kretprobe_",         "aggr_pre_handler", "opt_pre_handler", "optimized_callback",
                                    "ftrace_regs_caller", "ftrace_caller",    "ftrace_call",     "arch_ftrace_ops_",
                                    "__ftrace_ops_",      "ftrace_ops_"});
}

// What is between a breakpoint in user code, or a uprobe's system call, and the uprobe's handlers.
bool is_entry(std::string_view symbol) {
    return begins_with_any(symbol, {"exit_to_user_mode_", "irqentry_exit", "exc_int3", "asm_exc_int3", "do_syscall_64",
                                    "x64_sys_call", "entry_SYSCALL_64", "syscall_exit_to_user_mode"});
}

// How many on top are there only because somebody looked.
std::size_t frames_of_tracing(const std::vector<std::string> &symbols) {
    std::size_t top = 0;
    bool uprobe = false;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
        if (is_tracing(symbols[i]))
            top = i + 1;
        else if (!symbols[i].empty()) // one without a name is tracing's if some of tracing's are below
            break;
        uprobe = uprobe || is_uprobe(symbols[i]);
    }
    const auto rest = symbols.begin() + static_cast<std::ptrdiff_t>(top);
    return uprobe && std::all_of(rest, symbols.end(), is_entry) ? symbols.size() : top;
}

} // namespace

Json kernel_stack_json(const RenderContext &context, std::span<const std::uint64_t> addresses) {
    std::vector<std::string> symbols;
    for (const std::uint64_t ip : addresses)
        symbols.push_back(context.kernel_symbol ? context.kernel_symbol(ip) : std::string());
    Json frames = Json::array();
    for (std::size_t i = frames_of_tracing(symbols); i < symbols.size(); ++i)
        frames.push_back(
            {{"ip", hex_text(addresses[i])}, {"symbol", symbols[i].empty() ? Json() : Json(valid_utf8(symbols[i]))}});
    return frames;
}

} // namespace incident::capture
