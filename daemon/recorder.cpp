#include "daemon/recorder.h"

#include "capture/unique_fd.h"
#include "daemon/syscall_classes.h"
#include "daemon/tracefs.h"
#include "recorder.skel.h"
#include "txg_fentry.skel.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <fstream>
#include <set>

namespace incident::daemon {

namespace {

constexpr std::uint32_t default_pid_max = 4194304; // PID_MAX_LIMIT, include/linux/threads.h

// libbpf's own messages of the current operation: shown only where it fails.
std::string &libbpf_log() {
    static std::string log;
    return log;
}

int keep_libbpf_message(libbpf_print_level level, const char *format, va_list arguments) {
    if (level == LIBBPF_DEBUG)
        return 0;
    char line[4096];
    const int length = std::vsnprintf(line, sizeof(line), format, arguments);
    constexpr std::size_t cap = 64 * 1024;
    if (length > 0 && libbpf_log().size() < cap)
        libbpf_log().append(line, std::min<std::size_t>(length, sizeof(line) - 1));
    return length;
}

// The last lines of what libbpf said: the verifier's verdict stands at the end.
std::string libbpf_tail(std::size_t lines = 6) {
    const std::string &log = libbpf_log();
    std::size_t at = log.size();
    for (std::size_t seen = 0; at > 0 && seen <= lines; --at)
        if (log[at - 1] == '\n')
            ++seen;
    return log.substr(at ? at + 1 : 0);
}

std::uint32_t read_pid_max() {
    std::ifstream file("/proc/sys/kernel/pid_max");
    std::uint32_t value = 0;
    return file >> value && value > 0 ? value : default_pid_max;
}

// One mapping of a BPF_F_MMAPABLE array; elements are `stride` apart.
class Mapping {
public:
    Mapping() = default;
    static Result<Mapping> of(int fd, std::size_t value_size, std::size_t entries, bool writable) {
        Mapping mapping;
        const std::size_t page = ::sysconf(_SC_PAGESIZE);
        mapping.stride_ = (value_size + 7) / 8 * 8; // kernel/bpf/arraymap.c: round_up(value_size, 8)
        mapping.size_ = (mapping.stride_ * entries + page - 1) / page * page;
        mapping.at_ = ::mmap(nullptr, mapping.size_, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
        if (mapping.at_ == MAP_FAILED) {
            mapping.at_ = nullptr;
            return fail(Error::system("mapping a ring map"));
        }
        return mapping;
    }
    Mapping(Mapping &&other) noexcept
        : at_(std::exchange(other.at_, nullptr)), size_(other.size_), stride_(other.stride_) {}
    Mapping &operator=(Mapping &&other) noexcept {
        std::swap(at_, other.at_);
        std::swap(size_, other.size_);
        std::swap(stride_, other.stride_);
        return *this;
    }
    ~Mapping() {
        if (at_)
            ::munmap(at_, size_);
    }
    template <typename T> T *element(std::size_t index) const {
        return reinterpret_cast<T *>(static_cast<char *>(at_) + stride_ * index);
    }

private:
    void *at_ = nullptr;
    std::size_t size_ = 0, stride_ = 0;
};

const char *loss_name(int place) {
    switch (place) {
    case bpf::LOSS_SLOT:
        return "slots: no free ring for a thread ([record] threads)";
    case bpf::LOSS_TID_RANGE:
        return "slots: syscalls of threads whose id lies beyond the table";
    case bpf::LOSS_PROCESS_ENTRY:
        return "processes: no entry for a process ([record] processes)";
    case bpf::LOSS_DEATH_EVENT:
        return "ring buffer: death event";
    case bpf::LOSS_THREAD_EVENT:
        return "ring buffer: thread event";
    case bpf::LOSS_THREAD_STACK:
        return "ring buffer: stack of a thread";
    case bpf::LOSS_GONE_EVENT:
        return "ring buffer: gone event";
    case bpf::LOSS_WATCH_EVENT:
        return "ring buffer: watch question";
    case bpf::LOSS_PATH_CUT:
        return "paths: longer than PATH_MAX";
    case bpf::LOSS_PATH_FAULT:
        return "paths: not readable";
    case bpf::LOSS_FREE_SLOT:
        return "slots: free list refused a slot";
    case bpf::LOSS_VMA:
        return "mappings: the crash's own was not looked up";
    case bpf::LOSS_SCRATCH:
        return "scratch memory missing";
    case bpf::LOSS_TXG_SYNC:
        return "zfs: syncs in flight beyond the table";
    case bpf::LOSS_TXG_EVENT:
        return "ring buffer: long sync of a ZFS pool";
    case bpf::LOSS_TRIGGER:
        return "ring buffer: a rule's trigger";
    case bpf::LOSS_MOMENT:
        return "ring buffer: process of a trigger";
    case bpf::LOSS_IN_FLIGHT:
        return "reclaims and block requests in flight: no room";
    default:
        return "unknown place";
    }
}

bool of_capture(int place) {
    return place == bpf::LOSS_DEATH_EVENT || place == bpf::LOSS_THREAD_EVENT || place == bpf::LOSS_THREAD_STACK ||
           place == bpf::LOSS_GONE_EVENT || place == bpf::LOSS_VMA || place == bpf::LOSS_MOMENT;
}

const char *loss_reason(int place) {
    switch (place) {
    case bpf::LOSS_DEATH_EVENT:
    case bpf::LOSS_THREAD_EVENT:
    case bpf::LOSS_THREAD_STACK:
    case bpf::LOSS_GONE_EVENT:
    case bpf::LOSS_WATCH_EVENT:
    case bpf::LOSS_TRIGGER:
    case bpf::LOSS_TXG_EVENT:
    case bpf::LOSS_MOMENT:
        return "full: [record] ring_buffer is too small for what died at once";
    case bpf::LOSS_SLOT:
    case bpf::LOSS_PROCESS_ENTRY:
        return "more live threads or processes than configured";
    case bpf::LOSS_VMA:
        return "the address space was locked by another thread";
    case bpf::LOSS_PATH_FAULT:
        return "the memory was unreadable at entry and at return";
    default:
        return "";
    }
}

} // namespace

std::vector<capture::Loss> describe_losses(const LossCounts &now, const LossCounts &before, bool only_of_capture) {
    std::vector<capture::Loss> losses;
    for (int place = 0; place < bpf::LOSS_PLACES; ++place)
        if (now[place] > before[place] && (!only_of_capture || of_capture(place)))
            losses.push_back({loss_name(place), loss_reason(place), now[place] - before[place]});
    return losses;
}

MemoryPlan plan_memory(const rules::Config::Record &record, std::uint32_t pid_max) {
    MemoryPlan plan;
    plan.rings = static_cast<std::uint64_t>(record.threads) *
                 (sizeof(bpf::thread_slot) + sizeof(bpf::thread_side) +
                  static_cast<std::uint64_t>(record.syscalls) * sizeof(bpf::syscall_record));
    plan.tid_table = 4ull * (pid_max + 1ull);
    plan.processes = static_cast<std::uint64_t>(record.processes) * (sizeof(bpf::process_entry) + 64);
    plan.events = record.ring_buffer;
    plan.calls = static_cast<std::uint64_t>(record.threads) * sizeof(bpf::thread_calls);
    return plan;
}

// The programs that are always attached; all others only while a rule wants them.
constexpr std::string_view core_programs[] = {"record_enter",  "record_exit",  "process_fork",
                                              "process_exec",  "process_exit", "process_rename",
                                              "process_moved", "signal_sent",  "signal_taken"};

// By rule kind.  call_over serves two kinds; what a kernel lacks is left out at load.
struct Family {
    const char *kind;
    std::vector<const char *> programs;
};
const Family families_of_programs[] = {
    {"syscall", {"call_over"}},
    {"exit", {"call_begins"}},
    {"blocked", {"call_over", "thread_switched", "thread_woken"}},
    {"reclaim", {"direct_reclaim_begins", "direct_reclaim_ends", "cgroup_reclaim_begins", "cgroup_reclaim_ends"}},
    {"block_io", {"bio_queued", "request_issued", "request_done"}},
    {"oom", {"oom_chosen"}},
};

struct Recorder::Impl {
    using Link = std::unique_ptr<bpf_link, decltype([](bpf_link *link) { bpf_link__destroy(link); })>;

