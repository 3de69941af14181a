// The loaded programs and the mappings of their maps, which all files of the recorder share.  Only recorder*.cpp
// include it, and only they use libbpf.
#pragma once

#include "daemon/record/attacher.h"
#include "daemon/record/libbpf_log.h"
#include "daemon/record/recorder.h"

#include "recorder.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>

namespace incident::daemon {

// A mapping of a BPF_F_MMAPABLE array.  Its elements are `stride` bytes apart.
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

// Whether the program is one of those that are always attached.
bool is_core_program(std::string_view name);
inline constexpr std::string_view io_uring_programs = "uring_"; // how their names begin

// The programs of a rule kind.  Programs for which the kernel lacks something are left out when loading.
struct Family {
    const char *kind;
    std::vector<const char *> programs;
};

struct Recorder::Impl {
    recorder_bpf *skeleton = nullptr;
    ring_buffer *buffer = nullptr;
    Mapping threads, segments, sides, calls, call_slots, txg_syncs, tallies;
    rules::Config::Record record;
    MemoryPlan plan;
    std::uint32_t segments_in_pool = 0, tally_sets = 0;
    std::vector<std::uint32_t> homeless; // segments taken out of a chain that the free list has refused so far
    std::uint32_t cpus = 1;
    const OnEvent *on_event = nullptr;
    std::unique_ptr<Attacher> attacher;
    std::map<std::string, Attached> links;      // by name of the optional program, or "CATEGORY:NAME" of the tracepoint
    std::map<std::string, std::string> lacking; // programs left out at load, and why
    std::map<std::uint32_t, TracepointName> hooked;              // tracepoints with a link, by the kernel's number
    std::map<TracepointName, bpf::tracepoint_rules> tracepoints; // those with conditions that are not left out
    std::map<std::string, FamilyState> families;
    std::set<std::string> left_out;        // conditions left out for their cost
    std::set<capture::ProcessRef> untimed; // those in the map
    UniqueFd grace, grace_inside;          // see wait_for_programs

    ~Impl() {
        links.clear();
        attacher.reset(); // it has the programs too
        ring_buffer__free(buffer);
        recorder_bpf__destroy(skeleton);
    }

    // If the result is below 0, ring_buffer__consume() stops after this event and returns the result.
    static int deliver(void *context, void *data, size_t size) {
        auto *self = static_cast<Impl *>(context);
        return (*self->on_event)({static_cast<const std::uint8_t *>(data), size}) ? 0 : -ECANCELED;
    }

    Status load(std::uint32_t stack_bytes);
    void leave_out_what_is_missing();
    std::string attach(const std::string &program);
    void apply_family(const Family &family, bool wanted, const std::set<std::string> &needed);
    std::uint64_t bits_left_out(const TriggerPlan &plan) const;
    void set_masks(const TriggerPlan &plan);
    void list_tracepoints(const TriggerPlan &plan);
    void apply_tracepoints();
    void detach_tracepoint(std::uint32_t number);
    Status make_grace();
    Status wait_for_programs();
    void attach_wanted(const TriggerPlan &plan);
    Status size_maps(std::uint32_t pid_max);
    Status fill_free_lists();
    bool take_oldest(std::uint32_t slot);
    void house();
    void give_back(std::uint32_t share, __u32 bpf::user_share::*held);
};

} // namespace incident::daemon
