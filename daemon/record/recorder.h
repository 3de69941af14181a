// The daemon's access to the kernel side: loads and attaches the programs, reads their maps, and tells them what to
// watch. Only recorder*.cpp include libbpf.
#pragma once

#include "bpf/event.h"
#include "capture/collect/snapshot.h"
#include "capture/os/address.h"
#include "capture/os/result.h"
#include "capture/os/unique_fd.h"
#include "daemon/plan/trigger_plan.h"
#include "daemon/record/pool.h"
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

// How many bytes of kernel memory the configured maps take at most.
struct MemoryPlan {
    std::uint64_t calls_kept = 0; // packed calls
    std::uint64_t facts = 0;      // distinct facts (bpf/tallies.h)
    std::uint64_t rings = 0;      // per-thread headers, opens and paths
    // The tables that lead to a thread's ring: 4 bytes × pid_max by tid, 8 × STACK_PLACES by kernel stack.
    std::uint64_t thread_tables = 0;
    std::uint64_t processes = 0;
    std::uint64_t events = 0; // ring buffer
    std::uint64_t calls = 0;  // probed calls in flight
    std::uint64_t total() const { return calls_kept + facts + rings + thread_tables + processes + events + calls; }
};
MemoryPlan plan_memory(const rules::Config::Record &record, std::uint32_t pid_max);
// Of the pool for packed calls: as many as [record] calls holds, but OWN_SEGMENTS for each thread.
std::uint64_t segment_count(const rules::Config::Record &record);

struct RecorderUse {
    std::uint32_t threads_used = 0, threads_max = 0;
    std::uint32_t processes_max = 0;
    std::uint64_t calls_bytes = 0, calls_bytes_used = 0; // of the pool for packed calls
    std::uint64_t memory_bytes = 0;
};

// Says in words what was lost between two readings.  of_capture: only lost events about dying processes, without what
// the account of each process counts itself.
std::vector<capture::Loss> describe_losses(const LossCounts &now, const LossCounts &before, bool only_of_capture);

// Says what users were refused, because they had their share.  What of it is lost stands in describe_losses() as well.
std::vector<capture::Loss> describe_refused(const std::vector<bpf::user_share> &shares);

// The state of the programs of one rule kind ("reclaim"), or of one tracepoint ("tracepoint:CATEGORY:NAME").
struct FamilyState {
    bool attached = false;
    std::string reason; // why they are not attached although a rule wants them; else ""
};

// What a program took for the threads of processes that rules are about, by the bits of these rules.
struct OwnCost {
    std::uint64_t rules = 0;
    std::string program;
    std::uint64_t runs = 0, ns = 0; // since load; ns: the time after the check that a rule is about the thread
};

struct ProcessCalls {
    std::uint64_t calls = 0;
    std::string comm;        // of its leader, or of one of its threads; hostile
    std::uint32_t share = 0; // index into share_words of its user
};

class Attacher;

// What is attached to the kernel.  It is detached when its last owner drops it, which may be after the Recorder; that
// may take long (RCU grace periods).
using Attached = std::shared_ptr<void>;

class Recorder final : public Recorded {
public:
    // Loads and attaches the programs, and starts recording; for what is attached later it starts a process that keeps
    // the right to do so (attacher.h), so that this one may give it up.  Call it before threads are made.  stack_bytes:
    // how much of each thread's stack is captured, the most that any rule asks for.  The Error names what the machine
    // lacks.
    static Result<Recorder> start(const rules::Config::Record &record, std::uint32_t stack_bytes);

