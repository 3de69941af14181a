// Signals that were sent, the OOM killer's choice, a fault before the signal that killed; and facts close to them.
#include "near_miss.h"

namespace incident::postmortem::test {

namespace {

using S = Sentence;

constexpr auto *ten_bytes = "Max file size              10                   10                   bytes\n";

constexpr auto *one_second = "Max cpu time              2                    1000                 seconds\n";

void killed(LabEvidence &f) {
    f.sent_by(50, 51, SIGTERM, SI_USER, "SI_USER");
}

void too_large(LabEvidence &f) {
    f.sent_itself(SIGXFSZ, SI_USER, "SI_USER");
    f.record["signal"]["sender"] = nullptr;
    f.limits(ten_bytes);
    f.signal_line(5, SIGXFSZ, SI_KERNEL, "SI_KERNEL", {}, "generated");
}

void cpu_used_up(LabEvidence &f) {
    f.fault(SIGXCPU, SI_KERNEL, "SI_KERNEL", 0);
    f.limits(one_second);
}

void out_of_memory(LabEvidence &f, const char *constraint, const char *cgroup = "/a") {
    f.image.signal = SIGKILL;
    f.record["kind"] = "oom";
    f.record["oom"] = {
        {"constraint", constraint}, {"cgroup", cgroup}, {"memory_max", 48 << 20}, {"killed", "Killed process 100"}};
}

std::vector<NearMiss> no_oom(NearMiss another_constraint) {
    return {another_constraint,
            {"somebody's SIGKILL", [](LabEvidence &f) { f.record["kind"] = "signal"; }},
            {"the kernel's record of it is missing", [](LabEvidence &f) { f.record["oom"] = nullptr; }}};
}

void raised_again(LabEvidence &f) {
    f.handled();
    f.sent_itself(SIGSEGV);
    f.in_handler();
}

void not_entered(LabEvidence &f) {
    f.handled();
    f.fault(SIGSEGV, SI_KERNEL, "SI_KERNEL", 0);
    f.signal_line(0, SIGSEGV, SI_KERNEL, "SI_KERNEL", {}, "delivered", "fatal", 100, true);
    f.accesses("rax", 8);
}

const std::vector<NearMiss> of_another_fault = {
    {"another thread's",
     [](LabEvidence &f) {
         f.no_timeline();
         f.handled(101);
         f.signal_line(0, SIGSEGV, -6, "SI_TKILL", {}, "delivered", "fatal", 100, true);
     }},
    {"it had no handler",
     [](LabEvidence &f) {
         f.no_timeline();
         f.handled(100, "ignored");
         f.signal_line(0, SIGSEGV, -6, "SI_TKILL", {}, "delivered", "fatal", 100, true);
     }},
    {"what came first was sent, and no fault",
     [](LabEvidence &f) {
         f.no_timeline();
         f.signal_line(2'000'000, SIGSEGV, -6, "SI_TKILL", {}, "delivered", "handled");
         f.signal_line(0, SIGSEGV, -6, "SI_TKILL", {}, "delivered", "fatal", 100, true);
     }},
};

} // namespace

std::vector<SentenceCase> killed_cases() {
    return {
        {S::killed_by,
         killed,
         {{"its siginfo alone says so, which may name anybody",
           [](LabEvidence &f) { f.record["signal"]["sender"]["tid"] = nullptr; }},
          {"it was not fatal", [](LabEvidence &f) { f.record["signal"]["fatal"] = false; }},
          {"a rule asked for it",
           [](LabEvidence &f) {
               f.record["dump"] = {{"sent", true}};
           }},
          {"the process itself", [](LabEvidence &f) { f.record["signal"]["sender"]["pid"] = 100; }},
          {"the kernel raised it", [](LabEvidence &f) { f.record["signal"]["code"] = SI_KERNEL; }}}},
        {S::sent_itself,
         [](LabEvidence &f) { f.sent_itself(SIGSEGV); },
         {{"the kernel's own SIGPIPE looks like it",
           [](LabEvidence &f) { f.sent_by(100, 0, SIGPIPE, SI_USER, "SI_USER"); }},
          {"and its SIGXFSZ", [](LabEvidence &f) { f.sent_by(100, 0, SIGXFSZ, SI_USER, "SI_USER"); }},
          {"another process", [](LabEvidence &f) { f.record["signal"]["sender"]["pid"] = 101; }},
          {"a handler raised again what the kernel had", raised_again}}},
        {S::file_too_large,
         too_large,
         {{"somebody's kill -XFSZ", [](LabEvidence &f) { f.sent_by(50, 51, SIGXFSZ, SI_USER, "SI_USER"); }},
          {"there is no such limit",
           [](LabEvidence &f) { f.limits("Max file size   unlimited   unlimited   bytes\n"); }},
          {"the kernel's record is missing", [](LabEvidence &f) { f.no_timeline(); }},
          {"what killed came from a timer, later", [](LabEvidence &f) { f.record["signal"]["code"] = SI_TIMER; }},
          {"the kernel's was another thread's",
           [](LabEvidence &f) {
               f.no_timeline();
               f.signal_line(5, SIGXFSZ, SI_KERNEL, "SI_KERNEL", {}, "generated", "", 101);
           }},
          {"the kernel's was an earlier one",
           [](LabEvidence &f) { f.signal_line(3, SIGXFSZ, SI_USER, "SI_USER", {}, "generated"); }}}},
        {S::cpu_time_used_up,
         cpu_used_up,
         {{"somebody's kill -XCPU", [](LabEvidence &f) { f.sent_by(50, 51, SIGXCPU, SI_USER, "SI_USER"); }},
          {"a timer's", [](LabEvidence &f) { f.record["signal"]["code"] = SI_TIMER; }},
          {"there is no such limit",
           [](LabEvidence &f) { f.limits("Max cpu time   unlimited   unlimited   seconds\n"); }},
          {"real-time threads have a limit as well",
           [](LabEvidence &f) { f.limits(std::string(one_second) + "Max realtime timeout   200000   200000   us\n"); }},
          {"it was not fatal", [](LabEvidence &f) { f.record["signal"]["fatal"] = false; }}}},
        {S::out_of_memory_cgroup, [](LabEvidence &f) { out_of_memory(f, "CONSTRAINT_MEMCG"); },
         no_oom({"which cgroup is not known", [](LabEvidence &f) { f.record["oom"]["cgroup"] = nullptr; }})},
        {S::out_of_memory_some_cgroup, [](LabEvidence &f) { out_of_memory(f, "CONSTRAINT_MEMCG", ""); },
         no_oom({"the host's", [](LabEvidence &f) { f.record["oom"]["constraint"] = "CONSTRAINT_NONE"; }})},
        {S::out_of_memory_host, [](LabEvidence &f) { out_of_memory(f, "CONSTRAINT_NONE"); },
         no_oom({"a cgroup's", [](LabEvidence &f) { f.record["oom"]["constraint"] = "CONSTRAINT_MEMCG"; }})},
        {S::out_of_memory_cpuset, [](LabEvidence &f) { out_of_memory(f, "CONSTRAINT_CPUSET"); },
         no_oom({"a memory policy's",
                 [](LabEvidence &f) { f.record["oom"]["constraint"] = "CONSTRAINT_MEMORY_POLICY"; }})},
        {S::out_of_memory_policy, [](LabEvidence &f) { out_of_memory(f, "CONSTRAINT_MEMORY_POLICY"); },
         no_oom({"a cpuset's", [](LabEvidence &f) { f.record["oom"]["constraint"] = "CONSTRAINT_CPUSET"; }})},
        {S::out_of_memory_chosen, [](LabEvidence &f) { out_of_memory(f, ""); },
         no_oom({"the kernel's line says why",
                 [](LabEvidence &f) { f.record["oom"]["constraint"] = "CONSTRAINT_NONE"; }})},
        {S::memory_limit,
         [](LabEvidence &f) { out_of_memory(f, "CONSTRAINT_MEMCG"); },
         {{"not the cgroup's limit was reached",
           [](LabEvidence &f) { f.record["oom"]["constraint"] = "CONSTRAINT_NONE"; }},
          {"which cgroup is not known: it may be that of one around",
           [](LabEvidence &f) { f.record["oom"]["cgroup"] = nullptr; }},
          {"the limit is not known", [](LabEvidence &f) { f.record["oom"]["memory_max"] = nullptr; }}}},
        {S::handled_then_sent, raised_again,
         and_also(of_another_fault, {{"the handler on the stack is another fault's",
                                      [](LabEvidence &f) { f.analysis.interrupted->address = 16; }},
                                     {"the handler has gone, and the registers are others",
                                      [](LabEvidence &f) {
                                          f.analysis.interrupted.reset();
                                          f.frames({"libc.so.6:raise", "later", "main"});
                                      }},
                                     {"somebody else sent the second",
                                      [](LabEvidence &f) { f.record["signal"]["sender"]["pid"] = 50; }}})},
        {S::handled_then_raised, not_entered,
         and_also(of_another_fault,
                  {{"the thread went on, and this is another fault",
                    [](LabEvidence &f) {
                        f.registers().rax = 0x1000;
                        f.accesses("rax", 8);
                    }},
                   {"what a handler has dealt with was a page of a file",
                    [](LabEvidence &f) {
                        f.no_timeline();
                        f.maps("00500000-00502000 rw-s 00000000 08:01 9 /tmp/data\n");
                        f.signal_line(2'000'000, SIGBUS, BUS_ADRERR, "BUS_ADRERR", 0x501000, "delivered", "handled");
                        f.signal_line(0, SIGSEGV, SI_KERNEL, "SI_KERNEL", {}, "delivered", "fatal", 100, true);
                    }},
                   {"it was sent", [](LabEvidence &f) { f.record["signal"]["code_name"] = "SI_USER"; }}})},
        {S::fault_came_first,
         [](LabEvidence &f) {
             f.handled();
             f.sent_itself(SIGSEGV);
         },
         and_also(of_another_fault, {{"it died of another signal, which need have nothing to do with it",
                                      [](LabEvidence &f) {
                                          f.no_timeline();
                                          f.handled();
                                          f.sent_itself(SIGTERM);
                                      }},
                                     {"the fault is explained", [](LabEvidence &f) { f.in_handler(); }}})},
    };
}

} // namespace incident::postmortem::test
