// Events of the ring buffer.  Their shape is the kernel side's, but comm, arguments, paths, stacks and memory in them
// are a process's; and a ring buffer that lost some has the others in any combination.  Each incident that comes of
// them is rendered as a bundle.
#include "capture/render/render.h"
#include "daemon/assemble/assembly.h"
#include "rules/files/parse.h"
#include "tests/fuzz/target.h"

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include <cstring>
#include <map>

namespace incident::fuzz {
namespace {

using namespace daemon;

constexpr std::uint64_t second = 1'000'000'000;

// The kernel's maps, filled from the input.
class FuzzedRecorder final : public Recorded {
public:
    std::optional<capture::ThreadRings> read(std::uint32_t slot, std::uint64_t generation,
                                             const CallsWanted & /*wanted*/) const override {
        const auto found = rings.find(slot);
        if (found == rings.end() || found->second.slot.generation != generation)
            return std::nullopt;
        return found->second;
    }
    std::vector<std::uint32_t> slots_of(const capture::ProcessRef &process) const override {
        std::vector<std::uint32_t> all;
        for (const auto &[slot, ring] : rings)
            if (capture::process_of(ring.slot) == process)
                all.push_back(slot);
        return all;
    }
    std::vector<bpf::tally> tallies(const capture::ProcessRef & /*process*/) const override { return facts; }
    std::vector<capture::Request> requests_in_flight(const capture::ProcessRef & /*process*/) const override {
        return {};
    }
    bpf::thread_slot header(std::uint32_t slot) const override {
        const auto found = rings.find(slot);
        return found == rings.end() ? bpf::thread_slot{} : found->second.slot;
    }
    std::uint32_t slots() const override { return 16; }
    void release(std::uint32_t slot) override { must(slot != ~0u, "no thread without a slot is released"); }
    std::optional<bpf::process_entry> process(std::uint32_t tgid) const override {
        const auto found = entries.find(tgid);
        return found == entries.end() ? std::nullopt : std::optional(found->second);
    }
    std::vector<std::uint32_t> processes() const override {
        std::vector<std::uint32_t> all;
        for (const auto &[tgid, entry] : entries)
            all.push_back(tgid);
        return all;
    }
    void forget_process(std::uint32_t tgid) override { entries.erase(tgid); }
    std::optional<bpf::kept_death> kept_death(const capture::ProcessRef &process) const override {
        const auto found = kept.find(process.pid);
        return found == kept.end() ? std::nullopt : std::optional(found->second);
    }
    Status snapshot(std::uint32_t) override { return {}; }
    void give_decision(const bpf::watch_key &, bool, std::uint64_t, std::uint32_t) override {}
    std::optional<TracepointName> tracepoint(std::uint32_t) const override { return std::nullopt; } // tracefs says more
    LossCounts loss_counts() const override { return {}; }
    std::vector<capture::ProbeState> probes() const override { return {}; }