    recorder_bpf *skeleton = nullptr;
    ring_buffer *buffer = nullptr;
    Mapping threads, records, sides, calls, call_slots, txg_syncs;
    rules::Config::Record record;
    MemoryPlan plan;
    std::uint32_t cpus = 1;
    const std::function<void(std::span<const std::uint8_t>)> *on_event = nullptr;
    std::map<std::string, Link>
        links; // of optional programs, by name; of tracepoint rules by "tracepoint:RULE:CONDITION"
    std::map<std::string, std::string> lacking; // programs left out at load, and why
    std::map<std::string, std::string> hooked;  // the same → "CATEGORY:NAME COOKIE"
    std::map<std::string, FamilyState> families;

    ~Impl() {
        links.clear();
        ring_buffer__free(buffer);
        recorder_bpf__destroy(skeleton);
    }

    static int deliver(void *context, void *data, size_t size) {
        auto *self = static_cast<Impl *>(context);
        (*self->on_event)({static_cast<const std::uint8_t *>(data), size});
        return 0;
    }

    Status load(std::uint32_t stack_bytes);
    void leave_out_what_is_missing();
    std::string attach(const std::string &program);
    void apply_family(const Family &family, bool wanted, const std::set<std::string> &needed);
    void apply_tracepoints(const TriggerPlan &plan);
    Status size_maps(std::uint32_t pid_max);
    Status fill_free_slots();
};

Status Recorder::Impl::size_maps(std::uint32_t pid_max) {
    const auto &maps = skeleton->maps;
    const struct {
        bpf_map *map;
        std::uint64_t entries;
    } sizes[] = {
        {maps.slot_of, pid_max + 1ull},
        {maps.threads, record.threads},
        {maps.records, static_cast<std::uint64_t>(record.threads) * record.syscalls},
        {maps.sides, record.threads},
        {maps.calls, record.threads},
        {maps.call_slots, record.threads / 64 + 1ull},
        {maps.free_slots, record.threads},
        {maps.processes, record.processes},
        {maps.events, record.ring_buffer},
    };
    for (const auto &[map, entries] : sizes) {
        if (entries > UINT32_MAX)
            return fail(fmt::format("map {} would have {} entries", bpf_map__name(map), entries));
        if (const int error = bpf_map__set_max_entries(map, static_cast<std::uint32_t>(entries)))
            return fail(Error::system(fmt::format("sizing map {}", bpf_map__name(map)), -error));
    }
    return {};
}

// A tracepoint the kernel has not (CONFIG_MEMCG off, …) must not keep the rest from loading.
void Recorder::Impl::leave_out_what_is_missing() {
    const std::unique_ptr<btf, decltype([](btf *types) { btf__free(types); })> kernel(btf__load_vmlinux_btf());
    bpf_program *program = nullptr;
    bpf_object__for_each_program(program, skeleton->obj) {
        const std::string_view section = bpf_program__section_name(program);
        const std::string name = bpf_program__name(program);
        if (std::ranges::find(core_programs, name) != std::end(core_programs))
            continue;
        bpf_program__set_autoattach(program, false);
        constexpr std::string_view prefix = "tp_btf/";
        if (!kernel || !section.starts_with(prefix))
            continue;
        const std::string type = "btf_trace_" + std::string(section.substr(prefix.size()));
        if (btf__find_by_name_kind(kernel.get(), type.c_str(), BTF_KIND_TYPEDEF) < 0) {
            bpf_program__set_autoload(program, false);
            lacking[name] = fmt::format("this kernel has no tracepoint {}", section.substr(prefix.size()));
        }
    }
}

// "" or why not.
std::string Recorder::Impl::attach(const std::string &name) {
    if (links.contains(name))
        return {};
    if (const auto missing = lacking.find(name); missing != lacking.end())
        return missing->second;
    bpf_program *program = bpf_object__find_program_by_name(skeleton->obj, name.c_str());
    if (!program)
        return "no such program";
    libbpf_log().clear();
    bpf_link *link = bpf_program__attach(program);
    if (!link)
        return fmt::format("attaching {}: {}", bpf_program__section_name(program), std::strerror(errno));
    links[name].reset(link);
    return {};
}

void Recorder::Impl::apply_family(const Family &family, bool wanted, const std::set<std::string> &needed) {
    FamilyState &state = families[family.kind];
    state = {};
    if (!wanted) {
        for (const char *program : family.programs)
            if (!needed.contains(program))
                links.erase(program);
        return;
    }
    state.attached = true;
    for (const char *program : family.programs)
        if (const std::string why = attach(program); !why.empty()) {
            state.attached = false;
            state.reason = why;
        }
}

// Those whose rule, tracepoint and bit are what they were stay attached.
void Recorder::Impl::apply_tracepoints(const TriggerPlan &plan) {
    // The program's cookie: the bit, and above it the index into plan.tracepoints.
    auto cookie = [&](const TriggerPlan::Tracepoint &tracepoint) {
        return static_cast<std::uint64_t>(&tracepoint - plan.tracepoints.data()) << 8 | tracepoint.bit;
    };
    auto key_of = [](const TriggerPlan::Tracepoint &tracepoint) {
        return fmt::format("tracepoint:{}:{}", tracepoint.rule, tracepoint.condition);
    };
    std::map<std::string, std::string> wanted;
    for (const auto &tracepoint : plan.tracepoints)
        wanted[key_of(tracepoint)] = fmt::format("{}:{} {}", tracepoint.category, tracepoint.name, cookie(tracepoint));
    std::erase_if(hooked, [&](const auto &item) {
        const auto &[key, place] = item;
        const auto found = wanted.find(key);
        if (found != wanted.end() && found->second == place)
            return false;
        links.erase(key);
        return true;
    });
    std::erase_if(families, [&](const auto &item) {
        return item.first.starts_with("tracepoint:") && !wanted.contains(item.first);
    });
    for (const auto &tracepoint : plan.tracepoints) {
        const std::string key = key_of(tracepoint);
        FamilyState &state = families[key];
        state = {};
        if (!hooked.contains(key)) {
            bpf_tracepoint_opts options{};
            options.sz = sizeof(options);
            options.bpf_cookie = cookie(tracepoint);
            bpf_link *link = bpf_program__attach_tracepoint_opts(
                skeleton->progs.tracepoint_hit, tracepoint.category.c_str(), tracepoint.name.c_str(), &options);
            if (!link) {
                state.reason = errno == ENOENT ? fmt::format("this kernel has no tracepoint {}:{} now",
                                                             tracepoint.category, tracepoint.name)
                                               : fmt::format("attaching tracepoint {}:{}: {}", tracepoint.category,
                                                             tracepoint.name, std::strerror(errno));
                continue;
            }
            links[key].reset(link);
            hooked[key] = wanted[key];
        }
        state.attached = true;
    }
}

Status Recorder::Impl::fill_free_slots() {
    const int queue = bpf_map__fd(skeleton->maps.free_slots);
    for (std::uint32_t slot = 0; slot < record.threads; ++slot)
        if (bpf_map_update_elem(queue, nullptr, &slot, BPF_ANY))
            return fail(Error::system("filling the list of free rings"));
    skeleton->data->watch_epoch = 1;
    skeleton->bss->slots_free = record.threads;
    return {};
}

Status Recorder::Impl::load(std::uint32_t stack_bytes) {
    libbpf_log().clear();
    libbpf_set_print(keep_libbpf_message);
    libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
    const std::uint32_t pid_max = read_pid_max();
    plan = plan_memory(record, pid_max);
    if (plan.total() > record.memory_limit)
        return fail(fmt::format(
            "the configured rings need {} MiB at worst ({} threads with {} syscalls: {} MiB; thread "
            "table: {} MiB; {} processes: {} MiB; ring buffer: {} MiB), more than [record] "
            "memory_limit = {} MiB: lower threads or syscalls, or raise the limit",
            (plan.total() >> 20) + 1, record.threads, record.syscalls, plan.rings >> 20, plan.tid_table >> 20,
            record.processes, plan.processes >> 20, plan.events >> 20, record.memory_limit >> 20));
    skeleton = recorder_bpf__open();
    if (!skeleton)
        return fail(Error::system("opening the BPF programs"));
    if (auto sized = size_maps(pid_max); !sized)
        return sized;
    skeleton->rodata->slots = record.threads;
    skeleton->rodata->ring_length = record.syscalls;
    skeleton->rodata->stack_pages_max =
        std::min<std::uint32_t>((stack_bytes + STACK_PAGE - 1) / STACK_PAGE, STACK_PAGES_MAX);
    __u16 classes[2][SYSCALL_CLASSES];
    fill_syscall_classes(classes, record.all_paths);
    static_assert(sizeof(classes) == sizeof(skeleton->rodata->syscall_class));
    std::memcpy(const_cast<void *>(static_cast<const volatile void *>(skeleton->rodata->syscall_class)), classes,
                sizeof(classes));
    leave_out_what_is_missing();
    if (const int error = recorder_bpf__load(skeleton))
        return fail(Error{
            fmt::format("the kernel refused the BPF programs: {}\n{}", std::strerror(-error), libbpf_tail()), -error});
    if (auto filled = fill_free_slots(); !filled)
        return filled;

    const auto &maps = skeleton->maps;
    auto map = [](bpf_map *of, bool writable) {
        return Mapping::of(bpf_map__fd(of), bpf_map__value_size(of), bpf_map__max_entries(of), writable);
    };
    auto mapped_threads = map(maps.threads, true), mapped_records = map(maps.records, false),
         mapped_sides = map(maps.sides, false), mapped_calls = map(maps.calls, false),
         mapped_call_slots = map(maps.call_slots, false), mapped_syncs = map(maps.txg_syncs, false);
    for (auto *mapped :
         {&mapped_threads, &mapped_records, &mapped_sides, &mapped_calls, &mapped_call_slots, &mapped_syncs})
        if (!*mapped)
            return fail(mapped->error());
    threads = std::move(*mapped_threads);
    records = std::move(*mapped_records);
    sides = std::move(*mapped_sides);
    calls = std::move(*mapped_calls);
    call_slots = std::move(*mapped_call_slots);
    txg_syncs = std::move(*mapped_syncs);
    buffer = ring_buffer__new(bpf_map__fd(maps.events), deliver, this, nullptr);
    if (!buffer)
        return fail(Error::system("reading the ring buffer"));
    const int possible = libbpf_num_possible_cpus();
    if (possible < 1)
        return fail(Error::system("counting CPUs", -possible));
    cpus = static_cast<std::uint32_t>(possible);
    if (const int error = recorder_bpf__attach(skeleton))
        return fail(
            Error{fmt::format("attaching the BPF programs: {}\n{}", std::strerror(-error), libbpf_tail()), -error});
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    skeleton->bss->recording_since_boot_ns = now.tv_sec * 1'000'000'000ull + now.tv_nsec;
    return {};
}

Recorder::Recorder() : impl_(std::make_unique<Impl>()) {}
Recorder::Recorder(Recorder &&) noexcept = default;
Recorder &Recorder::operator=(Recorder &&) noexcept = default;
Recorder::~Recorder() = default;

Result<Recorder> Recorder::start(const rules::Config::Record &record, std::uint32_t stack_bytes) {
    Recorder recorder;
    recorder.impl_->record = record;
    if (auto loaded = recorder.impl_->load(stack_bytes); !loaded)
        return fail(loaded.error());
    return recorder;
}

void Recorder::apply(const rules::Engine &engine, const TriggerPlan &plan) {
    auto *bss = impl_->skeleton->bss;
    const int conditions = bpf_map__fd(impl_->skeleton->maps.conditions);
    for (__u32 bit = 0; bit < RULE_BITS; ++bit) {
        bpf::condition_settings settings = plan.settings[bit];
        if (plan.tracepoint >> bit & 1)
            settings.record_length = 0; // the longest of those with this bit, below
        for (const auto &tracepoint : plan.tracepoints)
            if (tracepoint.bit == bit)
                settings.record_length = std::max<__u32>(
                    settings.record_length, tracepoint_record_length(tracepoint.category, tracepoint.name));
        bpf_map_update_elem(conditions, &bit, &settings, BPF_ANY); // an array's element: cannot fail
    }
    bss->watch_all = engine.watches_everything();
    bss->ask_rules = plan.ask_rules;
    bss->rules_of_all = plan.rules_of_all;
    bss->dump_rules_of_all = plan.dump_rules_of_all;
    bss->look_at_comm = engine.looks_at_comm();
    bss->look_at_cgroup = engine.looks_at_cgroup();
    // bit n - 1 is signal n; a rule for handled signals also fires on fatal ones
    bss->fatal_signals = ((engine.signals(true) | engine.signals(false)) >> 1).to_ullong();
    bss->handled_signals = (engine.signals(false) >> 1).to_ullong();
    bss->oom_wanted = plan.oom;
    bss->syscall_rules = plan.syscall;
    bss->exit_rules = plan.exit;
    bss->latency_rules = plan.latency;
    bss->blocked_rules = plan.blocked;
    bss->block_io_rules = plan.block_io;
    bss->reclaim_rules = plan.reclaim;
    bss->blocked_min_ns = plan.blocked_min_ns;
    bss->blocked_idle = plan.blocked_idle;
    static_assert(sizeof(bss->syscall_rules_of) == sizeof(plan.syscalls_of));
    std::memcpy(bss->syscall_rules_of, plan.syscalls_of, sizeof(plan.syscalls_of));

    const std::map<std::string_view, bool> wanted = {{"syscall", plan.syscall != 0},   {"exit", plan.exit != 0},
                                                     {"blocked", plan.blocked != 0},   {"reclaim", plan.reclaim != 0},
                                                     {"block_io", plan.block_io != 0}, {"oom", plan.oom}};
    std::set<std::string> needed;
    for (const Family &family : families_of_programs)
        if (wanted.at(family.kind))
            needed.insert(family.programs.begin(), family.programs.end());
    for (const Family &family : families_of_programs)
        impl_->apply_family(family, wanted.at(family.kind), needed);
    impl_->apply_tracepoints(plan);

    const int verdicts = bpf_map__fd(impl_->skeleton->maps.verdicts);
    bpf::watch_key key{};
    while (bpf_map_get_next_key(verdicts, nullptr, &key) == 0)
        if (bpf_map_delete_elem(verdicts, &key) != 0)
            break;
    std::atomic_ref<__u32>(impl_->skeleton->data->watch_epoch).fetch_add(1);
}

void Recorder::give_verdict(const bpf::watch_key &key, bool watch, const ProcessRules &rules) {
    const bpf::verdict verdict{static_cast<__u32>(watch ? bpf::VERDICT_WATCH : bpf::VERDICT_IGNORE), 0, rules.rules,
                               rules.dump_rules};
    // Full cannot be: an LRU map makes room.
    bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.verdicts), &key, &verdict, BPF_ANY);
}

