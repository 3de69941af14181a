// Loads the programs, and reads the events they send.
#include "daemon/record/recorder_impl.h"

#include "daemon/plan/syscall_classes.h"

#include <fmt/format.h>

#include <sys/random.h>

#include <cstring>
#include <fstream>

namespace incident::daemon {

namespace {

constexpr std::uint32_t default_pid_max = 4194304; // PID_MAX_LIMIT, include/linux/threads.h

std::uint32_t read_pid_max() {
    std::ifstream file("/proc/sys/kernel/pid_max");
    std::uint32_t value = 0;
    return file >> value && value > 0 ? value : default_pid_max;
}

// Who dies has an entry, however many others live.
std::uint64_t process_entries(const rules::Config::Record &record) {
    return std::uint64_t(record.processes) + DYING_RESERVE;
}

// Kept back for threads that have fewer than they get in any case: but not more than an eighth of the pool.
std::uint32_t segments_kept_back(std::uint32_t threads, std::uint32_t pool) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{OWN_SEGMENTS} * threads, pool / 8));
}

// Of the table of distinct facts.  Each of its regions has at least one.
std::uint64_t tally_set_count(const rules::Config::Record &record) {
    constexpr std::uint64_t eighths = 8;
    return std::max(eighths, record.facts / sizeof(bpf::tally_set));
}

} // namespace

std::uint64_t segment_count(const rules::Config::Record &record) {
    return std::max<std::uint64_t>(record.calls / sizeof(bpf::call_segment),
                                   std::uint64_t{OWN_SEGMENTS} * record.threads);
}

MemoryPlan plan_memory(const rules::Config::Record &record, std::uint32_t pid_max) {
    MemoryPlan plan;
    plan.calls_kept = segment_count(record) * sizeof(bpf::call_segment);
    plan.facts = tally_set_count(record) * sizeof(bpf::tally_set);
    plan.rings = static_cast<std::uint64_t>(record.threads) * (sizeof(bpf::thread_slot) + sizeof(bpf::thread_side));
    plan.thread_tables = 4ull * (pid_max + 1ull) + 8ull * STACK_PLACES;
    plan.processes = process_entries(record) * (sizeof(bpf::process_entry) + 64) +
                     KEPT_DEATHS * std::uint64_t(STACK_PAGE) + SHARES * sizeof(bpf::user_share);
    plan.events = record.ring_buffer;
    plan.calls = static_cast<std::uint64_t>(record.threads) * sizeof(bpf::thread_calls) +
                 KEYED_CALLS * (sizeof(bpf::keyed_call_key) + sizeof(bpf::keyed_call) + 64);
    return plan;
}