    // Tells the kernel side what the rules want, as a new generation.  It is in force for all threads in one step, and
    // each thread is decided about again at its next system call.  Attaches the programs of the kinds that rules have
    // now, and detaches the others.
    void apply(const rules::Engine &engine, const TriggerPlan &plan = {});
    // Whether the entries of calls are recorded too.  If not, a call is recorded when it returns, without a duration,
    // and only the registers of a thread show its call in flight.
    Status record_entries(bool wanted);
    bool entries_recorded() const;
    // Whose calls have no durations although record_entries() wants them, and nobody else's.  Call it again now and
    // then: a thread that decided about itself meanwhile may not know.
    Status leave_untimed(const std::set<capture::ProcessRef> &processes);
    // The calls of each process that is recorded, since its threads began to be, also those of threads that have ended.
    std::map<capture::ProcessRef, ProcessCalls> calls_by_process() const;
    // Stops testing these conditions ("RULE:CONDITION") until the next call, although rules want them, and detaches
    // what no other condition needs.  plan: the one that was applied.
    void leave_out(std::set<std::string> conditions, const TriggerPlan &plan);
    const std::set<std::string> &left_out() const;
    void give_decision(const bpf::watch_key &key, bool watch, std::uint64_t rules, std::uint32_t generation) override;
    // From now on this process is not recorded: nobody could write down what it dies of.
    void leave_out_self();
    // The next process that maps code of that file is told of again (EVENT_MODULE).
    void forget_module(const bpf::module_key &file);
    // The same of all files.
    void forget_modules();
    // Every thread is decided about again.
    void decide_again();
    // The same if a user has made it necessary more often than the kernel side does it by itself.
    void decide_where_due();
    // What is attached now, by kind, and by "tracepoint:CATEGORY:NAME" for each tracepoint.  A kind of which no
    // condition is wanted is not listed.
    const std::map<std::string, FamilyState> &families() const;
    std::optional<TracepointName> tracepoint(std::uint32_t number) const override;
    // When processes ran again after the last sleep of the machine, or after one that failed; 0: never, or the kernel
    // does not tell.
    capture::MonotonicTime thawed_at() const;
    // Allows so many captures in the context of a living thread until the next call.
    void allow_captures(std::uint32_t count);
    // Tells the kernel side whether it may make this process dump core on its own.
    void give_permit(const bpf::permit &permit);
    // What the kernel side must know of the host for that, and until when (monotonic) it holds.  A new round voids all
    // permits.
    struct DumpTerms {
        std::uint64_t until_ns = 0, space_bytes = 0;
        std::uint32_t round = 0;
    };
    void set_dump_terms(const DumpTerms &terms);
    // How many signals may still be sent; both sides take from it.  Valid as long as the Recorder.
    std::int32_t *dump_allowance();

    Status snapshot(std::uint32_t tgid) override;

    int fd() const; // readable when events wait
    // Calls on_event(bytes) for each waiting event, oldest first, until it returns false.
    using OnEvent = std::function<bool(std::span<const std::uint8_t>)>;
    Status consume(const OnEvent &on_event);

    std::optional<capture::ThreadRings> read(std::uint32_t slot, std::uint64_t generation,
                                             const CallsWanted &wanted) const override;
    // Where the pool for calls is nearly used up: gives back what ended threads have left, and takes from who has more
    // than a fair part where others want more (pool.h).  Call it every second.
    void tend_pool();
    std::vector<std::uint32_t> slots_of(const capture::ProcessRef &process) const override;
    bpf::thread_slot header(std::uint32_t slot) const override;
    // The last call of the slot's thread, or the one it is in.
    bpf::syscall_record last_call(std::uint32_t slot) const;
    std::uint32_t slots() const override;
    void release(std::uint32_t slot) override;

    std::vector<bpf::tally> tallies(const capture::ProcessRef &process) const override;
    std::vector<capture::Request> requests_in_flight(const capture::ProcessRef &process) const override;
    // Forgets those of processes that are no longer recorded, whose ends nobody has seen.  Call it now and then.
    void tend_requests();
    std::optional<bpf::process_entry> process(std::uint32_t tgid) const override;
    std::vector<std::uint32_t> processes() const override;
    void forget_process(std::uint32_t tgid) override;
    std::optional<bpf::kept_death> kept_death(const capture::ProcessRef &process) const override;