const std::map<std::string, FamilyState> &Recorder::families() const {
    return impl_->families;
}

void Recorder::allow_captures(std::uint32_t count) {
    std::atomic_ref<__s32>(impl_->skeleton->bss->capture_tokens).store(static_cast<__s32>(count));
}

void Recorder::allow_dumps(unsigned bit, std::uint32_t count) {
    const int map = bpf_map__fd(impl_->skeleton->maps.conditions);
    bpf::condition_settings settings{};
    const __u32 key = bit;
    if (bit >= RULE_BITS || bpf_map_lookup_elem(map, &key, &settings))
        return;
    settings.dump_tokens = static_cast<__s32>(count);
    bpf_map_update_elem(map, &key, &settings, BPF_ANY);
}

Status Recorder::snapshot(std::uint32_t tgid) {
    bpf_iter_link_info info{};
    info.task.pid = tgid;
    bpf_iter_attach_opts options{};
    options.sz = sizeof(options);
    options.link_info = &info;
    options.link_info_len = sizeof(info);
    const Impl::Link link(bpf_program__attach_iter(impl_->skeleton->progs.snapshot_thread, &options));
    if (!link)
        return fail(Error::system("walking the process's threads"));
    const UniqueFd walk(bpf_iter_create(bpf_link__fd(link.get())));
    if (!walk)
        return fail(Error::system("walking the process's threads"));
    char nothing[64]; // the program sends events and prints nothing
    ssize_t got;
    do
        got = ::read(walk.get(), nothing, sizeof(nothing));
    while (got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN)));
    if (got < 0)
        return fail(Error::system("walking the process's threads"));
    return {};
}