Status Recorder::Impl::size_maps(std::uint32_t pid_max) {
    const auto &maps = skeleton->maps;
    const struct {
        bpf_map *map;
        std::uint64_t entries;
    } sizes[] = {
        {maps.slot_of, pid_max + 1ull},         {maps.threads, record.threads},
        {maps.segments, segment_count(record)}, {maps.free_segments, segment_count(record)},
        {maps.sides, record.threads},           {maps.tallies, tally_set_count(record)},
        {maps.calls, record.threads},           {maps.call_slots, record.threads / 64 + 1ull},
        {maps.free_slots, record.threads},      {maps.processes, process_entries(record)},
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

Status Recorder::Impl::fill_free_lists() {
    const auto fill = [](const bpf_map *queue, std::uint32_t count) {
        for (std::uint32_t index = 0; index < count; ++index)
            if (bpf_map_update_elem(bpf_map__fd(queue), nullptr, &index, BPF_ANY))
                return false;
        return true;
    };
    if (!fill(skeleton->maps.free_slots, record.threads) || !fill(skeleton->maps.free_segments, segments_in_pool))
        return fail(Error::system("filling the lists of what is free"));
    skeleton->data->watch_epoch = 1;
    skeleton->bss->slots_free = record.threads;
    skeleton->bss->segments_free = static_cast<std::int32_t>(segments_in_pool);
    return {};
}

Status Recorder::Impl::load(std::uint32_t stack_bytes) {
    libbpf_log().clear();
    keep_libbpf_messages();
    libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
    const std::uint32_t pid_max = read_pid_max();
    plan = plan_memory(record, pid_max);
    if (plan.total() > record.memory_limit)
        return fail(
            fmt::format("the configured rings need {} MiB at worst (calls: {} MiB; facts: {} MiB; {} threads: {} MiB; "
                        "thread tables: {} MiB; {} processes: {} MiB; ring buffer: {} MiB), more than [record] "
                        "memory_limit = {} MiB: lower calls or threads, or raise the limit",
                        (plan.total() >> 20) + 1, plan.calls_kept >> 20, plan.facts >> 20, record.threads,
                        plan.rings >> 20, plan.thread_tables >> 20, record.processes, plan.processes >> 20,
                        plan.events >> 20, record.memory_limit >> 20));
    skeleton = recorder_bpf__open();
    if (!skeleton)
        return fail(Error::system("opening the BPF programs"));
    segments_in_pool = static_cast<std::uint32_t>(segment_count(record));
    tally_sets = static_cast<std::uint32_t>(tally_set_count(record));
    if (auto sized = size_maps(pid_max); !sized)
        return sized;
    skeleton->rodata->slots = record.threads;
    skeleton->rodata->tally_sets = tally_sets;
    __u64 key = 0;
    if (::getrandom(&key, sizeof(key), 0) != sizeof(key))
        return fail(Error::system("a random number"));
    skeleton->rodata->tally_key = key;
    skeleton->rodata->processes_max = record.processes;
    skeleton->rodata->segments_kept_back = segments_kept_back(record.threads, segments_in_pool);
    skeleton->rodata->stack_pages_max =
        std::min<std::uint32_t>((stack_bytes + STACK_PAGE - 1) / STACK_PAGE, STACK_PAGES_MAX);
    __u32 classes[2][SYSCALL_CLASSES];
    fill_syscall_classes(classes, record.all_paths);
    static_assert(sizeof(classes) == sizeof(skeleton->rodata->syscall_class));
    std::memcpy(const_cast<void *>(static_cast<const volatile void *>(skeleton->rodata->syscall_class)), classes,
                sizeof(classes));
    leave_out_what_is_missing();
    if (const int error = recorder_bpf__load(skeleton))
        return fail(libbpf_error("the kernel refused the BPF programs", -error));
    if (auto filled = fill_free_lists(); !filled)
        return filled;
    if (auto made = make_grace(); !made)
        return made;
    auto started = Attacher::start(*skeleton);
    if (!started)
        return fail(started.error());
    attacher = std::move(*started);

    const auto &maps = skeleton->maps;
    auto map = [](bpf_map *of, bool writable) {
        return Mapping::of(bpf_map__fd(of), bpf_map__value_size(of), bpf_map__max_entries(of), writable);
    };
    auto mapped_threads = map(maps.threads, true), mapped_segments = map(maps.segments, false),
         mapped_sides = map(maps.sides, false), mapped_calls = map(maps.calls, false),
         mapped_call_slots = map(maps.call_slots, false), mapped_syncs = map(maps.txg_syncs, false),
         mapped_tallies = map(maps.tallies, false);
    for (auto *mapped : {&mapped_threads, &mapped_segments, &mapped_sides, &mapped_calls, &mapped_call_slots,
                         &mapped_syncs, &mapped_tallies})
        if (!*mapped)
            return fail(mapped->error());
    threads = std::move(*mapped_threads);
    segments = std::move(*mapped_segments);
    sides = std::move(*mapped_sides);
    calls = std::move(*mapped_calls);
    call_slots = std::move(*mapped_call_slots);
    txg_syncs = std::move(*mapped_syncs);
    tallies = std::move(*mapped_tallies);
    buffer = ring_buffer__new(bpf_map__fd(maps.events), deliver, this, nullptr);
    if (!buffer)
        return fail(Error::system("reading the ring buffer"));
    const int possible = libbpf_num_possible_cpus();
    if (possible < 1)
        return fail(Error::system("counting CPUs", -possible));
    cpus = static_cast<std::uint32_t>(possible);
    if (const int error = recorder_bpf__attach(skeleton))
        return fail(libbpf_error("attaching the BPF programs", -error));
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

Status Recorder::snapshot(std::uint32_t tgid) {
    bpf_iter_link_info info{};
    info.task.pid = tgid;
    bpf_iter_attach_opts options{};
    options.sz = sizeof(options);
    options.link_info = &info;
    options.link_info_len = sizeof(info);
    const std::unique_ptr<bpf_link, decltype([](bpf_link *it) { bpf_link__destroy(it); })> link(
        bpf_program__attach_iter(impl_->skeleton->progs.snapshot_thread, &options));
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

Attacher &Recorder::attacher() {
    return *impl_->attacher;
}

int Recorder::fd() const {
    return ring_buffer__epoll_fd(impl_->buffer);
}

Status Recorder::consume(const OnEvent &on_event) {
    impl_->on_event = &on_event;
    const int consumed = ring_buffer__consume(impl_->buffer);
    impl_->on_event = nullptr;
    if (consumed < 0 && consumed != -ECANCELED)
        return fail(Error::system("reading the ring buffer", -consumed));
    return {};
}

capture::MonotonicTime Recorder::thawed_at() const {
    return {std::atomic_ref<__u64>(impl_->skeleton->bss->thawed_ns).load()};
}

Result<UniqueFd> Recorder::count_run_times() {
    auto on = impl_->attacher->ask({.what = AttachRequest::What::CountRunTimes});
    if (!on)
        return fail(on.error());
    impl_->skeleton->bss->own_counted = 1;
    return std::move(on->front());
}

void Recorder::end_counting() {
    impl_->skeleton->bss->own_counted = 0;
}

std::vector<OwnCost> Recorder::own_costs() const {
    static constexpr const char *programs[] = {"call_over",           "thread_switched",     "thread_woken",
                                               "bio_queued",          "request_issued",      "request_done",
                                               "direct_reclaim_ends", "cgroup_reclaim_ends", "tracepoint_hit"};
    static_assert(std::size(programs) == bpf::OWN_PROGRAMS);
    const int map = bpf_map__fd(impl_->skeleton->maps.own_costs);
    std::vector<bpf::own_cost> by_cpu(static_cast<std::size_t>(libbpf_num_possible_cpus()));
    std::vector<OwnCost> all;
    bpf::own_key key{}, next{};
    for (const bpf::own_key *before = nullptr; bpf_map_get_next_key(map, before, &next) == 0; before = &key) {
        key = next;
        if (key.program >= bpf::OWN_PROGRAMS || bpf_map_lookup_elem(map, &key, by_cpu.data()) != 0)
            continue;
        OwnCost cost{.rules = key.rules, .program = programs[key.program]};
        for (const bpf::own_cost &one : by_cpu) {
            cost.runs += one.runs;
            cost.ns += one.ns;
        }
        all.push_back(std::move(cost));
    }
    return all;
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
        const bool core = is_core_program(name);
        const bool attached = (core && !impl_->lacking.contains(name)) || impl_->links.contains(name);
        if (!attached && (!impl_->lacking.contains(name) || name.starts_with(io_uring_programs)))
            continue; // no rule wants it; or the kernel has that hook by another name, or no io_uring: nothing is
                      // missed
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
    const auto &counts = *impl_->skeleton->bss;
    const std::uint32_t free = std::min(counts.slots_free, impl_->record.threads);
    const std::uint64_t pool = impl_->segments_in_pool;
    const std::uint64_t free_segments = std::min<std::uint64_t>(std::max(counts.segments_free, 0), pool);
    RecorderUse use;
    use.threads_used = impl_->record.threads - free;
    use.threads_max = impl_->record.threads;
    use.processes_max = impl_->record.processes;
    use.calls_bytes = pool * sizeof(bpf::call_segment);
    use.calls_bytes_used = (pool - free_segments) * sizeof(bpf::call_segment);
    use.memory_bytes = impl_->plan.total();
    return use;
}

} // namespace incident::daemon
