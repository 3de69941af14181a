// Does what rules ask of the kernel side: attaches programs, and sets what they test.
#include "daemon/record/recorder_impl.h"

#include "daemon/os/tracefs.h"

#include <bpf/btf.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace incident::daemon {

namespace {

// The programs that are always attached; all others only while a rule wants them.
constexpr std::string_view core_programs[] = {"record_exit",    "process_fork",  "process_exec", "process_exit",
                                              "process_rename", "process_moved", "signal_sent",  "signal_taken"};
// Attached where the kernel has their tracepoints: where a machine can sleep, and where it has io_uring.
constexpr std::string_view programs_of_some_kernels[] = {"machine_thaws", "uring_submits", "uring_submits_sqe",
                                                         "uring_completes", "uring_overflows"};
// Attached while calls are to have durations.
constexpr const char *entry_program = "record_enter";

const Family families_of_programs[] = {
    {"syscall", {"call_over"}},
    {"exit", {"call_begins"}},
    {"blocked", {"call_over", "thread_switched", "thread_woken"}},
    {"reclaim", {"direct_reclaim_begins", "direct_reclaim_ends", "cgroup_reclaim_begins", "cgroup_reclaim_ends"}},
    {"block_io", {"bio_queued", "request_issued", "request_done"}},
    {"oom", {"oom_chosen"}},
};

bool is_of_some_kernels(std::string_view name) {
    return std::ranges::find(programs_of_some_kernels, name) != std::end(programs_of_some_kernels);
}

// Arguments that programs of the tracepoint are given; 0: the kernel has none of that name.
unsigned arguments_of(const btf *kernel, const std::string &tracepoint) {
    const int hook = btf__find_by_name_kind(kernel, ("btf_trace_" + tracepoint).c_str(), BTF_KIND_TYPEDEF);
    const btf_type *type = hook < 0 ? nullptr : btf__type_by_id(kernel, btf__type_by_id(kernel, hook)->type);
    const btf_type *prototype = type && btf_is_ptr(type) ? btf__type_by_id(kernel, type->type) : nullptr;
    // the first is the tracepoint's own
    return prototype && btf_is_func_proto(prototype) && btf_vlen(prototype) > 0 ? btf_vlen(prototype) - 1 : 0;
}

} // namespace

bool is_core_program(std::string_view name) {
    return is_of_some_kernels(name) || std::ranges::find(core_programs, name) != std::end(core_programs);
}