int Recorder::fd() const {
    return ring_buffer__epoll_fd(impl_->buffer);
}

Status Recorder::consume(const std::function<void(std::span<const std::uint8_t>)> &on_event) {
    impl_->on_event = &on_event;
    const int consumed = ring_buffer__consume(impl_->buffer);
    impl_->on_event = nullptr;
    if (consumed < 0)
        return fail(Error::system("reading the ring buffer", -consumed));
    return {};
}

bpf::thread_slot Recorder::header(std::uint32_t slot) const {
    // volatile-free copy of memory another context may write: each field is read once,
    // and callers compare generation and counters again after using it.
    bpf::thread_slot copy;
    std::memcpy(&copy, impl_->threads.element<bpf::thread_slot>(slot), sizeof(copy));
    return copy;
}

bpf::syscall_record Recorder::last_call(std::uint32_t slot) const {
    const std::uint64_t length = impl_->record.syscalls, made = header(slot).syscalls;
    return *impl_->records.element<bpf::syscall_record>(slot * length + ((made - 1) & (length - 1)));
}

std::uint32_t Recorder::slots() const {
    return impl_->record.threads;
}

std::optional<capture::ThreadRings> Recorder::read(std::uint32_t slot, std::uint64_t generation) const {
    if (slot >= impl_->record.threads)
        return std::nullopt;
    capture::ThreadRings rings;
    rings.slot = header(slot);
    if (rings.slot.generation != generation)
        return std::nullopt;
    const std::uint64_t length = impl_->record.syscalls;
    const std::uint64_t kept = std::min<std::uint64_t>(rings.slot.syscalls, length);
    rings.syscalls.reserve(kept);
    for (std::uint64_t index = rings.slot.syscalls - kept; index < rings.slot.syscalls; ++index)
        rings.syscalls.push_back(*impl_->records.element<bpf::syscall_record>(slot * length + (index & (length - 1))));

    bpf::thread_side side;
    std::memcpy(&side, impl_->sides.element<bpf::thread_side>(slot), sizeof(side));
    const std::uint64_t opens = std::min<std::uint64_t>(rings.slot.opens, OPEN_RECORDS);
    for (std::uint64_t index = rings.slot.opens - opens; index < rings.slot.opens; ++index) {
        capture::OpenEntry entry{side.opens[index & (OPEN_RECORDS - 1)], {}, true};
        const auto &record = entry.record;
        const bool same_lap = record.lap == rings.slot.path_lap;
        const bool last_lap = record.lap + 1 == rings.slot.path_lap && rings.slot.path_offset <= record.offset;
        entry.whole = (same_lap || last_lap) && record.offset < PATH_LAP;
        if (entry.whole && (record.status == bpf::PATH_KEPT || record.status == bpf::PATH_CUT))
            entry.path.assign(side.heap + record.offset, std::min<std::size_t>(record.length, PATH_MAX_LEN));
        rings.opens.push_back(std::move(entry));
    }
    const std::uint64_t grown = std::min<std::uint64_t>(rings.slot.memory_events, MEMORY_RECORDS);
    for (std::uint64_t index = rings.slot.memory_events - grown; index < rings.slot.memory_events; ++index)
        rings.memory.push_back(side.memory[index & (MEMORY_RECORDS - 1)]);

    // A living thread went on writing meanwhile: drop what it may have overwritten.
    const bpf::thread_slot after = header(slot);
    if (after.generation != generation)
        return std::nullopt;
    const std::uint64_t written = after.syscalls - rings.slot.syscalls;
    rings.syscalls.erase(rings.syscalls.begin(),
                         rings.syscalls.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(
                                                      kept == length ? written : 0, rings.syscalls.size())));
    return rings;
}

