#include "daemon/recorder.h"

#include "daemon/syscall_classes.h"
#include "recorder.skel.h"

#include <bpf/bpf.h>
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
    default:
        return "unknown place";
    }
}

bool of_capture(int place) {
    return place == bpf::LOSS_DEATH_EVENT || place == bpf::LOSS_THREAD_EVENT || place == bpf::LOSS_THREAD_STACK ||
           place == bpf::LOSS_GONE_EVENT || place == bpf::LOSS_VMA;
}

const char *loss_reason(int place) {
    switch (place) {
    case bpf::LOSS_DEATH_EVENT:
    case bpf::LOSS_THREAD_EVENT:
    case bpf::LOSS_THREAD_STACK:
    case bpf::LOSS_GONE_EVENT:
    case bpf::LOSS_WATCH_EVENT:
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
    return plan;
}

struct Recorder::Impl {
    recorder_bpf *skeleton = nullptr;
    ring_buffer *buffer = nullptr;
    Mapping threads, records, sides;
    rules::Config::Record record;
    MemoryPlan plan;
    std::uint32_t cpus = 1;
    const std::function<void(std::span<const std::uint8_t>)> *on_event = nullptr;

    ~Impl() {
        ring_buffer__free(buffer);
        recorder_bpf__destroy(skeleton);
    }

    static int deliver(void *context, void *data, size_t size) {
        auto *self = static_cast<Impl *>(context);
        (*self->on_event)({static_cast<const std::uint8_t *>(data), size});
        return 0;
    }

    Status load(std::uint32_t stack_bytes);
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
         mapped_sides = map(maps.sides, false);
    for (auto *mapped : {&mapped_threads, &mapped_records, &mapped_sides})
        if (!*mapped)
            return fail(mapped->error());
    threads = std::move(*mapped_threads);
    records = std::move(*mapped_records);
    sides = std::move(*mapped_sides);
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

void Recorder::apply(const rules::Engine &engine) {
    auto *bss = impl_->skeleton->bss;
    bss->watch_all = engine.watches_everything();
    bss->look_at_comm = engine.looks_at_comm();
    bss->look_at_cgroup = engine.looks_at_cgroup();
    // bit n - 1 is signal n; a rule for handled signals also fires on fatal ones
    bss->fatal_signals = ((engine.signals(true) | engine.signals(false)) >> 1).to_ullong();
    bss->handled_signals = (engine.signals(false) >> 1).to_ullong();
    const int verdicts = bpf_map__fd(impl_->skeleton->maps.verdicts);
    bpf::watch_key key{};
    while (bpf_map_get_next_key(verdicts, nullptr, &key) == 0)
        if (bpf_map_delete_elem(verdicts, &key) != 0)
            break;
    std::atomic_ref<__u32>(impl_->skeleton->data->watch_epoch).fetch_add(1);
}

void Recorder::give_verdict(const bpf::watch_key &key, bool watch) {
    const __u32 verdict = watch ? bpf::VERDICT_WATCH : bpf::VERDICT_IGNORE;
    // Full cannot be: an LRU map makes room.
    bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.verdicts), &key, &verdict, BPF_ANY);
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
        capture::ProbeState probe{bpf_program__section_name(program), "active", "", 0};
        bpf_prog_info info{};
        __u32 size = sizeof(info);
        if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) == 0)
            probe.missed = info.recursion_misses;
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
