#include "capture/collect/collect_zfs.h"

#include "capture/collect/collectors.h"
#include "capture/os/dir_at.h"
#include "capture/os/lines.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace incident::capture {

namespace {

// Not dbufs (a line for each cached block), dbgmsg (megabytes), objset-* (one a dataset),
// reads (who read what: it is nobody's business here, and off by default).
constexpr std::array POOL_FILES{"txgs", "state", "dmu_tx_assign", "iostats", "multihost"};
constexpr std::array HOST_FILES{"dmu_tx", "arcstats", "abdstats", "dbufstats", "dnodestats", "zil", "zfetchstats"};
constexpr std::string_view BLOCKED = "host/zfs/blocked", PARAMETERS = "host/zfs/parameters", POOL_PREFIX = "host/zfs.";

UniqueFd open_dir(int at, const char *path) {
    return UniqueFd(::openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

template <typename Names>
void read_some(int dir, const Names &names, const std::string &prefix, const ZfsLimits &limits,
               const Deadline &deadline, Outcome &outcome) {
    for (const char *name : names) { // which of them there are depends on the version of OpenZFS
        auto text = read_proc_file(dir, name, limits.file_cap, [&] { return deadline.passed(); });
        if (!text)
            continue;
        if (text->cut)
            outcome.error += prefix + name + " cut; ";
        outcome.files.emplace_back(prefix + name, std::move(text->bytes));
    }
}

Outcome collect_pools(const std::string &kstats, const ZfsLimits &limits, const Deadline &deadline) {
    const UniqueFd dir = open_dir(AT_FDCWD, kstats.c_str());
    if (!dir)
        return {false, Error::system(kstats).what, {}};
    std::vector<std::string> pools;
    if (auto listed = for_each_entry(dir.get(),
                                     [&](const char *name, unsigned char type) {
                                         if (type == DT_DIR)
                                             pools.emplace_back(name);
                                     });
        !listed)
        return {false, listed.error().what, {}};
    std::ranges::sort(pools);
    Outcome outcome;
    if (pools.size() > limits.pools) {
        outcome.error = std::to_string(pools.size() - limits.pools) + " pools left out; ";
        pools.resize(limits.pools);
    }
    for (const std::string &pool : pools)
        if (const UniqueFd at = open_dir(dir.get(), pool.c_str()))
            read_some(at.get(), POOL_FILES, std::string(POOL_PREFIX) + zfs_pool_label(pool) + "/", limits, deadline,
                      outcome);
    return outcome;
}

Outcome collect_kstats(const std::string &kstats, const ZfsLimits &limits, const Deadline &deadline) {
    const UniqueFd dir = open_dir(AT_FDCWD, kstats.c_str());
    if (!dir)
        return {false, Error::system(kstats).what, {}};
    Outcome outcome;
    read_some(dir.get(), HOST_FILES, "host/zfs/", limits, deadline, outcome);
    return outcome;
}

Outcome collect_parameters(const std::string &path, const ZfsLimits &limits, const Deadline &deadline) {
    const UniqueFd dir = open_dir(AT_FDCWD, path.c_str());
    if (!dir)
        return {false, Error::system(path).what, {}};
    std::map<std::string, std::string> values;
    std::uint64_t size = 0;
    Outcome outcome;
    const auto listed = for_each_entry(dir.get(), [&](const char *name, unsigned char) {
        if (size > limits.file_cap || deadline.passed()) {
            outcome.error = "cut";
            return;
        }
        if (auto text = read_proc_file(dir.get(), name, 4096)) {
            const std::string_view value = text->bytes;
            auto &kept = values[name] = value.substr(0, value.find('\n'));
            size += kept.size();
        }
    });
    if (!listed)
        return {false, listed.error().what, {}};
    std::string all;
    for (const auto &[name, value] : values)
        all.append(name).append("=").append(value).append("\n");
    outcome.files.emplace_back(PARAMETERS, std::move(all));
    return outcome;
}

// "" where the thread is not one blocked in ZFS, or is gone.
std::string blocked_line(int proc, std::uint32_t pid, std::uint32_t tid) {
    const std::string task = std::to_string(pid) + "/task/" + std::to_string(tid);
    const auto text = read_proc_file(proc, (task + "/stat").c_str(), 4096);
    const auto stat = text ? parse_proc_stat(text->bytes) : std::nullopt;
    // ZFS waits uninterruptibly, apart from its own idle threads (spl's cv_wait_*_idle, task queues)
    if (!stat || stat->state != 'D')
        return "";
    const auto stack = read_proc_file(proc, (task + "/stack").c_str(), 64 * 1024);
    const auto frames = stack ? parse_kernel_stack(stack->bytes) : std::vector<std::string>();
    if (!in_zfs(frames))
        return "";
    std::string line = "{\"pid\":" + std::to_string(pid) + ",\"tid\":" + std::to_string(tid) +
                       ",\"comm\":" + json_string(stat->comm) + ",\"stack\":[";
    for (const std::string &frame : frames)
        line.append(&frame == frames.data() ? "" : ",").append(json_string(frame));
    return line + "]}\n";
}

Outcome collect_blocked(const std::string &root, const ZfsLimits &limits, const Deadline &deadline) {
    const UniqueFd proc = open_dir(AT_FDCWD, root.c_str());
    auto pids = proc ? numbers_in(proc.get(), ".") : fail(Error::system(root));
    if (!pids)
        return {false, pids.error().what, {}};
    Outcome outcome;
    std::string lines;
    std::uint32_t looked = 0, kept = 0;
    const auto full = [&] {
        if (looked >= limits.threads || kept >= limits.blocked || lines.size() > limits.file_cap || deadline.passed())
            outcome.error = "cut: " + std::to_string(looked) + " threads looked at, " + std::to_string(kept) + " kept";
        return !outcome.error.empty();
    };
    for (const std::uint32_t pid : *pids) {
        const auto tids = numbers_in(proc.get(), (std::to_string(pid) + "/task").c_str());
        if (!tids)
            continue; // gone
        for (const std::uint32_t tid : *tids) {
            if (full())
                break;
            ++looked;
            if (std::string line = blocked_line(proc.get(), pid, tid); !line.empty()) {
                lines += line;
                ++kept;
            }
        }
        if (!outcome.error.empty())
            break;
    }
    outcome.files.emplace_back(BLOCKED, std::move(lines));
    return outcome;
}

std::vector<ZfsBlocked> parse_blocked(std::string_view text) {
    std::vector<ZfsBlocked> all;
    for (const std::string_view written : lines_of(text)) {
        const auto line = nlohmann::json::parse(written, nullptr, false);
        if (!line.is_object())
            continue;
        ZfsBlocked thread{line.value("pid", 0u), line.value("tid", 0u), line.value("comm", ""), {}};
        for (const auto &frame : line.value("stack", nlohmann::json::array()))
            thread.stack.push_back(frame.get<std::string>());
        all.push_back(std::move(thread));
    }
    return all;
}

} // namespace

std::string zfs_pool_label(std::string_view pool) {
    std::string label(pool.substr(0, 100));
    for (char &c : label)
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' || c == '_' ||
              c == '-'))
            c = '_';
    return label;
}

