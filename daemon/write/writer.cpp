#include "daemon/write/writer.h"

#include "capture/os/maps.h"
#include "capture/render/render.h"
#include "daemon/facts/facts.h"
#include "daemon/os/clocks.h"
#include "daemon/record/kernel_symbols.h"
#include "daemon/write/attempts.h"
#include "daemon/write/build_ids.h"
#include "rules/model/user.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <exception>

namespace incident::daemon {

namespace {

constexpr std::chrono::seconds host_log_slice{30};

bool is_full(const Error &error) {
    return error.code == ENOSPC || error.code == EDQUOT;
}

// What an incident takes of memory while it waits, near enough.
std::size_t bytes_of(const WriteJob &job) {
    std::size_t bytes = sizeof(job);
    for (const auto &[name, content] : job.incident.collected.files)
        bytes += name.size() + content.size();
    const capture::ProcessSnapshot &process = job.incident.input.process;
    bytes += process.kernel_maps.size() + process.pointers.size() * sizeof(bpf::memory_window);
    for (const capture::ThreadSnapshot &thread : process.threads) {
        bytes += sizeof(thread);
        for (const capture::StackPiece &piece : thread.stack)
            bytes += sizeof(piece) + piece.bytes.size();
        if (!thread.rings)
            continue;
        bytes += thread.rings->syscalls.size() * sizeof(bpf::syscall_record) +
                 thread.rings->memory.size() * sizeof(bpf::memory_record);
        for (const capture::CallPath &path : thread.rings->paths)
            bytes += sizeof(path) + path.bytes.size();
    }
    return bytes;
}

std::optional<std::uint32_t> user_of(const WriteJob &job) {
    return job.user();
}

template <typename Later> std::optional<std::uint32_t> user_of(const Later &job) {
    return job.user;
}

} // namespace

News news_of(const AmendJob &job) {
    return std::holds_alternative<capture::CoreLink>(job.news) ? News::Core
           : std::holds_alternative<capture::Past>(job.news)   ? News::Past
                                                               : News::Analysis;
}

std::uint32_t WriteJob::user() const {
    return rules::user_of(incident.facts);
}

Writer::Writer(capture::IncidentsDir directory, capture::OsRoots os, Budget budget, GiveWay gives_way,
               BpfCodeSource bpf_code, UniqueFd wake)
    : directory_(std::move(directory)), os_(std::move(os)), retention_(directory_, budget, std::move(gives_way)),
      bpf_code_(std::move(bpf_code)), wake_(std::move(wake)), thread_([this] { run(); }) {}

Result<std::unique_ptr<Writer>> Writer::start(capture::IncidentsDir directory, capture::OsRoots os, Budget budget,
                                              GiveWay gives_way, BpfCodeSource bpf_code) {
    UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake)
        return fail(Error::system("eventfd"));
    return std::unique_ptr<Writer>(new Writer(std::move(directory), std::move(os), budget, std::move(gives_way),
                                              std::move(bpf_code), std::move(wake)));
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
    const std::uint32_t user = job.user();
    const std::lock_guard lock(mutex_);
    while (queue_.weight() && queue_.weight() + bytes > queue_limit) { // one that is larger alone is written alone
        const std::uint32_t most = queue_.heaviest();
        if (queue_.weight_of(user) + bytes >= queue_.weight_of(most))
            return false;
        const auto dropped = queue_.drop_newest(most);
        results_.push_back({.name = std::get<WriteJob>(*dropped).name, .user = most, .no_room = true});
        ::eventfd_write(wake_.get(), 1);
    }
    queue_.push(user, std::move(job), bytes);
    work_.notify_one();
    return true;
}

void Writer::submit(AmendJob job) {
    const std::lock_guard lock(mutex_);
    const std::uint32_t user = job.user;
    queue_.push(user, std::move(job)); // at most one for each bundle written
    work_.notify_one();
}

