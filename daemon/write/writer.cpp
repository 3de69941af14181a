#include "daemon/write/writer.h"

#include "capture/os/maps.h"
#include "capture/render/render.h"
#include "daemon/facts/facts.h"
#include "daemon/os/clocks.h"
#include "daemon/record/kernel_symbols.h"
#include "daemon/write/build_ids.h"
#include "daemon/write/incident_entry.h"

#include <sys/eventfd.h>

namespace incident::daemon {

namespace {

constexpr std::chrono::seconds host_log_slice{30};

// The writer's thread's own: reading them takes long.
KernelSymbols &kernel_symbols() {
    static KernelSymbols table{{}};
    return table;
}

// What an incident takes of memory while it waits, near enough.
std::size_t bytes_of(const WriteJob &job) {
    std::size_t bytes = sizeof(job);
    for (const auto &[name, content] : job.incident.collected.files)
        bytes += name.size() + content.size();
    const capture::ProcessSnapshot &process = job.incident.input.process;
    bytes += process.kernel_maps.size() + process.pointers.size() * sizeof(bpf::memory_window);
    for (const capture::ThreadSnapshot &thread : process.threads) {
        bytes += sizeof(thread) + thread.stack.size();
        if (!thread.rings)
            continue;
        bytes += thread.rings->syscalls.size() * sizeof(bpf::syscall_record) +
                 thread.rings->memory.size() * sizeof(bpf::memory_record);
        for (const capture::OpenEntry &open : thread.rings->opens)
            bytes += sizeof(open) + open.path.size();
    }
    return bytes;
}

} // namespace

Writer::Writer(capture::IncidentsDir directory, capture::OsRoots os, Budget budget, UniqueFd wake)
    : directory_(std::move(directory)), os_(std::move(os)), retention_(budget), wake_(std::move(wake)),
      thread_([this] { run(); }) {}

Result<std::unique_ptr<Writer>> Writer::start(capture::IncidentsDir directory, capture::OsRoots os, Budget budget) {
    UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake)
        return fail(Error::system("eventfd"));
    return std::unique_ptr<Writer>(new Writer(std::move(directory), std::move(os), budget, std::move(wake)));
}

Writer::~Writer() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    work_.notify_one();
    thread_.join();
}

bool Writer::submit(WriteJob job) {
    const std::size_t bytes = bytes_of(job);
    const std::lock_guard lock(mutex_);
    if (queued_bytes_ && queued_bytes_ + bytes > queue_limit) // one that is larger by itself is written by itself
        return false;
    queued_bytes_ += bytes;
    queue_.emplace_back(std::move(job));
    work_.notify_one();
    return true;
}

void Writer::submit(AmendJob job) {
    const std::lock_guard lock(mutex_);
    queue_.emplace_back(std::move(job)); // at most one for each bundle written
    work_.notify_one();
}

void Writer::submit(ReportJob job) {
    const std::lock_guard lock(mutex_);
    queue_.emplace_back(std::move(job)); // one for each bundle written
    work_.notify_one();
}

std::vector<WriteResult> Writer::take_results() {
    eventfd_t ignored;
    ::eventfd_read(wake_.get(), &ignored);
    const std::lock_guard lock(mutex_);
    return std::exchange(results_, {});
}

std::size_t Writer::pending() const {
    const std::lock_guard lock(mutex_);
    return queue_.size() + (busy_ ? 1 : 0) + results_.size();
}

bool Writer::crowded() const {
    const std::lock_guard lock(mutex_);
    return queued_bytes_ > queue_limit / 2;
}

void Writer::run() {
    kernel_symbols();
    std::unique_lock lock(mutex_);
    for (;;) {
        work_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (queue_.empty())
            return; // stopping, and nothing is left
        auto job = std::move(queue_.front());
        queue_.pop_front();
        if (const auto *write_job = std::get_if<WriteJob>(&job))
            queued_bytes_ -= bytes_of(*write_job);
        busy_ = true;
        lock.unlock();
        WriteResult result;
        if (auto *write_job = std::get_if<WriteJob>(&job))
            result = write(*write_job);
        else if (auto *amend_job = std::get_if<AmendJob>(&job))
            result = amend(*amend_job);
        else
            result = report(std::get<ReportJob>(job));
        lock.lock();
        busy_ = false;
        results_.push_back(std::move(result));
        ::eventfd_write(wake_.get(), 1);
    }
}