    std::map<std::uint32_t, bpf::process_entry> entries;
    std::map<std::uint32_t, bpf::kept_death> kept;
    std::map<std::uint32_t, capture::ThreadRings> rings;
    std::vector<bpf::tally> facts;
};

class HandClock final : public Clock {
public:
    std::uint64_t monotonic_ns() const override { return now_ns; }
    capture::Clocks read(std::string boot_id) const override {
        return {{now_ns}, {now_ns}, {now_ns}, std::move(boot_id)};
    }
    std::uint64_t now_ns = 100 * second;
};

const std::vector<rules::Rule> &some_rules() {
    static const std::vector<rules::Rule> rules =
        rules::parse_rules({{"fuzzed.toml", R"(
[[rule]]
name = "crash"
on = "signal"
context = { stack = "64KiB", environ = true }
[[rule]]
name = "usr"
on = "signal"
signals = ["SIGUSR1", "SIGSEGV"]
fatal = false
[[rule]]
name = "exit"
on = "exit"
[[rule]]
name = "oom"
on = "oom"
[[rule]]
name = "slow"
on = "syscall"
slower_than = "1ms"
[[rule]]
name = "blocked"
on = "blocked"
threshold = "1ms"
[[rule]]
name = "reclaim"
on = "reclaim"
count = 2
window = "30s"
by = "host"
[[rule]]
name = "io"
on = "block_io"
error = true
)"}},
                           {.uid_of = {},
                            .syscall_names = []() -> const std::vector<std::string> & {
                                static const std::vector<std::string> names = {"openat", "read"};
                                return names;
                            },
                            .tracepoint_format = {},
                            .tracepoints = {}})
            .rules;
    return rules;
}

class World : AssemblyListener {
public:
    World() : rules_(some_rules()) {
        rules_.plan = plan_triggers(rules_.rules(), true);
        rules_.history.begin(rules_.plan, rules_.rules());
        assembler_.emplace(recorder, rules_, facts_, static_cast<AssemblyListener &>(*this), clock_, os_,
                           "0123456789abcdef0123456789abcdef", rules::Nanoseconds(std::chrono::seconds(2)));
    }

    void take(std::string_view event) { assembler_->take(bytes_of(event)); }
    void pass(std::uint64_t ns) {
        clock_.now_ns += ns;
        assembler_->tend(clock_.now_ns);
    }
    void find_lost() { assembler_->find_lost(clock_.now_ns); }
    void end() {
        assembler_->close_all();
        pass(10 * second);
    }
    std::uint32_t generation() const { return rules_.plan.generation; }

    FuzzedRecorder recorder;
    std::map<std::string, std::string> files; // as if collected

private:
    void on_ready(Assembly assembly) override {
        for (const auto &[path, bytes] : files)
            assembly.collected.files.try_emplace(path, bytes);
        const capture::RenderContext context{
            .input = assembly.input,
            .collected = assembly.collected,
            .id = "20261121T150405.123Z-crash-app-100-9f3c2a",
            .build_id_exe = "",
            .kernel_symbol = [](std::uint64_t address) { return address % 2 ? std::string("do_\x1b[2J+0x1") : ""; },
            .build_id_of = [](const std::string &, std::uint64_t) { return std::string(); },
            .redact = {"secret[0-9]+"},
            .core = {}};
        for (const auto &[path, bytes] : capture::render_all(context)) {
            if (path.ends_with(".json"))
                must(nlohmann::json::accept(bytes), "what is written as JSON is JSON");
            if (path == "summary.txt")
                must_be_harmless(bytes, "a summary can be printed");
        }
        (void)capture::incident_signature(assembly.input);
    }
    void before_rules(Occurrence &) override {}
    void on_fire(const rules::Decision &, Assembly &) override {}
    void on_started(const rules::ProcessFacts &) override {}
    void on_watched(const capture::Subject &) override {}
    void on_permit(const bpf::trigger_head &) override {}
    bool on_other(const bpf::event_header &, std::span<const std::uint8_t>) override { return false; }

    capture::OsRoots os_{.proc = "/nonexistent",
                         .sys = "/nonexistent",
                         .cgroup = "/nonexistent",
                         .dev_kmsg = "/nonexistent",
                         .coredump = "/nonexistent"};
    HandClock clock_;
    RulesInForce rules_;
    FactsCache facts_{os_};
    std::optional<Assembler> assembler_;
};

// What is not given of a structure is zero.
template <typename T> T object_of(std::string_view bytes) {
    T object;
    std::memset(static_cast<void *>(&object), 0, sizeof object);
    std::memcpy(static_cast<void *>(&object), bytes.data(), std::min(bytes.size(), sizeof object));
    return object;
}

std::size_t size_of(std::uint32_t kind) {
    switch (kind) {
    case bpf::EVENT_DEATH:
    case bpf::EVENT_SIGNAL:
    case bpf::EVENT_SNAPSHOT:
        return sizeof(bpf::death_event);
    case bpf::EVENT_THREAD:
        return sizeof(bpf::thread_event);
    case bpf::EVENT_WATCH:
        return sizeof(bpf::watch_event);
    case bpf::EVENT_OOM:
        return sizeof(bpf::oom_event);
    case bpf::EVENT_TRIGGER:
        return sizeof(bpf::trigger_head) + 512;
    default:
        return 0; // as long as it is
    }
}

// Of processes 1 to 4 and their threads, so that events meet.
void put_identity(bpf::event_header &header, std::uint8_t who) {
    header.layout = EVENT_LAYOUT;
    header.tgid = 1 + who % 4u;
    header.tid = header.tgid + who / 4u % 4u * 100;
    header.process_start_boot_ns = 1000 + header.tgid;
    header.thread_start_boot_ns = 1000 + header.tid;
}

void take_event(World &world, std::uint8_t who, std::string_view said, bool whole) {
    std::string bytes(said);
    if (bytes.size() < sizeof(bpf::event_header))
        bytes.resize(sizeof(bpf::event_header));
    auto header = object_of<bpf::event_header>(bytes);
    header.kind = header.kind % 32;
    put_identity(header, who);
    std::memcpy(bytes.data(), &header, sizeof header);
    if (whole && bytes.size() < size_of(header.kind))
        bytes.resize(size_of(header.kind)); // the input need not hold all the zeros
    if (header.kind == bpf::EVENT_TRIGGER && bytes.size() >= sizeof(bpf::trigger_head)) {
        auto head = object_of<bpf::trigger_head>(bytes);
        head.generation = world.generation();
        std::memcpy(bytes.data(), &head, sizeof head);
    }
    world.take(bytes);
}

void add_ring(World &world, std::uint8_t who, Input &bytes) {
    capture::ThreadRings rings;
    rings.slot = object_of<bpf::thread_slot>(bytes.text());
    bpf::event_header identity{};
    put_identity(identity, who);
    rings.slot.tgid = identity.tgid;
    rings.slot.tid = identity.tid;
    rings.slot.process_start_boot_ns = identity.process_start_boot_ns;
    rings.slot.thread_start_boot_ns = identity.thread_start_boot_ns;
    for (auto calls = bytes.number<std::uint8_t>() % 8; calls > 0; --calls)
        rings.syscalls.push_back(object_of<bpf::syscall_record>(bytes.bytes(sizeof(bpf::syscall_record))));
    for (auto paths = bytes.number<std::uint8_t>() % 4; paths > 0; --paths) {
        capture::CallPath &path = rings.paths.emplace_back();
        path.start_ns = rings.syscalls.empty() ? 0 : rings.syscalls.back().start_ns;
        path.status = static_cast<bpf::path_status>(bytes.number<std::uint8_t>() % 4);
        path.bytes = bytes.text().substr(0, PATH_MAX_LEN - 1);
        path.bytes = path.bytes.substr(0, path.bytes.find('\0'));
    }
    for (auto memory = bytes.number<std::uint8_t>() % 4; memory > 0; --memory)
        rings.memory.push_back(object_of<bpf::memory_record>(bytes.bytes(sizeof(bpf::memory_record))));
    world.recorder.rings[who % 16u] = std::move(rings);
}

// What is remembered of whoever is asked about; their names are also addresses of the thread's calls.
void add_facts(World &world, std::uint8_t who, std::string_view said) {
    constexpr std::size_t most = 16;
    world.recorder.facts.clear();
    for (; !said.empty() && world.recorder.facts.size() < most;
         said.remove_prefix(std::min(said.size(), sizeof(bpf::tally)))) {
        const auto &fact = world.recorder.facts.emplace_back(object_of<bpf::tally>(said));
        const auto ring = world.recorder.rings.find(who % 16u);
        if (ring != world.recorder.rings.end() && !ring->second.syscalls.empty())
            ring->second.addresses.push_back({ring->second.syscalls.front().start_ns,
                                              {fact.name, std::min<std::size_t>(fact.length, sizeof fact.name)}});
    }
}

void add_process(World &world, std::uint8_t who, std::string_view said) {
    auto entry = object_of<bpf::process_entry>(said);
    bpf::event_header identity{};
    put_identity(identity, who);
    entry.tgid = identity.tgid;
    entry.start_boot_ns = identity.process_start_boot_ns;
    world.recorder.entries[entry.tgid] = entry;
    if (said.size() > sizeof entry)
        world.recorder.kept[entry.tgid] = object_of<bpf::kept_death>(said.substr(sizeof entry));
    constexpr std::size_t facts_at = sizeof entry + sizeof(bpf::kept_death);
    if (said.size() > facts_at)
        add_facts(world, who, said.substr(facts_at));
}

} // namespace

// Steps: what comes, of which thread.
FUZZ_TARGET(events) {
    static constexpr const char *collected[] = {"process/maps",   "process/fds",     "process/comms", "process/cgroup",
                                                "process/status", "process/cmdline", "process/exe",   "host/version"};
    spdlog::set_level(spdlog::level::off);
    World world;
    Input bytes(input);
    for (unsigned steps = 0; !bytes.empty() && steps < 64; ++steps) {
        const auto what = bytes.number<std::uint8_t>(), who = bytes.number<std::uint8_t>();
        switch (what % 8) {
        case 0:
        case 1:
        case 2:
            take_event(world, who, bytes.text(), what % 8 != 2);
            break;
        case 3:
            add_ring(world, who, bytes);
            break;
        case 4:
            add_process(world, who, bytes.text());
            break;
        case 5:
            world.files[collected[who % std::size(collected)]] = bytes.text();
            break;
        case 6:
            world.pass(who * second / 64);
            break;
        default:
            world.find_lost();
        }
    }
    world.end();
}

} // namespace incident::fuzz
