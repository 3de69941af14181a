#include "rules/engine/condition_match.h"

#include "rules/model/match.h"
#include "rules/text/escape.h"
#include "rules/text/glob.h"
#include "rules/text/signals.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::rules {
namespace {

std::string names(const std::bitset<65> &signals) {
    std::string out;
    for (int number = 1; number <= last_signal; ++number)
        if (signals.test(static_cast<std::size_t>(number)))
            out += (out.empty() ? "" : ", ") + signal_name(number);
    return "[" + out + "]";
}

// A signal the kernel makes has no sender; it counts as the process's own, for
// it is mostly the process's own fault.
std::string mismatch(const SenderFilter &sender, const SignalEvent &event, std::uint32_t pid) {
    const bool self = event.from_kernel || event.sender_pid == pid;
    if (sender.self && *sender.self != self)
        return self ? fmt::format("sender.self: the signal comes from {}",
                                  event.from_kernel ? "the kernel" : "the process itself")
                    : fmt::format("sender.self: the signal comes from process {} ({})", event.sender_pid,
                                  quote(event.sender_comm));
    if (sender.comm.empty() && sender.uid.empty())
        return {};
    if (event.from_kernel)
        return fmt::format("sender.{}: the signal comes from the kernel", sender.comm.empty() ? "uid" : "comm");
    if (!sender.comm.empty() && !any_glob_matches(sender.comm, event.sender_comm))
        return fmt::format("sender.comm: {} is none of {}", quote(event.sender_comm), shown_list(sender.comm));
    if (!sender.uid.empty() && std::find(sender.uid.begin(), sender.uid.end(), event.sender_uid) == sender.uid.end())
        return fmt::format("sender.uid: {} is none of {}", event.sender_uid, shown_list(sender.uid));
    return {};
}

} // namespace

std::string mismatch(const SignalCondition &condition, const SignalEvent &event, std::uint32_t pid) {
    if (event.number < 1 || event.number > last_signal)
        return fmt::format("signals: {} is no signal number", event.number);
    if (!condition.signals.test(static_cast<std::size_t>(event.number)))
        return fmt::format("signals: {} is none of {}", signal_name(event.number), names(condition.signals));
    if (condition.fatal && !event.fatal)
        return fmt::format("fatal: this {} does not end the process", signal_name(event.number));
    return mismatch(condition.sender, event, pid);
}

} // namespace incident::rules