// A tracepoint the kernel has not (CONFIG_MEMCG off, …) must not keep the rest from loading.
void Recorder::Impl::leave_out_what_is_missing() {
    const std::unique_ptr<btf, decltype([](btf *types) { btf__free(types); })> kernel(btf__load_vmlinux_btf());
    skeleton->rodata->casts_tasks =
        kernel && btf__find_by_name_kind(kernel.get(), "bpf_rdonly_cast", BTF_KIND_FUNC) > 0;
    constexpr unsigned ring_request_and_entry = 3;
    skeleton->rodata->completes_by_cqe =
        kernel && arguments_of(kernel.get(), "io_uring_complete") == ring_request_and_entry;
    bpf_program *program = nullptr;
    bpf_object__for_each_program(program, skeleton->obj) {
        const std::string_view section = bpf_program__section_name(program);
        const std::string name = bpf_program__name(program);
        if (std::ranges::find(core_programs, name) != std::end(core_programs))
            continue;
        bpf_program__set_autoattach(program, is_of_some_kernels(name));
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
    // libbpf reads a classic tracepoint's number there.
    const std::string_view section = bpf_program__section_name(program);
    if (section.starts_with("tp/") && !tracefs_is_there())
        return fmt::format("attaching {}: tracefs cannot be mounted at /sys/kernel/tracing", section);
    AttachRequest request{.what = AttachRequest::What::Program};
    if (!put_name(request.program, name))
        return "no such program";
    auto link = attached(attacher->ask(request));
    if (!link)
        return link.error().what;
    links[name] = std::move(*link);
    return {};
}

void Recorder::forget_module(const bpf::module_key &file) {
    // Where it is not there any more, it is told of all the same.
    (void)bpf_map__delete_elem(impl_->skeleton->maps.modules_told, &file, sizeof file, 0);
}

void Recorder::forget_modules() {
    const bpf_map *map = impl_->skeleton->maps.modules_told;
    bpf::module_key key{};
    // Keys that are added meanwhile may be left, or deleted as well.
    for (std::uint32_t seen = 0; seen < 2 * bpf_map__max_entries(map); ++seen)
        if (bpf_map__get_next_key(map, nullptr, &key, sizeof key) != 0 ||
            bpf_map__delete_elem(map, &key, sizeof key, 0) != 0)
            return;
}

void Recorder::Impl::apply_family(const Family &family, bool wanted, const std::set<std::string> &needed) {
    if (!wanted) {
        families.erase(family.kind);
        for (const char *program : family.programs)
            if (!needed.contains(program))
                links.erase(program);
        return;
    }
    FamilyState state{.attached = true, .reason = {}};
    for (const char *program : family.programs)
        if (const std::string why = attach(program); !why.empty()) {
            state.attached = false;
            state.reason = why;
        }
    families[family.kind] = std::move(state);
}

void Recorder::Impl::detach_tracepoint(std::uint32_t number) {
    const auto found = hooked.find(number);
    if (found == hooked.end())
        return;
    links.erase(fmt::format("{}:{}", found->second.category, found->second.name));
    hooked.erase(found);
}

// Which conditions are about which tracepoint, in the half of the plan's generation.
void Recorder::Impl::list_tracepoints(const TriggerPlan &plan) {
    tracepoints.clear();
    const std::uint64_t off = bits_left_out(plan);
    for (const auto &tracepoint : plan.tracepoints) {
        const std::uint64_t bit = 1ull << tracepoint.bit;
        if (off & bit)
            continue;
        auto &about = tracepoints[{tracepoint.category, tracepoint.name}];
        if (!(about.rules & bit))
            about.bit[about.count++] = static_cast<__u8>(tracepoint.bit);
        about.rules |= bit;
        about.everyone |= tracepoint.everyone ? bit : 0;
    }
    const int map = bpf_map__fd(skeleton->maps.tracepoints);
    std::set<__u32> keys;
    for (auto &[name, about] : tracepoints)
        if (const auto number = tracepoint_number(name.category, name.name)) {
            about.number = *number;
            about.generation = plan.generation;
            about.record_length = tracepoint_record_length(name.category, name.name);
            const __u32 key = TRACEPOINT_KEY(plan.generation, *number);
            if (bpf_map_update_elem(map, &key, &about, BPF_ANY) == 0)
                keys.insert(key);
            else
                about.number = 0; // full: said when it is attached
        }
    std::vector<__u32> listed; // of both generations
    for (__u32 key = 0; bpf_map_get_next_key(map, listed.empty() ? nullptr : &listed.back(), &key) == 0;)
        listed.push_back(key);
    for (const __u32 key : listed)
        if ((key & 1) == (plan.generation & 1) && !keys.contains(key))
            bpf_map_delete_elem(map, &key);
}

// One attachment each, however many conditions there are about it: their bits stand in the map, and change there
// without a gap.
void Recorder::Impl::apply_tracepoints() {
    const auto before = hooked;
    for (const auto &[number, name] : before)
        if (!tracepoints.contains(name) || tracepoint_number(name.category, name.name) != number)
            detach_tracepoint(number);
    std::erase_if(families, [](const auto &item) { return item.first.starts_with("tracepoint:"); });
    for (const auto &[name, about] : tracepoints) {
        const std::string place = fmt::format("{}:{}", name.category, name.name);
        FamilyState &state = families["tracepoint:" + place];
        const auto number = tracepoint_number(name.category, name.name);
        if (!number) {
            state.reason = fmt::format("this kernel has no tracepoint {} now", place);
            continue;
        }
        if (about.number != *number) {
            state.reason = fmt::format("attaching tracepoint {}: no room for its conditions", place);
            continue;
        }
        if (!hooked.contains(*number)) {
            AttachRequest request{.what = AttachRequest::What::Tracepoint, .cookie = *number};
            const bool fits = put_name(request.program, "tracepoint_hit") &&
                              put_name(request.category, name.category) && put_name(request.name, name.name);
            auto link = attached(fits ? attacher->ask(request)
                                      : fail("attaching tracepoint " + place + ": its name is too long"));
            if (!link) {
                state.reason = link.error().what;
                continue;
            }
            links[place] = std::move(*link);
            hooked[*number] = name;
        }
        state.attached = true;
    }
}

Status Recorder::record_entries(bool wanted) {
    if (!wanted)
        impl_->links.erase(entry_program);
    else if (const std::string why = impl_->attach(entry_program); !why.empty())
        return fail(why);
    // A call that was entered before or after this moment is recorded either way: record_exit sees which.
    impl_->skeleton->bss->entries_recorded = wanted;
    return {};
}

bool Recorder::entries_recorded() const {
    return impl_->skeleton->bss->entries_recorded;
}

// Conditions that the cost budget leaves out.
std::uint64_t Recorder::Impl::bits_left_out(const TriggerPlan &plan) const {
    std::uint64_t off = 0, on = 0;
    for (const auto &assigned : plan.assigned)
        (left_out.contains(fmt::format("{}:{}", assigned.rule, assigned.condition)) ? off : on) |= 1ull << assigned.bit;
    return off & ~on; // the last bit stands for several
}

// What is tested of each kind, in the half of the plan's generation.
void Recorder::Impl::set_masks(const TriggerPlan &plan) {
    const std::uint64_t off = bits_left_out(plan);
    const unsigned half = plan.generation & 1;
    auto *bss = skeleton->bss;
    bss->syscall_rules[half] = plan.syscall & ~off;
    bss->blocked_rules[half] = plan.blocked & ~off;
    bss->block_io_rules[half] = plan.block_io & ~off;
    bss->reclaim_rules[half] = plan.reclaim & ~off;
    bss->tracepoint_rules[half] = plan.tracepoint & ~off;
}

// The one place that says what is attached: as the plan wants, but for what is left out.
void Recorder::Impl::attach_wanted(const TriggerPlan &plan) {
    const std::uint64_t on = ~bits_left_out(plan);
    const std::map<std::string_view, bool> wanted = {
        {"syscall", (plan.syscall & on) != 0},   {"exit", plan.exit != 0},
        {"blocked", (plan.blocked & on) != 0},   {"reclaim", (plan.reclaim & on) != 0},
        {"block_io", (plan.block_io & on) != 0}, {"oom", plan.oom}};
    std::set<std::string> needed;
    for (const Family &family : families_of_programs)
        if (wanted.at(family.kind))
            needed.insert(family.programs.begin(), family.programs.end());
    for (const Family &family : families_of_programs)
        apply_family(family, wanted.at(family.kind), needed);
    apply_tracepoints();
}

void Recorder::leave_out(std::set<std::string> conditions, const TriggerPlan &plan) {
    if (conditions == impl_->left_out)
        return;
    impl_->left_out = std::move(conditions);
    impl_->set_masks(plan);
    impl_->list_tracepoints(plan);
    impl_->attach_wanted(plan);
}

const std::set<std::string> &Recorder::left_out() const {
    return impl_->left_out;
}

std::optional<TracepointName> Recorder::tracepoint(std::uint32_t number) const {
    const auto found = impl_->hooked.find(number);
    return found == impl_->hooked.end() ? std::nullopt : std::optional(found->second);
}

// For wait_for_programs(): made while this process may make maps.
Status Recorder::Impl::make_grace() {
    grace_inside = UniqueFd(bpf_map_create(BPF_MAP_TYPE_ARRAY, "grace_inside", 4, 4, 1, nullptr));
    bpf_map_create_opts options{};
    options.sz = sizeof(options);
    options.inner_map_fd = static_cast<__u32>(grace_inside.get());
    if (grace_inside)
        grace = UniqueFd(bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "grace", 4, 4, 1, &options));
    if (!grace)
        return fail(Error::system("making the map that waits for running BPF programs"));
    return {};
}

