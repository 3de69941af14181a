// Watches ZFS pools for syncs (spa_sync() of a transaction group) that last too long: while
// they last, and when they are over.
//
// By fentry where the zfs module has BTF, else by kprobe, else by reading the kstat files;
// chosen when the module is there, which may be long after the daemon's start, and again
// when it comes back after having been unloaded.
//
// Nothing wakes the daemon while all is well but one look a threshold.  A sync that begins
// after a look at time T reaches the threshold no earlier than T + threshold, and one that
// was in flight at T is known with its start: so the next look is needed at the earlier of
// these two, and a stall is told within milliseconds of its threshold whatever the cadence.
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
    std::uint64_t t_ns = 0;     // of the look, or of the return
    std::uint64_t elapsed_ns = 0;
    bool in_flight = false;
    // In flight: the threshold it has just passed.  A sync is told once for each, the largest
    // where one look finds several, and once at its return.
    std::uint64_t passed_ns = 0;
    std::uint32_t tid = 0; // of the pool's txg_sync thread; 0: not known (kstat)
};

// What it asks of the Recorder; tests have their own.
struct TxgProbes {
    std::function<Result<std::vector<Attached>>()> fentry, kprobes;
    std::function<std::span<const bpf::txg_sync>()> syncs;
    std::function<Status(std::uint64_t ns)> set_threshold; // of what is sent at return
    static TxgProbes of(Recorder &recorder);               // which stays where it is
};
// A whole copy of an entry (seq: see bpf/txg.bpf.h); nullopt while it is being written.
std::optional<bpf::txg_sync> read_sync(const bpf::txg_sync &entry);

class TxgSyncs {
public:
    struct Now {
        std::uint64_t monotonic_ns = 0;
        std::uint64_t raw_ns = 0; // CLOCK_MONOTONIC_RAW, the clock of the kstats
        static Now read();
    };

    TxgSyncs(capture::OsRoots os, TxgProbes probes);

    // Of the rules in force, > 0, in any order; none: nothing is attached or read.  Takes
    // effect at the next look, which is due at once.
    void set_thresholds(std::vector<std::uint64_t> ns);

    std::vector<TxgStall> look(const Now &now);
    // When the next look is needed, monotonic ns; 0: none is, there are no thresholds.
    std::uint64_t next_look_ns() const { return next_look_ns_; }
    // An EVENT_TXG of the ring buffer; nullopt for what is not one, or is below all thresholds.
    std::optional<TxgStall> on_event(std::span<const std::uint8_t> bytes);

    // {"txg_sync", "active", "kprobe"}, {…, "degraded", "kstat: …"}, {…, "unavailable", "no zfs"}
    capture::ProbeState state() const;

private:
    enum class Way { None, Fentry, Kprobe, Kstat };
    struct Told {
        std::uint64_t passed_ns = 0; // in flight
        bool over = false;           // though the probes show it in flight: they missed its return
    };
    struct Pool {
        std::map<std::uint64_t, Told> told, // by txg: those in flight at the latest look
            before;                         // … and at the one before
        std::optional<std::uint64_t> done;  // kstat: groups up to this one are done with
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
    std::uint64_t module_ = 0; // tells one loading of the module from the next; 0: not there
    std::uint64_t attached_ns_ = 0;
    bool look_before_ = false; // a sync may be in flight that began before the probes were there
    std::vector<Attached> attached_;
    std::map<std::string, Pool> pools_;
};

} // namespace incident::daemon
