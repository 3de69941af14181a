// Files of /proc and /sys: their shape is the kernel's, but comm, paths and cgroups in them are a process's.
#include "capture/collect/collect.h"
#include "capture/collect/collect_oom.h"
#include "capture/collect/collect_sockets.h"
#include "capture/container/container.h"
#include "capture/container/host_paths.h"
#include "capture/decode/socket_address.h"
#include "capture/os/kernel_log.h"
#include "capture/os/kernel_release.h"
#include "capture/os/maps.h"
#include "capture/os/proc_file.h"
#include "capture/os/proc_stat.h"
#include "capture/os/process_dir.h"
#include "capture/os/zfs_kstat.h"
#include "tests/fuzz/target.h"

namespace incident::fuzz {
namespace {

using namespace capture;

void read_maps(std::string_view text) {
    const Maps maps = Maps::parse(text);
    UserAddress before;
    for (const Mapping &mapping : maps.all()) {
        must(mapping.start < mapping.end && before <= mapping.start, "mappings are sorted, and none is empty");
        before = mapping.start;
        const Mapping *found = maps.find(mapping.start);
        must(!found || (found->start <= mapping.start && mapping.start < found->end),
             "a mapping found has the address");
        (void)mapping.offset_of(mapping.end);
    }
    (void)maps.find(UserAddress(0));
    (void)maps.find(UserAddress(~0ull));
}

void read_kernel_log_text(std::string_view text) {
    constexpr std::uint64_t cap = 512;
    KernelLog log(std::chrono::microseconds(1000), cap);
    while (!text.empty()) {
        const std::string_view record = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(record.size() + 1, text.size()));
        log.add(record);
    }
    must(log.text().size() <= cap, "the log is not longer than its cap");
}

void read_cgroup(std::string_view text) {
    const std::string group = cgroup_of_text(text);
    (void)unit_of_cgroup(group);
    (void)container_of_cgroup(group);
    (void)unit_of_cgroup(std::string(text));
    (void)container_of_cgroup(std::string(text));
    if (const auto container = container_at(std::string(text)))
        must(!container->id.empty(), "a container has an id");
    const HostPaths host(parse_mountinfo(text), parse_mountinfo(text), std::string(text.substr(0, 8)));
    for (const std::string &path : host.of("/a/b"))
        must(path.starts_with('/'), "an answer is a path");
    std::vector<std::pair<std::string, std::string>> files;
    static const OsRoots os{.cgroup = FUZZ_DATA "/../data/proc-trees/unified"};
    (void)collect_cgroup_files(os, text, 4096, files);
}

} // namespace

// The first byte says which file it is.
FUZZ_TARGET(proc) {
    if (input.empty())
        return;
    const std::string_view text = input.substr(1);
    switch (input.front()) {
    case 'm':
        return read_maps(text);
    case 's':
        if (const auto stat = parse_proc_stat(text))
            must(stat->comm.size() < text.size(), "comm is a part of the text");
        return;
    case 'k':
        return read_kernel_log_text(text);
    case 't':
        for (const TxgRow &row : parse_txgs(text))
            (void)row.sync_start();
        return;
    case 'S':
        (void)in_zfs(parse_kernel_stack(text));
        return;
    case 'c':
        return read_cgroup(text);
    case 'o': {
        OomTrigger oom;
        read_oom_log(text, 12, oom);
        return;
    }
    case 'r':
        (void)kernel_version(text);
        return;
    case 'n':
        (void)sockets_in(text, "TCP", {0, 1, 2, 501, 502});
        (void)socket_inode(text);
        return;
    case 'a':
        must(!socket_address_text(text).empty() && !peer_text(text).empty(), "an address has a text");
        return;
    default: {
        std::string_view value;
        (void)line_value(text, "Uid:", value);
        (void)json_string(text);
    }
    }
}

} // namespace incident::fuzz
