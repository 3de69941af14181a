#include "daemon/watch/txg/txg_syncs.h"

#include "capture/os/dir_at.h"
#include "capture/os/proc_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace incident::daemon {

namespace {

constexpr std::uint64_t MS = 1'000'000;
constexpr std::uint64_t SLACK = 1 * MS;             // past a deadline, so that the look finds it passed
constexpr std::uint64_t MODULE_EVERY = 10'000 * MS; // looks for a module that is not there
constexpr std::uint64_t FOLLOW_EVERY = 250 * MS;    // kstat: how late the end of a stall may be seen
constexpr std::uint64_t TXGS_CAP = 1u << 20;        // bytes of a kstat file; 100 groups are 15 KB
constexpr std::size_t POOLS_MAX = 1024;

std::string pool_name(const char (&name)[TXG_POOL_LEN]) {
    return {name, ::strnlen(name, sizeof(name))};
}

// Elapsed time is told by a clock that is read after the start was: never negative.
template <typename Time> std::uint64_t since(Time start, Time now) {
    return now > start ? now.ns - start.ns : 0;
}

std::string first_line(const std::string &text) {
    return text.substr(0, text.find('\n'));
}

// 0 where the module is not there, or is still coming up or going.
std::uint64_t module_identity(const std::string &sys) {
    const std::string path = sys + "/module/zfs";
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
        return 0;
    const auto initstate = capture::read_proc_file(AT_FDCWD, (path + "/initstate").c_str(), 64);
    if (initstate && !initstate->bytes.starts_with("live")) // built in: there is no such file
        return 0;
    return status.st_ino; // sysfs numbers every directory it makes anew
}

} // namespace

TxgSyncs::Now TxgSyncs::Now::read() {
    return {capture::MonotonicTime::now(), capture::RawTime::now()};
}

TxgSyncs::TxgSyncs(capture::OsRoots os, TxgProbes probes) : os_(std::move(os)), probes_(std::move(probes)) {}

void TxgSyncs::set_thresholds(std::vector<std::uint64_t> ns) {
    std::ranges::sort(ns);
    ns.erase(std::ranges::unique(ns).begin(), ns.end());
    thresholds_ = std::move(ns);
    if (!attached_.empty() && !thresholds_.empty() && !probes_.set_threshold(thresholds_.front()))
        module_ = 0; // choose anew
    next_look_ns_ = 1;
}

capture::ProbeState TxgSyncs::state() const {
    const char *state = way_ == Way::None ? "unavailable" : way_ == Way::Kstat ? "degraded" : "active";
    return {"txg_sync", state, reason_, 0};
}

void TxgSyncs::choose(const Now &now) {
    const std::uint64_t module = thresholds_.empty() ? 0 : module_identity(os_.sys);
    // Attached by fentry we hold the module (modprobe -r: "in use"); not without a pool.
    const bool let_go = way_ == Way::Fentry && pool_names().empty();
    if (module != 0 && module == module_ && way_ != Way::None && !let_go)
        return;
    attached_.clear();
    pools_.clear();
    way_ = Way::None;
    module_ = module;
    attached_ns_ = now.monotonic.ns;
    look_before_ = true;
    if (thresholds_.empty())
        reason_ = "no rule asks for it";
    else if (module == 0)
        reason_ = "no zfs";
    else
        choose_way();
}

Status TxgSyncs::try_probes(const std::function<Result<std::vector<Attached>>()> &attach, Way way) {
    if (auto set = probes_.set_threshold(thresholds_.front()); !set)
        return set;
    auto attached = attach();
    if (!attached)
        return fail(attached.error());
    attached_ = std::move(*attached);
    way_ = way;
    return {};
}

