// Whose an entry is, by what journald attests of its sender, and what it says.
#include "capture/collect/collect.h"
#include "capture/container/container.h"
#include "capture/journal/word_fields.h"

#include <algorithm>

namespace incident::capture {

namespace {

// A process's first line may have a time just before its start: the two are taken from different clocks.
constexpr std::uint64_t start_slack_ns = 10'000'000;

// "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service" is her manager's, and the manager itself is the
// system's.  Below a unit of its own anybody may make groups of such names.
std::optional<std::uint32_t> user_of_unit(const std::string &cgroup, const std::string &unit) {
    constexpr std::string_view head = "user@", tail = ".service";
    if (unit.empty() || unit_of_cgroup(cgroup) != unit)
        return std::nullopt;
    std::string_view name, rest = cgroup;
    do {
        rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
        name = rest.substr(0, rest.find('/'));
        rest.remove_prefix(name.size());
    } while (name.ends_with(".slice"));
    if (name == unit || !name.starts_with(head) || !name.ends_with(tail) || name.size() < head.size() + tail.size())
        return std::nullopt;
    name.remove_prefix(head.size());
    name.remove_suffix(tail.size());
    return whole_number<std::uint32_t>(name);
}

// Whether journald attests another unit or control group than the speaker's.  It knows neither of a sender that had
// ended before it looked.
bool is_of_another(const JournalField &field, const Speaker &speaker) {
    const char *const unit = speaker.user ? "_SYSTEMD_USER_UNIT" : "_SYSTEMD_UNIT";
    if (!speaker.unit.empty() && field(unit, 1))
        return !field_is(field, unit, speaker.unit);
    return speaker.has_cgroup() && field("_SYSTEMD_CGROUP", 1) && !field_is(field, "_SYSTEMD_CGROUP", speaker.cgroup);
}

} // namespace

const char *name_of(WordSource source) {
    constexpr const char *names[] = {"unit", "process", "manager", "journald", "container"};
    return names[static_cast<std::size_t>(source)];
}

Speaker speaker_of(const std::string &boot_id, const Clocks &clocks, const ProcessRef &process, const std::string &unit,
                   const std::string &cgroup) {
    Speaker speaker{.boot_id = boot_id, .unit = unit, .cgroup = cgroup, .pid = 0, .started = {}};
    speaker.user = user_of_unit(cgroup, unit);
    if (const auto container = container_at(cgroup); container && container->id.size() == 64) { // not a name
        speaker.container = container->id;
        speaker.container_uid = container->uid.value_or(0);
    }
    if (!process.start.ns) // else nothing tells its lines from those of an earlier process of that number
        return speaker;
    std::uint64_t age = clocks.boottime.ns - std::min(clocks.boottime.ns, process.start.ns);
    for (const ClockChange &change : clocks.changes) // in which one of the two clocks stood still
        if (process.start < change.at_boot)
            age -= std::min(age, change.slept_ns);
    speaker.pid = process.pid;
    speaker.started = {clocks.monotonic.ns - std::min(clocks.monotonic.ns, age + start_slack_ns)};
    return speaker;
}

std::optional<WordSource> source_of(const JournalField &field, MonotonicTime at, const Speaker &speaker) {
    if (!field_is(field, "_BOOT_ID", speaker.boot_id))
        return std::nullopt;
    if (speaker.pid && at >= speaker.started && number_in<std::uint32_t>(field, "_PID") == speaker.pid &&
        (at <= speaker.lived || !is_of_another(field, speaker)))
        return WordSource::Process;
    if (!speaker.container.empty() && field_is(field, "_UID", std::to_string(speaker.container_uid)) &&
        field_is(field, "CONTAINER_ID_FULL", speaker.container))
        return WordSource::Container;
    if (speaker.unit.empty()) {
        if (speaker.has_cgroup() && field_is(field, "_SYSTEMD_CGROUP", speaker.cgroup))
            return WordSource::Unit;
        return std::nullopt;
    }
    if (speaker.user) {
        if (!field_is(field, "_UID", std::to_string(*speaker.user)))
            return std::nullopt;
        if (field_is(field, "_SYSTEMD_USER_UNIT", speaker.unit))
            return WordSource::Unit;
        if (field_is(field, "_SYSTEMD_UNIT", manager_unit(*speaker.user)) &&
            field_is(field, "_SYSTEMD_USER_UNIT", "init.scope") && field_is(field, "USER_UNIT", speaker.unit))
            return WordSource::Manager;
        return std::nullopt;
    }
    if (field_is(field, "_SYSTEMD_UNIT", speaker.unit))
        return WordSource::Unit;
    if (field_is(field, "_PID", "1") && field_is(field, "_UID", "0") && field_is(field, "UNIT", speaker.unit))
        return WordSource::Manager;
    if (field_is(field, "_TRANSPORT", "driver") && field_is(field, "OBJECT_SYSTEMD_UNIT", speaker.unit))
        return WordSource::Journald;
    return std::nullopt;
}

std::optional<Word> word_of(const JournalField &field, MonotonicTime received, WallTime shown, const Speaker &speaker,
                            std::size_t line_bytes) {
    const std::uint64_t lag = std::min(lag_of(field, shown), received.ns);
    const auto source = source_of(field, received - lag, speaker);
    if (!source)
        return std::nullopt;
    Word word;
    word.source = *source;
    word.at = received - lag;
    word.shown = shown - lag;
    word.pid = number_in<std::uint32_t>(field, "_PID");
    word.uid = number_in<std::uint32_t>(field, "_UID");
    word.priority = number_in<int>(field, "PRIORITY");
    if (word.priority && (*word.priority < 0 || *word.priority > 7))
        word.priority.reset();
    constexpr std::size_t longest_name = 256;
    word.identifier = field("SYSLOG_IDENTIFIER", longest_name).value_or("");
    if (word.identifier.empty())
        word.identifier = field("_COMM", longest_name).value_or("");
    word.transport = field("_TRANSPORT", longest_name).value_or("");
    word.message = field("MESSAGE", line_bytes + 1).value_or("");
    word.cut = word.message.size() > line_bytes;
    word.message.resize(std::min(word.message.size(), line_bytes));
    if (word.source == WordSource::Container && word.message.ends_with('\n')) // conmon sends the line's end, too
        word.message.pop_back();
    return word;
}

} // namespace incident::capture
