#include "daemon/write/core_follower.h"

#include "capture/collect/collect_oom.h"
#include "daemon/facts/facts.h"
#include "rules/model/user.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace incident::daemon {

namespace {

// An entry follows the dump at once; when the kernel skipped the dump its log says so
// about as soon.  Before this much has passed the log is not read.
constexpr std::uint64_t ask_kernel_log_after_ns = 300'000'000;
constexpr std::uint64_t log_gap_first_ns = 500'000'000, log_gap_last_ns = 8'000'000'000;
constexpr std::uint64_t search_gap_ns = 1'000'000'000;
constexpr std::chrono::seconds kernel_log_slice{60};

std::string read_text(const std::string &path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

capture::CoreLink no_core(std::string reason) {
    capture::CoreLink link;
    link.reason = std::move(reason);
    return link;
}

bool readable(int fd) {
    pollfd poll_for{fd, POLLIN, 0};
    return ::poll(&poll_for, 1, 0) != 0; // also where it cannot be told
}

capture::CorePrecheck precheck_of(const capture::OsRoots &os, const capture::IncidentInput &input) {
    const auto &event = input.process.event;
    return {.signal = input.dump.sent ? input.dump.signal : event.number,
            .rlimit_core = event.limits[RLIMIT_CORE].soft,
            .dumpable = event.dumpable,
            .pid = event.h.tgid,
            .ns_pid = event.ns_tgid,
            .core_pattern = read_text(os.proc + "/sys/kernel/core_pattern"),
            .kernel_log = {},
            .died = {event.h.t_ns},
            .listener = capture::coredump_socket_listens(os)};
}

} // namespace

capture::CoreLink first_look_at_core(const capture::OsRoots &os, const capture::IncidentInput &input) {
    if (!input.process.event.fatal && !input.dump.sent) {
        if (std::holds_alternative<capture::ExitTrigger>(input.trigger))
            return no_core("the process exited");
        return no_core(input.process.event.number ? "the signal did not kill the process"
                                                  : "the process was not dying when the rule fired");
    }
    if (auto reason = capture::no_core_reason(precheck_of(os, input)); !reason.empty())
        return no_core(std::move(reason));
    auto link = no_core("a core may still be written: no journal entry yet");
    link.pending = true;
    return link;
}

CoreFollower::CoreFollower(capture::OsRoots os, ReadKernelLog kernel_log, std::string journal)
    : os_(std::move(os)), read_kernel_log_(std::move(kernel_log)), journal_directory_(std::move(journal)) {
    if (!read_kernel_log_)
        read_kernel_log_ = [roots = os_] { return capture::recent_kernel_log(roots, kernel_log_slice); };
}

void CoreFollower::follow(WantedCore wanted) {
    const capture::IncidentInput &input = wanted.input;
    const auto &event = input.process.event;
    const auto &clocks = input.clocks;
    capture::DeathIdentity death;
    death.boot_id = clocks.boot_id;
    death.process = capture::process_of(event.h);
    death.exe = std::move(wanted.exe);
    death.comm = text_of(event.leader_comm);
    death.signal = input.dump.sent ? input.dump.signal : event.number;
    death.uid = event.uid;
    death.at = {event.h.t_ns};
    death.time = clocks.wall_of(death.at);
    if (death.process.start.ns != 0)
        death.started = clocks.wall_of(death.process.start);
    death.auxv = std::move(wanted.auxv);
    waiting_.push_back({std::move(wanted.bundle), std::move(death), precheck_of(os_, input), clocks.monotonic.ns,
                        wanted.give_up_ns, rules::user_of(event.uid)});
    log_gap_ns_ = log_gap_first_ns;
    log_due_ns_ = std::min(log_due_ns_, log_read_ns_ + log_gap_first_ns);
}

bool CoreFollower::Waiting::may_be_in_log(std::uint64_t at_ns) const {
    return at_ns > since_ns + ask_kernel_log_after_ns;
}

void CoreFollower::refresh_kernel_log(std::uint64_t now_ns) {
    const bool wanted = std::ranges::any_of(waiting_, [&](const Waiting &one) { return one.may_be_in_log(now_ns); });
    const bool last_chance = std::ranges::any_of(waiting_, [&](const Waiting &one) {
        return now_ns >= one.give_up_ns && one.may_be_in_log(now_ns) && !one.may_be_in_log(log_read_ns_);
    });
    if (!wanted || (now_ns < log_due_ns_ && !last_chance))
        return;
    kernel_log_ = read_kernel_log_();
    log_read_ns_ = now_ns;
    log_due_ns_ = now_ns + log_gap_ns_;
    log_gap_ns_ = std::min(log_gap_ns_ * 2, log_gap_last_ns);
}

void CoreFollower::ask_kernel_log(Waiting &waiting) const {
    if (!waiting.may_be_in_log(log_read_ns_) || waiting.log_seen_ns == log_read_ns_)
        return;
    waiting.log_seen_ns = log_read_ns_;
    waiting.precheck.kernel_log = kernel_log_;
    waiting.reason = capture::no_core_reason(waiting.precheck);
    if (waiting.hint.empty())
        waiting.hint = capture::no_handler_hint(waiting.precheck);
    waiting.precheck.kernel_log.clear();
}

// Those to search for now.  Each user's that has waited longest comes first, then each user's second, and so on.
std::set<const CoreFollower::Waiting *> CoreFollower::whose_turn(std::uint64_t now_ns) const {
    std::vector<const Waiting *> due;
    for (const Waiting &one : waiting_)
        if (one.journal_changed || now_ns >= one.searched_ns + search_gap_ns || now_ns >= one.give_up_ns ||
            !one.reason.empty())
            due.push_back(&one);
    std::ranges::stable_sort(due, {}, &Waiting::searched_ns);
    std::map<std::uint32_t, std::size_t> before; // of this user
    std::map<const Waiting *, std::size_t> rank;
    for (const Waiting *one : due)
        rank[one] = before[one->user]++;
    std::ranges::stable_sort(due, {}, [&](const Waiting *one) { return rank[one]; });
    due.resize(std::min(due.size(), most_searches));
    return {due.begin(), due.end()};
}

std::optional<capture::CoreLink> CoreFollower::look_for_core(Waiting &waiting, std::uint64_t now_ns) {
    const bool last = now_ns >= waiting.give_up_ns;
    const std::string &reason = waiting.reason;
    waiting.searched_ns = now_ns;
    waiting.journal_changed = false;
    auto found = journal_->find(waiting.death);
    if (last && !(found && found->join != capture::Join::None) && journal_->refresh())
        found = journal_->find(waiting.death);
    if (found && found->join != capture::Join::None)
        return std::move(*found);
    // The kernel's line has a number that another pid namespace may have given too: what /proc shows weighs more.
    if (!reason.empty() && !(found && found->dumping))
        return no_core(reason);
    if (!last)
        return std::nullopt;
    if (!found)
        return no_core(std::move(found.error().what));
    std::string why = fmt::format("no journal entry of systemd-coredump within {} s of the death",
                                  (now_ns - waiting.since_ns) / 1'000'000'000);
    for (const std::string &more : {waiting.hint, found->rejected})
        if (!more.empty())
            why += "; " + more;
    return no_core(std::move(why));
}

std::vector<FoundCore> CoreFollower::look(std::uint64_t now_ns) {
    std::vector<FoundCore> answers;
    if (waiting_.empty())
        return answers;
    if (!journal_) {
        auto journal = capture::CoreJournal::open(journal_directory_, os_);
        if (!journal) { // descriptors or memory may be short for a moment
            std::erase_if(waiting_, [&](Waiting &one) {
                const bool over = now_ns >= one.give_up_ns;
                if (over)
                    answers.push_back({std::move(one.bundle), no_core(journal.error().what), one.user});
                return over;
            });
            return answers;
        }
        journal_ = std::move(*journal);
    }
    const bool changed = readable(journal_->fd());
    refresh_kernel_log(now_ns);
    (void)journal_->process(); // sees new files; a failure shows in find()
    for (Waiting &one : waiting_) {
        one.journal_changed |= changed;
        ask_kernel_log(one);
    }
    const auto turn = whose_turn(now_ns);
    std::set<const Waiting *> over;
    for (Waiting &one : waiting_)
        if (turn.contains(&one))
            if (auto link = look_for_core(one, now_ns)) {
                answers.push_back({one.bundle, std::move(*link), one.user});
                over.insert(&one);
            }
    if (!over.empty()) {
        std::vector<Waiting> left;
        for (Waiting &one : waiting_)
            if (!over.contains(&one))
                left.push_back(std::move(one));
        waiting_ = std::move(left);
    }
    return answers;
}

} // namespace incident::daemon