std::vector<std::uint32_t> Recorder::slots_of(std::uint32_t tgid, std::uint64_t process_start_boot_ns) const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t slot = 0; slot < impl_->record.threads; ++slot) {
        const auto *thread = impl_->threads.element<bpf::thread_slot>(slot);
        if (thread->tgid == tgid && thread->state != bpf::SLOT_FREE && thread->state != bpf::SLOT_RELEASED &&
            thread->process_start_boot_ns == process_start_boot_ns)
            found.push_back(slot);
    }
    return found;
}

void Recorder::release(std::uint32_t slot) {
    if (slot >= impl_->record.threads)
        return;
    auto *thread = impl_->threads.element<bpf::thread_slot>(slot);
    std::atomic_ref<__u32> state(thread->state);
    __u32 expected = bpf::SLOT_PINNED;
    if (state.compare_exchange_strong(expected, bpf::SLOT_RELEASED))
        return; // its thread's exit gives it back
    if (expected != bpf::SLOT_EXITED)
        return;
    state.store(bpf::SLOT_FREE);
    if (bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.free_slots), nullptr, &slot, BPF_ANY) == 0)
        std::atomic_ref<__u32>(impl_->skeleton->bss->slots_free).fetch_add(1);
}

std::optional<bpf::process_entry> Recorder::process(std::uint32_t tgid) const {
    bpf::process_entry entry{};
    if (bpf_map_lookup_elem(bpf_map__fd(impl_->skeleton->maps.processes), &tgid, &entry))
        return std::nullopt;
    return entry;
}