WriteResult Writer::write(WriteJob &job) {
    const std::uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    WriteResult result;
    result.name = job.name;
    auto &incident = job.incident;
    result.light = incident.input.light;
    const auto &event = incident.input.process.event;
    for (const LateReading &read : std::exchange(incident.late, {}))
        read(incident.input);
    if (incident.rule->context.host && !incident.input.light)
        capture::collect_host(os_, host_log_slice, {}, incident.collected);

    kernel_symbols().next_incident();
    const std::string *maps = incident.collected.file("process/maps");
    const auto build_ids = BuildIds::read(os_, capture::process_of(event.h),
                                          maps ? capture::Maps::parse(*maps) : capture::Maps(), incident.facts.exe);
    if (event.h.tgid)
        incident.collected.results.push_back(build_ids.result());
    capture::RenderContext context{
        .input = incident.input,
        .collected = incident.collected,
        .id = job.name,
        .build_id_exe = {},
        .kernel_symbol = [](std::uint64_t address) { return kernel_symbols().name(address); },
        .build_id_of = [&](const std::string &path, std::uint64_t inode) { return build_ids.of(path, inode); },
        .redact = job.redact,
        .core = job.core};
    context.build_id_exe = capture::build_id_of_head(event.elf[1].bytes, event.elf[1].length);
    if (context.build_id_exe.empty())
        context.build_id_exe = build_ids.of_executable();

    const auto attempt = [&]() -> Status {
        auto partial = directory_.begin(job.name);
        if (!partial)
            return fail(partial.error());
        for (const auto &[path, bytes] : capture::render_all(context)) {
            if (auto added = partial->add(path, std::string_view(bytes)); !added)
                return fail(std::move(added.error()).in(path));
            if (path == "summary.txt")
                result.summary = bytes.substr(0, bytes.find('\n'));
        }
        if (auto marked = directory_.set_reported(job.name, false); !marked)
            return marked;
        return partial->commit();
    };
    auto written = attempt();
    // Others have filled the disk beyond what is to be kept free: what is older makes room.
    if (!written && written.error().code == ENOSPC && !retention_.empty(directory_) &&
        retention_.keep_within(directory_, job.name))
        written = attempt();
    const std::uint64_t end = clock_ns(CLOCK_MONOTONIC);
    result.took_ns = end - begin;
    result.since_trigger_ns = end - std::min<std::uint64_t>(end, event.h.t_ns);
    if (!written) {
        result.error = written.error().what;
        result.error_code = written.error().code;
        // There is nothing to tell.  A mark that is left over is dropped at the start.
        (void)directory_.set_reported(job.name, true);
    } else if (auto kept = retention_.keep_within(directory_, job.name); !kept) {
        result.error = std::move(kept.error()).in("bundle is written, but the budget could not be kept").what;
    }
    return result;
}

WriteResult Writer::amend(AmendJob &job) {
    const std::uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    WriteResult result;
    result.name = job.name;
    result.amended = true;
    auto *core = std::get_if<capture::CoreLink>(&job.news);
    auto *analysis = std::get_if<capture::BundleAnalysis>(&job.news);
    result.analysed = core == nullptr;
    if (!core && !analysis)
        return result;
    if (core)
        result.summary = core->join == capture::Join::None ? core->reason : core->file;
    else if (const auto verdict = analysis->document.find("verdict"); verdict != analysis->document.end())
        result.summary = verdict->is_object() ? verdict->value("sentence", "") : "";
    auto amended = [&]() -> Status {
        const auto bundle = directory_.bundle(job.name);
        if (!bundle)
            return fail(bundle.error());
        const auto incident = bundle->read("incident.json"), threads = bundle->read("threads.json"),
                   timeline = bundle->read("timeline.jsonl");
        for (const auto *file : {&incident, &threads, &timeline})
            if (!*file)
                return fail(file->error());
        auto files = core ? capture::rerender_core(*incident, *threads, *timeline, *core)
                          : capture::merge_analysis(*incident, *threads, *timeline, std::move(*analysis));
        if (!files)
            return fail(files.error());
        if (auto replaced = directory_.amend(job.name, *files); !replaced)
            return replaced;
        if (!core) // the bundle has grown
            return retention_.keep_within(directory_, job.name);
        return {};
    }();
    if (!amended)
        result.error = amended.error().what;
    result.took_ns = clock_ns(CLOCK_MONOTONIC) - begin;
    return result;
}

WriteResult Writer::report(const ReportJob &job) {
    WriteResult result;
    result.name = job.name;
    result.reported = true;
    const auto bundle = directory_.bundle(job.name);
    if (!bundle) {
        result.gone = true; // for space
        return result;
    }
    if (auto sent = send_incident_entry(*bundle, directory_.path() + "/" + job.name); !sent)
        result.error = sent.error().what;
    return result;
}

} // namespace incident::daemon