void TxgSyncs::choose_way() {
    if (::access((os_.sys + "/kernel/btf/zfs").c_str(), F_OK) == 0) {
        if (pool_names().empty()) {
            reason_ = "no pool";
            return;
        }
        reason_ = "fentry";
        const auto entered = try_probes(probes_.fentry, Way::Fentry);
        if (entered)
            return;
        reason_ = "kprobe (" + first_line(entered.error().what) + ")";
    } else {
        reason_ = "kprobe";
    }
    const auto probed = try_probes(probes_.kprobes, Way::Kprobe);
    if (probed)
        return;
    const std::string why = first_line(probed.error().what);
    const auto history =
        capture::read_proc_file(AT_FDCWD, (os_.sys + "/module/zfs/parameters/zfs_txg_history").c_str(), 64);
    if (::access((os_.proc + "/spl/kstat/zfs").c_str(), R_OK | X_OK) != 0) {
        reason_ = fmt::format("no probes ({}), and no kstats", why);
    } else if (history && history->bytes.starts_with("0")) {
        reason_ = fmt::format("no probes ({}), and the kstat keeps no groups: zfs_txg_history = 0", why);
    } else {
        way_ = Way::Kstat;
        reason_ = fmt::format("kstat, sees the end of a stall up to {} ms late, and only groups that "
                              "zfs_txg_history keeps ({})",
                              FOLLOW_EVERY / MS, why);
    }
}

std::vector<TxgStall> TxgSyncs::look(const Now &now) {
    std::vector<TxgStall> stalls;
    choose(now);
    if (thresholds_.empty()) {
        next_look_ns_ = 0;
        return stalls;
    }
    // What begins after this look reaches a threshold no earlier than this.
    next_look_ns_ = now.monotonic.ns + (way_ == Way::None ? MODULE_EVERY : thresholds_.front() + SLACK);
    for (auto &[name, pool] : pools_) {
        pool.before = std::exchange(pool.told, {});
        pool.seen = false;
    }
    if (way_ == Way::Fentry || way_ == Way::Kprobe)
        look_at_probes(now, stalls);
    // The probes do not know what was in flight when they were attached: it is followed to
    // its end in the kstat.
    if (way_ == Way::Kstat || (way_ != Way::None && look_before_)) {
        const std::uint64_t before = way_ == Way::Kstat ? UINT64_MAX : attached_ns_;
        look_before_ = false;
        for (const std::string &name : pool_names())
            look_at_kstat(now, before, name, stalls);
    }
    std::erase_if(pools_, [](const auto &each) { return !each.second.seen; });
    return stalls;
}

void TxgSyncs::look_at_probes(const Now &now, std::vector<TxgStall> &stalls) {
    for (const bpf::txg_sync &entry : probes_.syncs()) {
        const auto sync = read_sync(entry);
        if (!sync) {
            need_look_at(now.monotonic.ns + SLACK);
            continue;
        }
        if (sync->tid == 0 || !sync->in_flight || sync->start_ns < attached_ns_)
            continue; // the last: left over from when the probes were detached
        TxgStall stall{pool_name(sync->pool),
                       sync->txg,
                       sync->start_ns,
                       now.monotonic.ns,
                       since(capture::MonotonicTime{sync->start_ns}, now.monotonic),
                       true,
                       0,
                       sync->tid};
        Pool &pool = pools_[stall.pool];
        pool.seen = true;
        if (!over_by_kstat(pool, entry, stall, stalls))
            tell(pool, std::move(stall), stalls);
    }
}

// Before a stall is told: a return that the kretprobe missed (it has max(10, 2 × CPUs)
// instances) leaves the entry in flight.  The kstat knows better.
bool TxgSyncs::over_by_kstat(Pool &pool, const bpf::txg_sync &entry, const TxgStall &sync,
                             std::vector<TxgStall> &stalls) {
    if (const auto told = pool.before.find(sync.txg); told != pool.before.end() && told->second.over) {
        pool.told[sync.txg] = told->second;
        return true;
    }
    if (!untold(pool, sync))
        return false;
    for (const capture::TxgRow &row : read_txgs(sync.pool)) {
        if (row.txg != sync.txg || !row.committed())
            continue;
        // Or it returned between the two readings: then its event is on the way.
        const auto again = read_sync(entry);
        if (!again || !again->in_flight || again->txg != sync.txg)
            return true;
        pool.told[sync.txg].over = true;
        if (row.sync_ns >= thresholds_.front()) {
            TxgStall over = sync;
            over.in_flight = false;
            over.elapsed_ns = row.sync_ns;
            over.t_ns = sync.start_ns + row.sync_ns;
            stalls.push_back(std::move(over));
        }
        return true;
    }
    return false;
}

