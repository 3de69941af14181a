// Judges a signal that another process or the process itself sent, and a kill by the OOM killer.
#include "postmortem/verdict/evidence.h"
#include "postmortem/verdict/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>

namespace incident::postmortem {

namespace {

constexpr std::uint64_t kernel_log_max = 4u << 20;

struct Task {
    std::string name;
    std::uint64_t pid = 0, rss_bytes = 0;
};

// Of "[sec.usec] <prio> text" the text, if the kernel wrote it: priorities of more than one digit have a facility, that
// of programs. Else "".
std::string_view kernel_text(std::string_view line) {
    const std::size_t open = line.find("] <"), close = line.find("> ", open);
    if (open == std::string_view::npos || close == std::string_view::npos || close - open != 4)
        return {};
    return line.substr(close + 2);
}

// The kernel's table of candidates: "[  pid  ]   uid  tgid total_vm      rss … name" (dump_tasks(), mm/oom_kill.c).
std::vector<Task> candidates(const Evidence &e) {
    constexpr std::uint64_t page = 4096;
    constexpr std::size_t tgid_column = 1, rss_column = 3, columns_least = 5;
    std::vector<Task> tasks;
    const auto log = e.bundle.read("host/kernel_log", kernel_log_max);
    if (!log)
        return tasks;
    std::string_view rest(*log);
    while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        std::string_view line = rest.substr(0, end);
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        line = kernel_text(line);
        constexpr std::size_t comm_max = 15;
        // Names of programs and cgroups are anybody's words, so what is the kernel's own is known by where it stands.
        if (line.find(" invoked oom-killer: ") <= comm_max)
            tasks.clear(); // an older kill's table
        // after the pid in brackets: uid tgid total_vm rss … name
        const std::size_t close = line.find("] ");
        if (!line.starts_with('[') || close == std::string_view::npos ||
            line.substr(1, close - 1).find_first_not_of(" 0123456789") != std::string_view::npos)
            continue;
        std::vector<std::string_view> words;
        for (std::string_view words_left = line.substr(close + 1); !words_left.empty();) {
            const std::size_t begin = words_left.find_first_not_of(' ');
            if (begin == std::string_view::npos)
                break;
            words_left.remove_prefix(begin);
            const std::size_t length = std::min(words_left.find(' '), words_left.size());
            words.push_back(words_left.substr(0, length));
            words_left.remove_prefix(length);
        }
        Task task;
        if (words.size() < columns_least)
            continue;
        auto number = [](std::string_view word, std::uint64_t &into) {
            const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), into);
            return error == std::errc() && stop == word.data() + word.size();
        };
        if (!number(words[tgid_column], task.pid) || !number(words[rss_column], task.rss_bytes))
            continue;
        task.rss_bytes *= page;
        task.name = words.back();
        tasks.push_back(std::move(task));
    }
    return tasks;
}

// enum oom_constraint (include/linux/oom.h).
Claim whose_memory(std::string_view constraint, std::string_view cgroup) {
    if (constraint.find("MEMCG") != std::string_view::npos)
        return cgroup.empty() ? Claim::of<Sentence::out_of_memory_some_cgroup>() // its own, or one around that
                              : Claim::of<Sentence::out_of_memory_cgroup>(cgroup);
    if (constraint == "CONSTRAINT_NONE")
        return Claim::of<Sentence::out_of_memory_host>();
    if (constraint == "CONSTRAINT_CPUSET")
        return Claim::of<Sentence::out_of_memory_cpuset>();
    if (constraint == "CONSTRAINT_MEMORY_POLICY")
        return Claim::of<Sentence::out_of_memory_policy>();
    return Claim::of<Sentence::out_of_memory_chosen>();
}

std::string name_of(JsonView sender) {
    return fmt::format("{}[{}]", sender["comm"].text(), sender["pid"].count());
}

// The kernel sends SIGXFSZ where a call would make a file longer than RLIMIT_FSIZE, and the call returns EFBIG
// (generic_write_check_limits() in fs/read_write.c, inode_newsize_ok() in fs/attr.c).
std::optional<Claim> file_limit(const Evidence &e) {
    // send_sig() without a siginfo: to its receiver that looks like a kill(2) of its own.
    const auto code = e.signal()["code"].integer();
    if (e.image.signal != SIGXFSZ || !e.signal()["fatal"].flag() || e.signal()["sender"].is_object() ||
        (code != SI_USER && code != SI_KERNEL) || e.image.threads.empty())
        return std::nullopt;
    const auto lines = signal_lines(e.bundle);
    const std::int64_t trigger = e.incident.trigger_ns().value_or(0);
    const auto last = std::ranges::find_if(lines.rbegin(), lines.rend(), [&](const SignalLine &line) {
        return line.number == SIGXFSZ && !line.delivered && line.t_ns <= trigger;
    });
    const auto limit = e.limit("Max file size");
    if (last == lines.rend() || last->code != SI_KERNEL || last->tid != e.image.threads.front().tid || !limit)
        return std::nullopt;
    auto claim = Claim::of<Sentence::file_too_large>(bytes_text(*limit));
    claim.facts = {"the kernel raised SIGXFSZ, which it does for that alone",
                   fmt::format("process/limits: \"Max file size\" is {}", *limit)};
    return claim;
}

