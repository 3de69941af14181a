#include "daemon/write/incident_entry.h"

#include "rules/text/escape.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

#include <optional>

namespace incident::daemon {

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t incident_max = 8u << 20;
constexpr int priority_critical = 2, priority_warning = 4; // as systemd-coredump's; syslog(3)

const Json &at(const Json &object, std::initializer_list<const char *> path) {
    static const Json none;
    const Json *value = &object;
    for (const char *key : path) {
        if (!value->is_object())
            return none;
        const auto it = value->find(key);
        if (it == value->end())
            return none;
        value = &*it;
    }
    return *value;
}

std::string text(const Json &value) {
    return value.is_string() ? value.get<std::string>() : value.is_number_integer() ? value.dump() : std::string();
}

class Fields {
public:
    void add(std::string_view name, const std::string &value) {
        if (!value.empty())
            fields_.push_back(fmt::format("{}={}", name, value));
    }
    std::vector<std::string> take() { return std::move(fields_); }

private:
    std::vector<std::string> fields_;
};

// What the clock showed at the trigger, in ns; nullopt: the clocks are not known.
std::optional<std::int64_t> shown_at_trigger(const Json &clocks) {
    const Json &trigger = at(clocks, {"trigger_ns"}), &monotonic = at(clocks, {"monotonic_ns"}),
               &realtime = at(clocks, {"realtime_ns"}), &changes = at(clocks, {"changes"});
    if (!trigger.is_number_integer() || !monotonic.is_number_integer() || !realtime.is_number_integer())
        return std::nullopt;
    const auto instant = trigger.get<std::int64_t>();
    std::int64_t shown = instant + realtime.get<std::int64_t>() - monotonic.get<std::int64_t>();
    for (const Json &change : changes) { // which the machine slept through, or the clock was set by, after it
        const Json &when = at(change, {"t_ns"});
        if (!when.is_number_integer() || when.get<std::int64_t>() <= instant)
            continue;
        for (const char *by : {"slept_ns", "set_by_ns"})
            if (const Json &ns = at(change, {by}); ns.is_number_integer())
                shown -= ns.get<std::int64_t>();
    }
    return shown;
}

// The core of a process that died, in systemd-coredump's own words (coredump.c, submit_coredump()).
void add_coredump_fields(Fields &fields, const Json &incident) {
    const Json &process = at(incident, {"process"}), &signal = at(incident, {"signal"}), &core = at(incident, {"core"});
    fields.add("COREDUMP_PID", text(at(process, {"pid"})));
    fields.add("COREDUMP_UID", text(at(process, {"uid"})));
    fields.add("COREDUMP_GID", text(at(process, {"gid"})));
    fields.add("COREDUMP_SIGNAL", text(at(signal, {"number"})));
    fields.add("COREDUMP_SIGNAL_NAME", text(at(signal, {"name"})));
    if (const auto shown = shown_at_trigger(at(incident, {"clocks"})))
        fields.add("COREDUMP_TIMESTAMP", std::to_string(*shown / 1000));
    fields.add("COREDUMP_COMM", text(at(process, {"comm"})));
    fields.add("COREDUMP_EXE", text(at(process, {"exe"})));
    fields.add("COREDUMP_CMDLINE", text(at(process, {"cmdline"})));
    fields.add("COREDUMP_CGROUP", text(at(process, {"cgroup"})));
    fields.add("COREDUMP_UNIT", text(at(process, {"unit"})));
    if (text(at(core, {"join"})) != "exact")
        return;
    // coredumpctl info PID shows this entry beside the core's, and opens the same core by either.
    fields.add("COREDUMP_FILENAME", text(at(core, {"file"})));
    fields.add("MESSAGE_ID", backtrace_message_id);
}

} // namespace

EntryFields incident_fields(const Json &incident, const std::string &path) {
    Fields fields;
    // What people read is escaped, for journalctl -x prints the catalogue's fields as they are; the others
    // (comm, command line) are the process's own words.
    const std::string id = text(at(incident, {"id"})), kind = text(at(incident, {"kind"})),
                      verdict = rules::terminal_safe(text(at(incident, {"verdict", "sentence"}))),
                      summary = rules::terminal_safe(text(at(incident, {"summary"})));
    const bool died = at(incident, {"signal", "fatal"}) == true || kind == "oom";
    fields.add("MESSAGE_ID", incident_message_id);
    fields.add("MESSAGE", fmt::format("{}{}\nincidentctl info {}", summary, verdict.empty() ? "" : "\n" + verdict, id));
    fields.add("PRIORITY", std::to_string(died ? priority_critical : priority_warning));
    fields.add("SYSLOG_IDENTIFIER", "incidentd");
    fields.add("INCIDENT_ID", id);
    fields.add("INCIDENT_BUNDLE", path);
    fields.add("INCIDENT_RULE", text(at(incident, {"rule"})));
    fields.add("INCIDENT_KIND", kind);
    fields.add("INCIDENT_SUMMARY", summary);
    fields.add("INCIDENT_VERDICT", verdict);
    fields.add("INCIDENT_SIGNATURE", text(at(incident, {"signature"})));
    fields.add("INCIDENT_CORE", text(at(incident, {"core", "join"})));
    fields.add("INCIDENT_PID", text(at(incident, {"process", "pid"})));
    fields.add("INCIDENT_COMM", text(at(incident, {"process", "comm"})));
    fields.add("INCIDENT_EXE", text(at(incident, {"process", "exe"})));
    fields.add("OBJECT_SYSTEMD_UNIT", text(at(incident, {"process", "unit"})));
    if (died)
        add_coredump_fields(fields, incident);
    return fields.take();
}

Result<EntryFields> incident_entry(const capture::Bundle &bundle, const std::string &path) {
    const auto bytes = bundle.read("incident.json", incident_max);
    if (!bytes)
        return fail(bytes.error());
    const Json incident = Json::parse(*bytes, nullptr, false);
    if (!incident.is_object())
        return fail("incident.json: not a JSON object");
    return incident_fields(incident, path);
}

Status send_incident_entry(const EntryFields &fields) {
    std::vector<iovec> parts;
    parts.reserve(fields.size());
    for (const std::string &field : fields)
        parts.push_back({const_cast<char *>(field.data()), field.size()});
    const int sent = sd_journal_sendv(parts.data(), static_cast<int>(parts.size()));
    if (sent < 0 && sent != -ENOENT && sent != -ECONNREFUSED) // nobody keeps a journal here
        return fail(Error::system("journal", -sent));
    return {};
}

} // namespace incident::daemon
