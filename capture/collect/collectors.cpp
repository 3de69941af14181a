#include "capture/collect/collectors.h"

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

namespace incident::capture {

namespace {

// Threads left behind in the kernel, of each kind (Awaits).  They may outlive whatever is destroyed at the end.
Hanging &left_behind(Awaits awaits) {
    static auto *const kinds = new Hanging[2];
    return kinds[static_cast<std::size_t>(awaits)];
}

// A read that is under way at the deadline gets this much to return.
constexpr std::chrono::milliseconds GRACE{50};

struct Finish {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false, abandoned = false;
    std::exception_ptr thrown; // by the job: the caller's to take
};

// Shared by the caller and the collecting thread.
struct Session {
    std::mutex mutex;
    Collected got;
    std::size_t begun = 0; // collectors begun so far
    bool closed = false;   // the caller has gone: nothing more is wanted
};

void add_result(Collected &to, std::string name, bool ok, std::string error, std::uint64_t us) {
    to.results.push_back({std::move(name), ok, std::move(error), us});
}

Outcome run(const Collector &collector, const Deadline &deadline) {
    try {
        return collector.run(deadline);
    } catch (const std::bad_alloc &) {
        return {false, "no memory", {}};
    }
}

void collect(Session &session, const std::vector<Collector> &collectors, const Checks &checks,
             const Deadline &deadline) {
    if (std::string why = checks.before ? checks.before() : ""; !why.empty()) {
        const std::lock_guard lock(session.mutex);
        session.begun = collectors.size();
        add_result(session.got, checks.name, false, std::move(why), 0);
        return;
    }
    std::string ended; // by checks.each
    for (const Collector &collector : collectors) {
        {
            const std::lock_guard lock(session.mutex);
            if (session.closed)
                return;
            ++session.begun;
            if (!ended.empty()) {
                add_result(session.got, collector.name, false, ended, 0);
                continue;
            }
            if (deadline.passed()) {
                add_result(session.got, collector.name, false, "not begun: the deadline had passed", 0);
                continue;
            }
        }
        const auto start = Clock::now();
        Outcome outcome = run(collector, deadline);
        if (ended = checks.each ? checks.each() : ""; !ended.empty())
            outcome = {false, ended, {}};
        const auto us = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
        const std::lock_guard lock(session.mutex);
        if (session.closed)
            return;
        for (auto &[path, bytes] : outcome.files)
            session.got.files[path] = std::move(bytes);
        add_result(session.got, collector.name, outcome.ok, std::move(outcome.error), static_cast<std::uint64_t>(us));
    }
    if (std::string why = checks.after ? checks.after() : ""; !why.empty()) {
        const std::lock_guard lock(session.mutex);
        session.got = {};
        add_result(session.got, checks.name, false, std::move(why), 0);
    }
}

} // namespace

Ran run_bounded(const Subject &subject, std::function<void()> job, Clock::time_point until, Awaits awaits) {
    Hanging &hanging = left_behind(awaits);
    if (hanging.full(subject))
        return Ran::Refused;
    auto finish = std::make_shared<Finish>();
    auto shared = std::make_shared<std::function<void()>>(std::move(job));
    try {
        std::thread([finish, shared, &hanging, subject] {
            std::exception_ptr thrown;
            try {
                (*shared)();
            } catch (...) {
                thrown = std::current_exception();
            }
            *shared = nullptr; // what it owns is gone before anybody hears of the end
            const std::lock_guard lock(finish->mutex);
            finish->done = true;
            finish->thrown = std::move(thrown);
            if (finish->abandoned)
                hanging.remove(subject);
            finish->changed.notify_one();
        }).detach();
    } catch (const std::system_error &) {
        (*shared)(); // no thread to be had (TasksMax, memory): rather risk to hang than collect nothing
        return Ran::Done;
    }
    std::unique_lock lock(finish->mutex);
    if (finish->changed.wait_until(lock, until, [&] { return finish->done; })) {
        if (finish->thrown)
            std::rethrow_exception(finish->thrown);
        return Ran::Done;
    }
    finish->abandoned = true;
    hanging.add(subject);
    return Ran::Late;
}

std::chrono::milliseconds patience_with(const Subject &subject, std::chrono::milliseconds span) {
    return span / (1 << left_behind(Awaits::File).of_user(subject));
}

void run_collectors(const Subject &subject, std::vector<Collector> collectors, Checks checks,
                    std::chrono::milliseconds span, Collected &into) {
    std::vector<std::string> names;
    names.reserve(collectors.size());
    for (const Collector &collector : collectors)
        names.push_back(collector.name);
    auto session = std::make_shared<Session>();
    const Deadline deadline(span);
    const auto job = [session, collectors = std::move(collectors), checks = std::move(checks), deadline] {
        collect(*session, collectors, checks, deadline);
    };
    const Ran ran = run_bounded(subject, job, deadline.at() + GRACE);

    const std::lock_guard lock(session->mutex);
    session->closed = true;
    into.files.merge(session->got.files);
    for (CollectorResult &result : session->got.results)
        into.results.push_back(std::move(result));
    if (ran == Ran::Done)
        return;
    const auto us = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(span).count());
    const std::string limit = std::to_string(span.count()) + " ms";
    if (session->begun > 0 && session->got.results.size() < session->begun)
        add_result(into, names[session->begun - 1], false, "did not return within " + limit + ": stuck in the kernel",
                   us);
    const std::string why = ran == Ran::Refused
                                ? "not begun: too many earlier collectors hang on this process or its user"
                            : session->begun > 0 ? "not begun: \"" + names[session->begun - 1] + "\" did not return"
                                                 : "not begun within " + limit;
    for (std::size_t i = session->begun; i < names.size(); ++i)
        add_result(into, names[i], false, why, 0);
}

} // namespace incident::capture