bool TxgSyncs::untold(const Pool &pool, const TxgStall &sync) const {
    const auto told = pool.before.find(sync.txg);
    const std::uint64_t passed = told == pool.before.end() ? 0 : told->second.passed_ns;
    return std::ranges::any_of(
        thresholds_, [&](std::uint64_t threshold) { return threshold > passed && threshold <= sync.elapsed_ns; });
}

// One in flight: told for the largest threshold it has passed since it was last told; looked
// at again when it passes the next.
void TxgSyncs::tell(Pool &pool, TxgStall sync, std::vector<TxgStall> &stalls) {
    const auto last = pool.before.find(sync.txg);
    Told &told = pool.told.try_emplace(sync.txg, last == pool.before.end() ? Told{} : last->second).first->second;
    const auto next = std::ranges::upper_bound(thresholds_, sync.elapsed_ns);
    if (next != thresholds_.end())
        need_look_at(sync.start_ns + *next + SLACK);
    if (next == thresholds_.begin() || *std::prev(next) <= told.passed_ns)
        return;
    told.passed_ns = *std::prev(next);
    sync.passed_ns = told.passed_ns;
    stalls.push_back(std::move(sync));
}

std::vector<capture::TxgRow> TxgSyncs::read_txgs(const std::string &pool) const {
    const std::string path = os_.proc + "/spl/kstat/zfs/" + pool + "/txgs";
    const auto text = capture::read_proc_file(AT_FDCWD, path.c_str(), TXGS_CAP);
    return text ? capture::parse_txgs(text->bytes) : std::vector<capture::TxgRow>();
}

std::vector<std::string> TxgSyncs::pool_names() const {
    const UniqueFd dir(::open((os_.proc + "/spl/kstat/zfs").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::vector<std::string> names;
    if (dir)
        (void)capture::for_each_entry(dir.get(), [&](const char *name, unsigned char type) {
            if (type == DT_DIR && names.size() < POOLS_MAX)
                names.emplace_back(name);
        });
    std::ranges::sort(names);
    return names;
}

// Of syncs that began before that time.
void TxgSyncs::look_at_kstat(const Now &now, std::uint64_t before, const std::string &name,
                             std::vector<TxgStall> &stalls) {
    const auto rows = read_txgs(name);
    Pool &pool = pools_[name];
    pool.seen = true;
    if (rows.empty())
        return;
    std::uint64_t newest = 0;
    for (const auto &row : rows)
        if (row.committed())
            newest = std::max(newest, row.txg);
    // At first sight what is past is past.  Numbers that fall are those of another pool of
    // the same name.
    if (!pool.done || newest < *pool.done)
        pool.done = newest;
    for (const auto &row : rows) {
        // The kstat's clock runs apart from the monotonic one, which NTP corrects.
        const std::uint64_t ago = since(row.sync_start(), now.raw);
        const std::uint64_t start_ns = now.monotonic.ns - std::min(ago, now.monotonic.ns);
        TxgStall stall{name, row.txg, start_ns, now.monotonic.ns, ago, row.syncing(), 0, 0};
        if (stall.start_ns >= before)
            continue;
        if (row.syncing()) {
            look_before_ = true;
            if (ago >= thresholds_.front())
                need_look_at(now.monotonic.ns + FOLLOW_EVERY);
            tell(pool, std::move(stall), stalls);
        } else if (row.committed() && row.txg > *pool.done && row.sync_ns >= thresholds_.front()) {
            stall.elapsed_ns = row.sync_ns;
            stall.t_ns = stall.start_ns + row.sync_ns;
            stalls.push_back(std::move(stall));
        }
    }
    pool.done = newest;
}

std::optional<TxgStall> TxgSyncs::on_event(std::span<const std::uint8_t> bytes) {
    bpf::txg_event event;
    if (bytes.size() < sizeof(event))
        return std::nullopt;
    std::memcpy(&event, bytes.data(), sizeof(event));
    if (event.h.kind != bpf::EVENT_TXG || thresholds_.empty() || event.elapsed_ns < thresholds_.front())
        return std::nullopt;
    return TxgStall{
        pool_name(event.pool), event.txg, event.start_ns, event.h.t_ns, event.elapsed_ns, false, 0, event.h.tid};
}

} // namespace incident::daemon
