// The kernel side as the daemon sees it: loads and attaches the programs, reads their
// maps, tells them what to watch.  Only recorder*.cpp include libbpf.
#pragma once

#include "bpf/event.h"
#include "capture/collect/snapshot.h"
#include "capture/os/result.h"
#include "capture/os/unique_fd.h"
#include "daemon/plan/trigger_plan.h"
#include "daemon/record/recorded.h"
#include "rules/engine/engine.h"
#include "rules/files/config.h"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace incident::daemon {

// Bytes of kernel memory the configured maps take at worst.
struct MemoryPlan {
    std::uint64_t rings = 0; // per-thread headers, syscall records, opens and paths
    // Where a thread's ring is found: 4 bytes × pid_max by tid, 8 × STACK_PLACES by kernel stack.
    std::uint64_t thread_tables = 0;
    std::uint64_t processes = 0;
    std::uint64_t events = 0; // ring buffer
    std::uint64_t calls = 0;  // probed calls in flight
    std::uint64_t total() const { return rings + thread_tables + processes + events + calls; }
};
MemoryPlan plan_memory(const rules::Config::Record &record, std::uint32_t pid_max);

struct RecorderUse {
    std::uint32_t threads_used = 0, threads_max = 0;
    std::uint32_t processes_max = 0;
    std::uint32_t syscalls_per_thread = 0;
    std::uint64_t memory_bytes = 0;
};

// What was lost between two readings, in words; only of_capture: only what losing an
// event about a dying process counts, not what each process's own account holds.
std::vector<capture::Loss> describe_losses(const LossCounts &now, const LossCounts &before, bool only_of_capture);

// The programs of one rule kind ("reclaim"), or of one tracepoint ("tracepoint:CATEGORY:NAME").
struct FamilyState {
    bool attached = false;
    std::string reason; // why not, though a rule wants it; "" otherwise
};

// What a program took for threads of processes that rules are about: by the bits of these rules.
struct OwnCost {
    std::uint64_t rules = 0;
    std::string program;
    std::uint64_t runs = 0, ns = 0; // since load; ns: behind the point at which strangers are let go
};

// Something attached to the kernel; detached when this goes.
struct Detach {
    void (*how)(void *) = nullptr;
    void operator()(void *what) const { how(what); }
};
using Attached = std::unique_ptr<void, Detach>;

class Recorder final : public Recorded {
public:
    // Loads, attaches, starts recording.  stack_bytes: of each captured thread, the most
    // that any rule asks for.  The Error names what the machine lacks.
    static Result<Recorder> start(const rules::Config::Record &record, std::uint32_t stack_bytes);

    // What the rules want, as a new generation: in force for all threads in one step, and each decides anew at its next
    // syscall.  Attaches the programs of the kinds that are there now, detaches those of kinds that are not.
    void apply(const rules::Engine &engine, const TriggerPlan &plan = {});
    // Whether the entries of calls are recorded too: else a call is recorded when it returns, without a
    // duration, and one in flight is known by its thread's registers alone.
    Status record_entries(bool wanted);
    bool entries_recorded() const;
    // Conditions ("RULE:CONDITION") that are tested for nobody until the next call though rules want them; what no
    // other condition needs is detached.  plan: the one that was applied.
    void leave_out(std::set<std::string> conditions, const TriggerPlan &plan);
    const std::set<std::string> &left_out() const;
    void give_verdict(const bpf::watch_key &key, bool watch, std::uint64_t rules, std::uint32_t generation) override;
    // Everybody decides anew.
    void decide_again();
    // What is attached now: by kind, and by "tracepoint:CATEGORY:NAME" for each tracepoint; nothing where no condition
    // of it is wanted.
    const std::map<std::string, FamilyState> &families() const;
    std::optional<TracepointName> tracepoint(std::uint32_t number) const override;
    // So many captures in a living thread's own context until the next call.
    void allow_captures(std::uint32_t count);
    // Whether the kernel side may make that process dump core by itself.
    void give_permit(const bpf::permit &permit);
    // What it must know of the host for that, and until when (monotonic) that holds; a new round voids all permits.
    struct DumpTerms {
        std::uint64_t until_ns = 0, space_bytes = 0;
        std::uint32_t round = 0;
    };
    void set_dump_terms(const DumpTerms &terms);
    // Signals that may still be sent, taken from by both sides; valid as long as the Recorder.
    std::int32_t *dump_allowance();

    Status snapshot(std::uint32_t tgid) override;

    int fd() const; // readable when events wait
    // Calls on_event(bytes) for each waiting event, oldest first, until it answers false: that one is the last.
    using OnEvent = std::function<bool(std::span<const std::uint8_t>)>;
    Status consume(const OnEvent &on_event);