// Until every program that runs now has ended: an update of a map of maps waits for that (kernel/bpf/syscall.c,
// maybe_wait_bpf_programs), and none of the recorder's is sleepable.
Status Recorder::Impl::wait_for_programs() {
    const __u32 zero = 0;
    const int inside = grace_inside.get();
    if (bpf_map_update_elem(grace.get(), &zero, &inside, BPF_ANY))
        return fail(Error::system("waiting for running BPF programs"));
    return {};
}

void Recorder::apply(const rules::Engine &engine, const TriggerPlan &plan) {
    auto *bss = impl_->skeleton->bss;
    const std::atomic_ref<__u32> generation(bss->rules_generation);
    // The half to be filled was in force before the one that is now: whoever still reads it began back then.
    if (generation.load())
        if (const auto waited = impl_->wait_for_programs(); !waited)
            std::this_thread::sleep_for(std::chrono::milliseconds(100)); // programs run for microseconds
    const unsigned half = plan.generation & 1;
    const int conditions = bpf_map__fd(impl_->skeleton->maps.conditions);
    for (__u32 bit = 0; bit < RULE_BITS; ++bit) {
        const __u32 index = CONDITION_INDEX(plan.generation, bit);
        bpf_map_update_elem(conditions, &index, &plan.settings[bit], BPF_ANY); // an array's element: cannot fail
    }
    bss->watch_all[half] = engine.watches_everything();
    bss->ask_rules[half] = plan.ask_rules;
    bss->rules_of_all[half] = plan.rules_of_all;
    bss->look_at_comm[half] = engine.looks_at_comm() || plan.dumping(); // [safety] never names all of them
    bss->look_at_cgroup[half] = engine.looks_at_cgroup() || plan.dumping();
    bss->signal_rules[half] = plan.signal;
    bss->exit_rules[half] = plan.exit;
    bss->told_rules[half] = plan.told();
    bss->payload_rules[half] = plan.payload;
    bss->payload_bytes[half] = plan.payload_bytes;
    bss->dump_rules[half] = plan.dumping();
    bss->blocked_min_ns[half] = plan.blocked_min_ns;
    bss->blocked_idle[half] = plan.blocked_idle;
    static_assert(sizeof(bss->syscall_rules_of[half]) == sizeof(plan.syscalls_of));
    std::memcpy(bss->syscall_rules_of[half], plan.syscalls_of, sizeof(plan.syscalls_of));
    impl_->set_masks(plan);
    impl_->list_tracepoints(plan);
    // bit n - 1 is signal n; a rule for handled signals also fires on fatal ones
    bss->fatal_signals = ((engine.signals(true) | engine.signals(false)) >> 1).to_ullong();
    bss->handled_signals = (engine.signals(false) >> 1).to_ullong();
    bss->oom_wanted = plan.oom;
    generation.store(plan.generation); // from here on it is in force
    decide_again();

    impl_->attach_wanted(plan);

    const int decisions =
        bpf_map__fd(impl_->skeleton->maps.watch_decisions); // they belong to another generation, so remove them
    bpf::watch_key key{};
    while (bpf_map_get_next_key(decisions, nullptr, &key) == 0)
        if (bpf_map_delete_elem(decisions, &key) != 0)
            break;
}