// The order: groups and states are small and tell most; the walk through /proc, which may
// take what time there is, comes last.
void collect_zfs(const OsRoots &os, const ZfsLimits &limits, Collected &into) {
    const std::string kstats = os.proc + "/spl/kstat/zfs", parameters = os.sys + "/module/zfs/parameters";
    std::vector<Collector> collectors;
    collectors.push_back(
        {"zfs pools", [=](const Deadline &deadline) { return collect_pools(kstats, limits, deadline); }});
    collectors.push_back(
        {"zfs kstats", [=](const Deadline &deadline) { return collect_kstats(kstats, limits, deadline); }});
    collectors.push_back(
        {"zfs parameters", [=](const Deadline &deadline) { return collect_parameters(parameters, limits, deadline); }});
    collectors.push_back({"zfs blocked threads", [root = os.proc, limits](const Deadline &deadline) {
                              return collect_blocked(root, limits, deadline);
                          }});
    run_collectors({}, std::move(collectors), {}, limits.deadline, into);
}

ZfsState zfs_state(const Collected &collected) {
    ZfsState zfs;
    for (const auto &[path, bytes] : collected.files) {
        if (path == BLOCKED) {
            zfs.blocked = parse_blocked(bytes);
        } else if (path == PARAMETERS) {
            for (const std::string_view line : lines_of(bytes))
                if (const std::size_t equals = line.find('='); equals != std::string_view::npos)
                    zfs.parameters.emplace(line.substr(0, equals), line.substr(equals + 1));
        } else if (path.starts_with(POOL_PREFIX)) {
            const std::size_t slash = path.find('/', POOL_PREFIX.size());
            const std::string pool = path.substr(POOL_PREFIX.size(), slash - POOL_PREFIX.size());
            if (path.ends_with("/txgs"))
                zfs.txgs[pool] = parse_txgs(bytes);
            else if (path.ends_with("/state"))
                zfs.pool_states[pool] = bytes.substr(0, bytes.find('\n'));
        }
    }
    return zfs;
}

} // namespace incident::capture