    std::optional<capture::ThreadRings> read(std::uint32_t slot, std::uint64_t generation) const override;
    std::vector<std::uint32_t> slots_of(const capture::ProcessRef &process) const override;
    bpf::thread_slot header(std::uint32_t slot) const override;
    // The call a slot's thread made last, or is in.
    bpf::syscall_record last_call(std::uint32_t slot) const;
    std::uint32_t slots() const override;
    void release(std::uint32_t slot) override;

    std::optional<bpf::process_entry> process(std::uint32_t tgid) const override;
    std::vector<std::uint32_t> processes() const override;
    void forget_process(std::uint32_t tgid) override;

    // Counting of run times costs each run of a program two clock reads: on only while the
    // descriptor is open.  The counts are since load.
    Result<UniqueFd> count_run_times();
    void end_counting(); // of own_costs(), where the descriptor is closed
    struct RunTime {
        std::uint64_t runs = 0, ns = 0;
    };
    std::map<std::string, RunTime> run_times() const; // by program
    // Counted with the run times; by program and rules.
    std::vector<OwnCost> own_costs() const;
    // The programs that serve conditions of a kind ("syscall" → "call_over").
    static std::vector<std::string> programs_of(std::string_view kind);

    // ---- latency: uprobes and what the kernel side knows of the calls they time -------
    // What a probe's program does: the entry of a function, its return (a return probe), its
    // return where it stands at a ret instruction; or the two ends of a pair.
    // Keyed ones: of calls that one thread may begin and another end.  Then those that stand
    // where calls end without a return: at _Unwind_SetIP, longjmp, setcontext.  The last tells
    // when the dynamic loader has mapped code.
    enum class UprobeRole {
        EnterCall,
        LeaveCall,
        LeaveAtRet,
        EnterPair,
        LeavePair,
        EnterKeyed,
        LeaveKeyed,
        UnwindLands,
        LongJump,
        SwitchStack,
        CodeLoaded
    };
    struct UprobePoint {
        std::string path;                 // of the file; /proc/self/fd/N pins the very inode
        std::uint64_t offset = 0;         // bytes in the file
        std::uint64_t semaphore = 0;      // file offset of a USDT semaphore, 0: none
        std::optional<std::uint32_t> pid; // none: every process that maps the file
        std::uint64_t flags = 0;          // KEEP_RETURN, BY_STACK_POINTER, OF_PAIR
    };
    // A live attachment; detaches when destroyed.  The Recorder may go first.
    class Uprobe {
    public:
        Uprobe(Uprobe &&other) noexcept : link_(std::exchange(other.link_, nullptr)) {}
        Uprobe &operator=(Uprobe &&other) noexcept {
            std::swap(link_, other.link_);
            return *this;
        }
        ~Uprobe();

    private:
        friend class Recorder;
        explicit Uprobe(void *link) : link_(link) {}
        void *link_; // bpf_link
    };
    // probe: its id (PROBE_INDEX is where its settings and counts stand); or no_probe, which has none.
    static constexpr std::uint32_t no_probe = NO_PROBE;
    Result<Uprobe> attach(UprobeRole role, const UprobePoint &point, std::uint32_t probe);
    void set_probe(std::uint32_t probe, const bpf::probe_setting &setting);
    bpf::probe_count probe_count(std::uint32_t probe) const; // since load, over all CPUs
    // Slots whose threads have made a probed call since they began to be recorded.
    std::vector<std::uint32_t> slots_with_calls() const;
    // Why there is no copy: none are of the thread that has the slot now; or it is changing
    // them (its writer may have been preempted: look again in a millisecond).
    enum class CallsUnread { None, Busy };
    std::expected<bpf::thread_calls, CallsUnread> calls(std::uint32_t slot) const;
    // Forgets calls in flight of processes that have ended (keyed ones: no thread's exit ends them).
    void forget_keyed_calls(const std::function<bool(const capture::ProcessRef &)> &lives);

    // Attaches a program of the recorder that start() leaves alone (SEC("kprobe") without a
    // function) to a kernel function's entry or return.  The Recorder must outlive it.
    Result<Attached> attach_kprobe(const char *program, const char *function, bool on_return);
    // Loads and attaches the fentry and fexit programs of bpf/txg_fentry.bpf.c: needs a zfs
    // module with BTF.
    Result<Attached> attach_txg_fentry();
    // As the kernel writes it, see bpf::txg_sync; valid as long as the Recorder.
    std::span<const bpf::txg_sync> txg_syncs() const;
    // Syncs at least this long send an EVENT_TXG at their return; 0: none.
    Status set_txg_threshold(std::uint64_t ns);

    LossCounts loss_counts() const override;
    std::vector<capture::ProbeState> probes() const override;
    RecorderUse use() const;

    Recorder(Recorder &&) noexcept;
    Recorder &operator=(Recorder &&) noexcept;
    ~Recorder() override;

private:
    Recorder();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace incident::daemon