std::vector<std::uint32_t> Recorder::processes() const {
    const int map = bpf_map__fd(impl_->skeleton->maps.processes);
    std::vector<std::uint32_t> tgids;
    std::uint32_t key = 0, next = 0;
    // A deleted key restarts the walk (kernel/bpf/hashtab.c): bounded all the same.
    for (std::uint32_t *from = nullptr; bpf_map_get_next_key(map, from, &next) == 0; from = &key) {
        key = next;
        tgids.push_back(next);
        if (tgids.size() > 2ull * impl_->record.processes)
            break;
    }
    std::ranges::sort(tgids);
    tgids.erase(std::ranges::unique(tgids).begin(), tgids.end());
    return tgids;
}

void Recorder::forget_process(std::uint32_t tgid) {
    bpf_map_delete_elem(bpf_map__fd(impl_->skeleton->maps.processes), &tgid);
}

Result<UniqueFd> Recorder::count_run_times() {
    UniqueFd on(bpf_enable_stats(BPF_STATS_RUN_TIME));
    if (!on)
        return fail(Error::system("counting the programs' run times"));
    return on;
}

std::map<std::string, Recorder::RunTime> Recorder::run_times() const {
    std::map<std::string, RunTime> all;
    bpf_program *program = nullptr;
    bpf_object__for_each_program(program, impl_->skeleton->obj) {
        bpf_prog_info info{};
        __u32 size = sizeof(info);
        if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) == 0)
            all[bpf_program__name(program)] = {info.run_cnt, info.run_time_ns};
    }
    return all;
}