void Recorder::decide_again() {
    std::atomic_ref<__u32>(impl_->skeleton->data->watch_epoch).fetch_add(1);
}

void Recorder::leave_out_self() {
    impl_->skeleton->bss->own_tgid = static_cast<__u32>(::getpid());
}

void Recorder::decide_where_due() {
    if (std::atomic_ref<__u32>(impl_->skeleton->bss->epoch_is_due).exchange(0))
        decide_again();
}

void Recorder::give_decision(const bpf::watch_key &key, bool watch, std::uint64_t rules, std::uint32_t generation) {
    const bpf::watch_decision decision{static_cast<__u32>(watch ? bpf::DECISION_WATCH : bpf::DECISION_IGNORE),
                                       generation, rules};
    // Full cannot be: an LRU map makes room.
    bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.watch_decisions), &key, &decision, BPF_ANY);
}

void Recorder::give_permit(const bpf::permit &permit) {
    // Where it finds no room the daemon sends the signal.
    bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.permits), &permit.tgid, &permit, BPF_ANY);
}

void Recorder::set_dump_terms(const DumpTerms &terms) {
    auto *bss = impl_->skeleton->bss;
    std::atomic_ref<__u32>(bss->permit_round).store(terms.round);
    std::atomic_ref<__u64>(bss->dump_space_bytes).store(terms.space_bytes);
    std::atomic_ref<__u64>(bss->dump_until_ns).store(terms.until_ns);
}

std::int32_t *Recorder::dump_allowance() {
    return &impl_->skeleton->bss->dump_allowance;
}

const std::map<std::string, FamilyState> &Recorder::families() const {
    return impl_->families;
}

void Recorder::allow_captures(std::uint32_t count) {
    std::atomic_ref<__s32>(impl_->skeleton->bss->capture_tokens).store(static_cast<__s32>(count));
}

std::vector<std::string> Recorder::programs_of(std::string_view kind) {
    if (kind == "signal")
        return {"signal_sent", "signal_taken"};
    if (kind == "tracepoint")
        return {"tracepoint_hit"};
    if (kind == "latency")
        return {"enter_call",  "leave_call",   "enter_pair", "leave_pair",  "enter_keyed",
                "leave_keyed", "unwind_lands", "long_jump",  "switch_stack"};
    if (kind == "txg_sync")
        return {"txg_enter", "txg_leave"};
    for (const Family &family : families_of_programs)
        if (kind == family.kind)
            return {family.programs.begin(), family.programs.end()};
    return {};
}

} // namespace incident::daemon