// The kernel sends SIGXCPU when RLIMIT_CPU or RLIMIT_RTTIME is reached, and for nothing else
// (kernel/time/posix-cpu-timers.c). It raises the first by a second each time, so the number says little.
std::optional<Claim> cpu_limit(const Evidence &e) {
    const auto limit = e.limit("Max cpu time");
    if (e.image.signal != SIGXCPU || !e.signal()["fatal"].flag() || e.signal()["sender"].is_object() ||
        e.signal()["code"].integer() != SI_KERNEL || !limit || e.limit("Max realtime timeout"))
        return std::nullopt;
    auto claim = Claim::of<Sentence::cpu_time_used_up>();
    claim.facts = {"the kernel raised SIGXCPU, which it does for that limit and for RLIMIT_RTTIME, which is not set",
                   fmt::format("process/limits: \"Max cpu time\" is {}", *limit)};
    return claim;
}

} // namespace

std::optional<Claim> judge_oom(const Evidence &e) {
    const JsonView oom = e.incident.view()["oom"];
    if (e.incident.view()["kind"].text() != "oom" || !oom.is_object())
        return std::nullopt;
    const std::string_view cgroup = oom["cgroup"].text(); // whose limit it is
    const bool by_limit = oom["constraint"].text().find("MEMCG") != std::string_view::npos;
    Claim claim = whose_memory(oom["constraint"].text(), cgroup);
    if (const auto limit = oom["memory_max"].natural(); by_limit && limit && !cgroup.empty())
        claim.add<Sentence::memory_limit>(bytes_text(*limit));
    if (const std::string_view line = oom["kernel_line"].text(); !line.empty())
        claim.facts.push_back(fmt::format("the kernel: {}", line));
    if (const std::string_view killed = oom["killed"].text(); !killed.empty())
        claim.facts.push_back(fmt::format("the kernel: {}", killed));
    if (const JsonView who = oom["allocating"]; who.is_object())
        claim.facts.push_back(fmt::format("it was {} that asked for memory when there was none", name_of(who)));
    const JsonView rss = e.incident.view()["memory"]["rss_bytes"];
    if (const auto total = rss["total"].natural())
        claim.facts.push_back(fmt::format("{}[{}] had {} resident, {} of it anonymous", e.image.comm, e.image.pid,
                                          bytes_text(*total), bytes_text(rss["anon"].count())));
    auto tasks = candidates(e);
    std::ranges::sort(tasks, std::greater{}, &Task::rss_bytes);
    constexpr std::size_t shown = 3;
    std::string largest;
    for (std::size_t i = 0; i < std::min(tasks.size(), shown); ++i)
        largest +=
            fmt::format("{}{}[{}] {}", i ? ", " : "", tasks[i].name, tasks[i].pid, bytes_text(tasks[i].rss_bytes));
    if (!largest.empty())
        claim.facts.push_back(
            fmt::format("largest of the {} processes the kernel chose from: {}", tasks.size(), largest));
    return claim.facts.empty() ? std::nullopt : std::optional(claim);
}

std::optional<Claim> judge_killed(const Evidence &e) {
    const JsonView signal = e.signal(), sender = signal["sender"];
    const std::int64_t code = signal["code"].integer().value_or(1);
    // What the kernel raises by itself has a positive code (sigaction(2)); dumps asked for by a rule are no killing.
    // Only the record of the call that sent it names the sender's thread: a siginfo alone may hold another's pid
    // (rt_sigqueueinfo(2)), or the process's own for what the kernel raised (SIGXFSZ, SIGPIPE).
    if (auto claim = file_limit(e))
        return claim;
    if (auto claim = cpu_limit(e))
        return claim;
    if (e.image.signal == 0 || !signal["fatal"].flag() || code > 0 || !sender.is_object() || e.sender() == 0 ||
        sender["tid"].count() == 0 || e.incident.view()["kind"].text() == "oom" ||
        e.incident.view()["dump"]["sent"].flag())
        return std::nullopt;
    const std::string name(signal["name"].text());
    if (e.sender() != e.image.pid) {
        auto claim = Claim::of<Sentence::killed_by>(name_of(sender), name);
        claim.facts.push_back(fmt::format("{} ({}) was sent by pid {} (comm {}, uid {})", name,
                                          signal["code_name"].text(), e.sender(), sender["comm"].text(),
                                          sender["uid"].count()));
        return claim;
    }
    if (e.image.signal == SIGABRT)
        return std::nullopt; // abort(3), which judge_abort knows more of
    auto claim = Claim::of<Sentence::sent_itself>(name);
    claim.facts.push_back(
        fmt::format("{} ({}) was sent by its own thread {}", name, signal["code_name"].text(), sender["tid"].count()));
    return claim;
}

} // namespace incident::postmortem