std::vector<std::string> Recorder::programs_of(std::string_view kind) {
    if (kind == "signal")
        return {"signal_sent", "signal_taken"};
    if (kind == "tracepoint")
        return {"tracepoint_hit"};
    if (kind == "latency")
        return {"enter_call", "leave_call", "enter_pair", "leave_pair"};
    if (kind == "txg_sync")
        return {"txg_enter", "txg_leave"};
    for (const Family &family : families_of_programs)
        if (kind == family.kind)
            return {family.programs.begin(), family.programs.end()};
    return {};
}

Recorder::Uprobe::~Uprobe() {
    bpf_link__destroy(static_cast<bpf_link *>(link_));
}

Result<Recorder::Uprobe> Recorder::attach(UprobeRole role, const UprobePoint &point, std::uint32_t probe) {
    const auto &programs = impl_->skeleton->progs;
    bpf_program *program = role == UprobeRole::EnterCall   ? programs.enter_call
                           : role == UprobeRole::EnterPair ? programs.enter_pair
                           : role == UprobeRole::LeavePair ? programs.leave_pair
                                                           : programs.leave_call;
    bpf_uprobe_opts options{};
    options.sz = sizeof(options);
    options.bpf_cookie = role == UprobeRole::LeaveAtRet ? probe | LEAVE_AT_RET : probe;
    options.ref_ctr_offset = point.semaphore;
    options.retprobe = role == UprobeRole::LeaveCall;
    libbpf_log().clear();
    bpf_link *link = bpf_program__attach_uprobe_opts(program, point.pid ? static_cast<pid_t>(*point.pid) : -1,
                                                     point.path.c_str(), point.offset, &options);
    if (!link)
        return fail(Error::system(fmt::format("attaching a uprobe at file offset {:#x}", point.offset)));
    return Uprobe(link);
}

void Recorder::set_probe(std::uint32_t probe, const bpf::probe_setting &setting) {
    bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.probe_settings), &probe, &setting, BPF_ANY);
}

bpf::probe_count Recorder::probe_count(std::uint32_t probe) const {
    bpf::probe_count sum{};
    std::vector<bpf::probe_count> per_cpu(impl_->cpus);
    if (bpf_map_lookup_elem(bpf_map__fd(impl_->skeleton->maps.probe_counts), &probe, per_cpu.data()) != 0)
        return sum;
    for (const auto &count : per_cpu) {
        sum.calls += count.calls;
        sum.missed += count.missed;
        sum.overflow += count.overflow;
        sum.unmatched += count.unmatched;
        sum.unrecorded += count.unrecorded;
        sum.unsent += count.unsent;
    }
    return sum;
}

std::vector<std::uint32_t> Recorder::slots_with_calls() const {
    std::vector<std::uint32_t> slots;
    for (std::uint32_t word = 0; word <= impl_->record.threads / 64; ++word) {
        std::uint64_t bits = std::atomic_ref<__u64>(*impl_->call_slots.element<__u64>(word)).load();
        for (; bits; bits &= bits - 1)
            if (const std::uint32_t slot = word * 64 + std::countr_zero(bits); slot < impl_->record.threads)
                slots.push_back(slot);
    }
    return slots;
}