void Writer::submit(ReportJob job) {
    const std::lock_guard lock(mutex_);
    const std::uint32_t user = job.user.value_or(0);
    queue_.push(user, std::move(job)); // one for each bundle written
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

bool Writer::crowded(std::uint32_t user) const {
    const std::lock_guard lock(mutex_);
    const std::size_t own = queue_.weight_of(user), users = queue_.users() + (own ? 0 : 1);
    return queue_.weight() > queue_limit / 2 && own > queue_limit / 2 / users;
}

void Writer::run() {
    ::pthread_setname_np(::pthread_self(), "writer");
    symbols_.emplace(KernelSymbols::Sources{.bpf_code = std::move(bpf_code_)}); // takes long
    std::unique_lock lock(mutex_);
    for (;;) {
        if (queue_.empty() && !stop_) { // nothing is more urgent
            lock.unlock();
            retention_.hold_reserve();
            lock.lock();
        }
        work_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (queue_.empty())
            return; // stopping, and nothing is left
        auto job = std::move(*queue_.pop());
        busy_ = true;
        lock.unlock();
        const std::uint64_t removed = retention_.removed();
        WriteResult result = done(job);
        result.removed = retention_.removed() - removed;
        lock.lock();
        busy_ = false;
        results_.push_back(std::move(result));
        ::eventfd_write(wake_.get(), 1);
    }
}

// One for which there is no memory is lost, and not the daemon with all that wait behind it.
WriteResult Writer::done(Job &job) {
    try {
        if (auto *write_job = std::get_if<WriteJob>(&job))
            return write(*write_job);
        if (auto *amend_job = std::get_if<AmendJob>(&job))
            return amend(*amend_job);
        return report(std::get<ReportJob>(job));
    } catch (const std::exception &error) {
        WriteResult result;
        result.name = std::visit([](const auto &any) { return any.name; }, job);
        result.user = std::visit([](const auto &any) { return user_of(any); }, job);
        result.reported = std::holds_alternative<ReportJob>(job);
        if (const auto *amend_job = std::get_if<AmendJob>(&job))
            result.news = news_of(*amend_job);
        result.error = error.what();
        result.error_code = ENOMEM;
        return result;
    }
}

WriteResult Writer::write(WriteJob &job) {
    const std::uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    WriteResult result;
    result.name = job.name;
    result.user = job.user();
    auto &incident = job.incident;
    result.light = incident.input.light;
    const auto &event = incident.input.process.event;
    for (const LateReading &read : std::exchange(incident.late, {}))
        read(incident.input);
    if (incident.rule->context.host && !incident.input.light)
        capture::collect_host(os_, host_log_slice, {}, incident.collected);

    symbols_->next_incident();
    const std::string *maps = incident.collected.file("process/maps");
    const auto build_ids = BuildIds::read(os_, {capture::process_of(event.h), incident.facts.uid},
                                          maps ? capture::Maps::parse(*maps) : capture::Maps(), incident.facts.exe);
    if (event.h.tgid)
        incident.collected.results.push_back(build_ids.result());
    capture::RenderContext context{
        .input = incident.input,
        .collected = incident.collected,
        .id = job.name,
        .build_id_exe = {},
        .kernel_symbol = [this](std::uint64_t address) { return symbols_->name(address); },
        .build_id_of = [&](const std::string &path, std::uint64_t inode) { return build_ids.of(path, inode); },
        .redact = job.redact,
        .core = job.core,
        .last_words = std::move(job.last_words)};
    context.build_id_exe = capture::build_id_of_head(event.elf[1].bytes, event.elf[1].length);
    if (context.build_id_exe.empty())
        context.build_id_exe = build_ids.of_executable();

    const Files files = capture::render_all(context);
    for (const auto &[path, bytes] : files)
        if (path == "summary.txt")
            result.summary = bytes.substr(0, bytes.find('\n'));
    retention_.begun(job.name);
    const auto written = with_room(job.name, files, [&]() -> Status {
        auto partial = directory_.begin(job.name);
        if (!partial)
            return fail(partial.error());
        for (const auto &[path, bytes] : files)
            if (auto added = partial->add(path, std::string_view(bytes)); !added)
                return fail(std::move(added.error()).in(path));
        if (auto marked = directory_.set_reported(job.name, false); !marked)
            return marked;
        auto committed = partial->commit();
        if (!committed && directory_.bundle(job.name)) // to write it again would not bring it to the disk
            committed.error().code = 0;
        return committed;
    });
    const std::uint64_t end = clock_ns(CLOCK_MONOTONIC);
    result.took_ns = end - begin;
    result.since_trigger_ns = end - std::min<std::uint64_t>(end, event.h.t_ns);
    if (!written) {
        result.error = written.error().what;
        result.error_code = written.error().code;
        if (directory_.bundle(job.name))
            return result;
        retention_.finished(job.name);
        // There is nothing to tell.  A mark that is left over is dropped at the start.
        (void)directory_.set_reported(job.name, true);
    }
    return result;
}

// Writes these files, after there is room for them, and again where that may help.
Status Writer::with_room(const std::string &name, const Files &files, const std::function<Status()> &write) {
    Coming coming{.name = name, .incident_json = {}, .bytes = 0};
    for (const auto &[path, bytes] : files) {
        coming.bytes += on_disk(bytes.size());
        if (path == "incident.json")
            coming.incident_json = bytes;
    }
    if (auto made = retention_.make_room(coming); !made) // no reason not to try
        spdlog::error("the budget of the incidents could not be kept: {}", made.error().what);
    Attempts attempts(name);
    Status written = write();
    for (; !written && attempts.left(); written = write()) {
        if (is_full(written.error())) {
            const auto made = retention_.make_room_on_a_full_disk(coming);
            if (!made)
                spdlog::error("no room could be made for incident {}: {}", name, made.error().what);
            if (!made || !*made)
                break;
        } else if (!attempts.may_pass(written.error())) {
            break;
        }
    }
    return written;
}

} // namespace incident::daemon