    // Counts run times while the descriptor is open.  Counting costs each run of a program two clock reads, so it is
    // off else. The counts are since load.
    Result<UniqueFd> count_run_times();
    void end_counting(); // ends that of own_costs(); call it where the descriptor is closed
    struct RunTime {
        std::uint64_t runs = 0, ns = 0;
    };
    std::map<std::string, RunTime> run_times() const; // by program
    // Counted together with the run times, by program and rules.
    std::vector<OwnCost> own_costs() const;
    // The programs that serve conditions of a kind ("syscall" → "call_over").
    static std::vector<std::string> programs_of(std::string_view kind);

    // ---- latency: uprobes and what the kernel side knows of the calls they time -------
    // What the program of a probe does.  A function has an entry and a return, caught by a return probe or at its ret
    // instructions; a pair has two ends.  Keyed roles are for calls that one thread may begin and another end.  The
    // next three are where calls end without a return: _Unwind_SetIP, longjmp, setcontext.  The last one tells when the
    // dynamic loader has mapped code.
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
        std::string path; // of the file; /proc/self/fd/N names exactly one inode
        capture::FileOffset offset;
        capture::FileOffset semaphore;    // of USDT; 0: none
        std::optional<std::uint32_t> pid; // none: every process that maps the file
        std::uint64_t flags = 0;          // KEEP_RETURN, BY_STACK_POINTER, OF_PAIR
    };
    // probe: the id of the probe, whose PROBE_INDEX finds its settings and counts; or no_probe, which has neither.
    static constexpr std::uint32_t no_probe = NO_PROBE;
    Result<Attached> attach(UprobeRole role, const UprobePoint &point, std::uint32_t probe);
    void set_probe(std::uint32_t probe, const bpf::probe_setting &setting);
    bpf::probe_count probe_count(std::uint32_t probe) const; // since load, over all CPUs
    // Slots whose threads have made a probed call since they began to be recorded.
    std::vector<std::uint32_t> slots_with_calls() const;
    // Why there is no copy.  None: the thread that has the slot now has made no calls.  Busy: the thread is changing
    // them, and may have been preempted meanwhile, so try again in a millisecond.
    enum class CallsUnread { None, Busy };
    std::expected<bpf::thread_calls, CallsUnread> calls(std::uint32_t slot) const;
    // Forgets keyed calls in flight of processes that have ended, because the exit of a thread does not end these.
    void forget_keyed_calls(const std::function<bool(const capture::ProcessRef &)> &lives);

    // Attaches a program of the recorder that start() leaves alone (SEC("kprobe") without a
    // function) to a kernel function's entry or return.  The Recorder must outlive it.
    Result<Attached> attach_kprobe(const char *program, const char *function, bool on_return);
    // Loads and attaches the fentry and fexit programs of bpf/txg_fentry.bpf.c: needs a zfs
    // module with BTF.
    Result<Attached> attach_txg_fentry();
    // The table that the kernel side writes, see bpf::txg_sync; valid as long as the Recorder.
    std::span<const bpf::txg_sync> txg_syncs() const;
    // Syncs that last at least so long send an EVENT_TXG when they return; 0: none does.
    Status set_txg_threshold(std::uint64_t ns);

    LossCounts loss_counts() const override;
    std::vector<bpf::user_share> shares() const; // of the users who have or had any
    std::vector<capture::ProbeState> probes() const override;
    RecorderUse use() const;
    // The process that may load and attach programs, for other users of BPF than this.
    Attacher &attacher();

    Recorder(Recorder &&) noexcept;
    Recorder &operator=(Recorder &&) noexcept;
    ~Recorder() override;

private:
    Recorder();
    bpf::thread_slot steady_header(std::uint32_t slot) const;
    std::optional<bpf::call_segment> segment(std::uint32_t slot, std::uint32_t index_plus_one) const;
    // side: of the slot, as it was at the same time as rings.slot; null: it has changed since.
    void read_calls(std::uint32_t slot, capture::ThreadRings &rings, const CallsWanted &wanted,
                    const bpf::thread_side *side) const;
    std::uint64_t kept_before(std::uint32_t slot, std::uint64_t generation, std::uint64_t index) const;
    std::vector<SegmentHolder> holders();
    void find_ages(SegmentHolder &holder) const;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace incident::daemon
