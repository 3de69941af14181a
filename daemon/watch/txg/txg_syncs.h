// Finds syncs of ZFS pools (spa_sync() of a transaction group) that last too long, while they last and when they end.
//
// It uses fentry if the zfs module has BTF, else kprobes, else the kstat files.  It chooses when the module is loaded,
// which may be long after the start of the daemon, and again each time the module is loaded again.
//
// While all is well the daemon wakes up only once per threshold.  A sync that begins after a look at time T reaches the
// threshold no earlier than T + threshold, and the start of a sync that was in flight at T is known.  So the next look
// is needed at the earlier of these two times, and a stall is reported within milliseconds of its threshold.
#pragma once

#include "bpf/event.h"
#include "capture/collect/collect.h"
#include "capture/collect/snapshot.h"
#include "capture/os/zfs_kstat.h"
#include "daemon/record/recorder.h"

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace incident::daemon {

// A sync over a threshold.
struct TxgStall {
    std::string pool;
    std::uint64_t txg = 0;
    std::uint64_t start_ns = 0; // monotonic, as t_ns
    std::uint64_t t_ns = 0;     // the time of the look, or of the return
    std::uint64_t elapsed_ns = 0;
    bool in_flight = false;
    // The threshold that a sync in flight has just passed.  A sync is reported once for each threshold (for the largest
    // if one look finds several) and once at its return.
    std::uint64_t passed_ns = 0;
    std::uint32_t tid = 0; // the pool's txg_sync thread; 0: not known (kstat)
};

// What it needs of the Recorder; tests have their own.
struct TxgProbes {
    std::function<Result<std::vector<Attached>>()> fentry, kprobes;
    std::function<std::span<const bpf::txg_sync>()> syncs;
    std::function<Status(std::uint64_t ns)> set_threshold; // for what is sent at the return
    static TxgProbes of(Recorder &recorder);               // the Recorder must not move
};
// A consistent copy of an entry (seq: see bpf/txg.bpf.h); nullopt while it is being written.
std::optional<bpf::txg_sync> read_sync(const bpf::txg_sync &entry);

class TxgSyncs {
public:
    struct Now {
        capture::MonotonicTime monotonic; // of the probes
        capture::RawTime raw;             // of the kstats
        static Now read();
    };

    TxgSyncs(capture::OsRoots os, TxgProbes probes);

    // Sets the thresholds of the rules in force (> 0, in any order).  If there are none, nothing is attached or read.
    // They take effect at the next look, which is due at once.
    void set_thresholds(std::vector<std::uint64_t> ns);

    std::vector<TxgStall> look(const Now &now);
    // When the next look is needed, monotonic ns; 0: never, because there are no thresholds.
    std::uint64_t next_look_ns() const { return next_look_ns_; }
    // Reads an EVENT_TXG of the ring buffer; nullopt if it is none, or is below all thresholds.
    std::optional<TxgStall> on_event(std::span<const std::uint8_t> bytes);

    // {"txg_sync", "active", "kprobe"}, {…, "degraded", "kstat: …"}, {…, "unavailable", "no zfs"}
    capture::ProbeState state() const;

private:
    enum class Way { None, Fentry, Kprobe, Kstat };
    struct Told {
        std::uint64_t passed_ns = 0; // in flight
        bool over = false; // it has ended, although the probes show it in flight because they missed its return
    };
    struct Pool {
        std::map<std::uint64_t, Told> told, // by txg: syncs in flight at the latest look
            before;                         // … and at the one before
        std::optional<std::uint64_t> done;  // kstat: groups up to this one need no look
        bool seen = false;
    };

    void choose(const Now &now);
    void choose_way();
    Status try_probes(const std::function<Result<std::vector<Attached>>()> &attach, Way way);
    void look_at_probes(const Now &now, std::vector<TxgStall> &stalls);
    void look_at_kstat(const Now &now, std::uint64_t before, const std::string &name, std::vector<TxgStall> &stalls);
    bool over_by_kstat(Pool &pool, const bpf::txg_sync &entry, const TxgStall &sync, std::vector<TxgStall> &stalls);
    void tell(Pool &pool, TxgStall sync, std::vector<TxgStall> &stalls);
    bool untold(const Pool &pool, const TxgStall &sync) const;
    void need_look_at(std::uint64_t ns) { next_look_ns_ = std::min(next_look_ns_, ns); }
    std::vector<std::string> pool_names() const;
    std::vector<capture::TxgRow> read_txgs(const std::string &pool) const;

    capture::OsRoots os_;
    TxgProbes probes_;
    std::vector<std::uint64_t> thresholds_; // ascending
    std::uint64_t next_look_ns_ = 0;

    Way way_ = Way::None;
    std::string reason_ = "not looked for yet";
    std::uint64_t module_ = 0; // changes each time the module is loaded; 0: it is not there
    std::uint64_t attached_ns_ = 0;
    bool look_before_ = false; // a sync may be in flight that began before the probes were attached
    std::vector<Attached> attached_;
    std::map<std::string, Pool> pools_;
};

} // namespace incident::daemon