std::expected<bpf::thread_calls, Recorder::CallsUnread> Recorder::calls(std::uint32_t slot) const {
    if (slot >= impl_->record.threads)
        return std::unexpected(CallsUnread::None);
    auto *theirs = impl_->calls.element<bpf::thread_calls>(slot);
    const std::atomic_ref<__u64> sequence(theirs->sequence);
    for (int attempt = 0; attempt < 16; ++attempt) {
        const std::uint64_t before = sequence.load(std::memory_order_acquire);
        bpf::thread_calls copy;
        std::memcpy(&copy, theirs, sizeof(copy));
        std::atomic_thread_fence(std::memory_order_acquire);
        if ((before & 1) || sequence.load(std::memory_order_relaxed) != before)
            continue;
        if (copy.generation != impl_->threads.element<bpf::thread_slot>(slot)->generation)
            return std::unexpected(CallsUnread::None);
        copy.depth = std::min<__u32>(copy.depth, CALL_DEPTH);
        return copy;
    }
    return std::unexpected(CallsUnread::Busy);
}

Result<Attached> Recorder::attach_kprobe(const char *program, const char *function, bool on_return) {
    bpf_program *found = bpf_object__find_program_by_name(impl_->skeleton->obj, program);
    if (!found)
        return fail(fmt::format("no BPF program {}", program));
    libbpf_log().clear();
    bpf_link *link = bpf_program__attach_kprobe(found, on_return, function);
    if (!link)
        return fail(Error::system(fmt::format("{} on {}", on_return ? "kretprobe" : "kprobe", function)));
    return Attached(link, {[](void *what) { bpf_link__destroy(static_cast<bpf_link *>(what)); }});
}

Result<Attached> Recorder::attach_txg_fentry() {
    libbpf_log().clear();
    txg_fentry_bpf *opened = txg_fentry_bpf__open();
    if (!opened)
        return fail(Error::system("opening the fentry programs"));
    Attached owner(opened, {[](void *what) { txg_fentry_bpf__destroy(static_cast<txg_fentry_bpf *>(what)); }});
    // Of the maps that the shared headers declare only these are used, and they are the recorder's.
    const auto &mine = impl_->skeleton->maps;
    const std::pair<bpf_map *, bpf_map *> shared[] = {{opened->maps.events, mine.events},
                                                      {opened->maps.losses, mine.losses},
                                                      {opened->maps.txg_syncs, mine.txg_syncs},
                                                      {opened->maps.txg_threshold, mine.txg_threshold}};
    bpf_map *map = nullptr;
    bpf_object__for_each_map(map, opened->obj) {
        if (!bpf_map__is_internal(map))
            bpf_map__set_autocreate(map, false);
    }
    for (const auto &[to, from] : shared) {
        bpf_map__set_autocreate(to, true);
        if (const int error = bpf_map__reuse_fd(to, bpf_map__fd(from)))
            return fail(Error::system(fmt::format("sharing map {}", bpf_map__name(from)), -error));
    }
    if (const int error = txg_fentry_bpf__load(opened))
        return fail(
            Error{fmt::format("loading fentry/spa_sync: {}\n{}", std::strerror(-error), libbpf_tail()), -error});
    if (const int error = txg_fentry_bpf__attach(opened))
        return fail(Error::system("attaching fentry/spa_sync", -error));
    return owner;
}

std::span<const bpf::txg_sync> Recorder::txg_syncs() const {
    static_assert(sizeof(bpf::txg_sync) % 8 == 0, "elements of the map are as far apart as of an array");
    return {impl_->txg_syncs.element<bpf::txg_sync>(0), TXG_SYNCS};
}

Status Recorder::set_txg_threshold(std::uint64_t ns) {
    const __u32 zero = 0;
    if (bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.txg_threshold), &zero, &ns, BPF_ANY))
        return fail(Error::system("setting the threshold of ZFS syncs"));
    return {};
}

LossCounts Recorder::loss_counts() const {
    LossCounts counts{};
    std::vector<__u64> per_cpu(impl_->cpus);
    for (__u32 place = 0; place < bpf::LOSS_PLACES; ++place)
        if (bpf_map_lookup_elem(bpf_map__fd(impl_->skeleton->maps.losses), &place, per_cpu.data()) == 0)
            for (const auto count : per_cpu)
                counts[place] += count;
    return counts;
}

std::vector<capture::ProbeState> Recorder::probes() const {
    std::vector<capture::ProbeState> all;
    bpf_program *program = nullptr;
    bpf_object__for_each_program(program, impl_->skeleton->obj) {
        const std::string name = bpf_program__name(program);
        const bool core = std::ranges::find(core_programs, name) != std::end(core_programs);
        const bool attached = core || impl_->links.contains(name);
        if (!attached && !impl_->lacking.contains(name))
            continue; // no rule wants it
        capture::ProbeState probe{bpf_program__section_name(program), attached ? "active" : "unavailable",
                                  attached ? "" : impl_->lacking.at(name), 0};
        bpf_prog_info info{};
        __u32 size = sizeof(info);
        if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) == 0)
            probe.missed = info.recursion_misses, probe.runs = info.run_cnt, probe.run_ns = info.run_time_ns;
        all.push_back(std::move(probe));
    }
    return all;
}

RecorderUse Recorder::use() const {
    const std::uint32_t free = std::min(impl_->skeleton->bss->slots_free, impl_->record.threads);
    return {impl_->record.threads - free, impl_->record.threads, impl_->record.processes, impl_->record.syscalls,
            impl_->plan.total()};
}

} // namespace incident::daemon
