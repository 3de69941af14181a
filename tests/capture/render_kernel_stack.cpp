#include "render_fixture.h"

#include <gmock/gmock.h>

namespace incident::capture {
namespace {

using test::Made;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What the bundle shows of a kernel stack of these functions, innermost first; "": one that has no name.
std::vector<std::string> shown(const std::vector<std::string> &functions) {
    Made made;
    bpf::thread_event &event = *made.thread(0).event;
    for (; event.kernel_frames < functions.size(); ++event.kernel_frames)
        event.kernel_stack[event.kernel_frames] = 0xffffffff81000000 + event.kernel_frames;
    RenderContext context = made.context();
    context.kernel_symbol = [&](std::uint64_t address) {
        const std::string &function = functions.at(address & 0xff);
        return function.empty() ? function : function + "+0x10";
    };
    std::vector<std::string> left;
    const auto threads = threads_of(context, made.redactor());
    for (const auto &frame : threads[0]["kernel_stack"])
        left.push_back(frame["symbol"].is_null() ? "?" : frame["symbol"].get<std::string>());
    return left;
}

TEST(KernelStack, BeginsAtTheFunctionThatWasTraced) {
    EXPECT_THAT(shown({"bpf_prog_6c506a629097e8d3_capture_thread", "bpf_prog_6c506a629097e8d3_signal_taken",
                       "bpf_trace_run3", "get_signal", "arch_do_signal_or_restart"}),
                ElementsAre("get_signal+0x10", "arch_do_signal_or_restart+0x10"));
    EXPECT_THAT(shown({"", "", "bpf_trace_run2", "__bpf_trace_sys_exit", "__traceiter_sys_exit", "syscall_exit_work"}),
                ElementsAre("syscall_exit_work+0x10"))
        << "programs that are gone have no names";
    EXPECT_THAT(shown({"bpf_prog_0123456789abcdef", "bpf_trampoline_6442", "spa_sync"}), ElementsAre("spa_sync+0x10"));
    EXPECT_THAT(shown({"bpf_prog_0123456789abcdef_oom_chosen", "trace_call_bpf", "perf_trace_run_bpf_submit",
                       "perf_trace_mark_victim", "__traceiter_mark_victim", "mark_oom_victim"}),
                ElementsAre("mark_oom_victim+0x10"));
}

TEST(KernelStack, IsNothingWhereABreakpointOfOursBroughtTheThreadIn) {
    EXPECT_THAT(shown({"bpf_prog_0123456789abcdef_leave_call", "trace_call_bpf", "__uprobe_perf_func",
                       "uretprobe_dispatcher", "handle_trampoline", "uprobe_notify_resume", "exit_to_user_mode_prepare",
                       "irqentry_exit_to_user_mode", "exc_int3", "asm_exc_int3"}),
                IsEmpty());
    EXPECT_THAT(
        shown({"bpf_prog_0123456789abcdef_leave_call", "trace_call_bpf", "uretprobe_dispatcher",
               "uprobe_handle_trampoline", "__do_sys_uretprobe", "do_syscall_64", "entry_SYSCALL_64_after_hwframe"}),
        IsEmpty());
}

TEST(KernelStack, KeepsWhatIsNotOnTop) {
    EXPECT_THAT(
        shown({"schedule", "bpf_prog_0123456789abcdef_x", "bpf_trace_run1", "try_to_wake_up"}),
        ElementsAre("schedule+0x10", "bpf_prog_0123456789abcdef_x+0x10", "bpf_trace_run1+0x10", "try_to_wake_up+0x10"));
    EXPECT_THAT(shown({"", "do_nanosleep"}), ElementsAre("?", "do_nanosleep+0x10"));
    EXPECT_THAT(shown({"bpf_prog_load", "__sys_bpf"}), ElementsAre("bpf_prog_load+0x10", "__sys_bpf+0x10"))
        << "a thread in bpf(2)";
    EXPECT_THAT(shown({}), IsEmpty());
}

} // namespace
} // namespace incident::capture
