#include "postmortem/read/incident.h"

#include "capture/decode/syscalls.h"
#include "postmortem/terminal/times.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace incident::postmortem {

namespace {

constexpr std::uint64_t signal_max = 64;

std::uint32_t id_number(JsonView view) {
    const std::uint64_t number = view.count();
    return number <= INT32_MAX ? static_cast<std::uint32_t>(number) : 0;
}

// "0f1e2d3c-…" as the kernel prints it, or 32 hex digits as the journal does.
std::string boot_id_digits(std::string_view text) {
    std::string digits(text);
    std::erase(digits, '-');
    return digits;
}

Error explained(Error error, const std::string &path) {
    if (error.code == EACCES || error.code == EPERM)
        return {fmt::format("no permission to read {}: run as root", path), error.code};
    return error;
}

} // namespace

Result<Incident> Incident::parse(std::string_view text, const std::string &name, std::string auxv) {
    auto document = parse_json(text);
    if (!document)
        return fail(Error(document.error()).in("corrupt bundle " + name + ": incident.json"));
    if (!document->is_object())
        return fail("corrupt bundle " + name + ": incident.json: not a JSON object");
    Incident incident;
    incident.document_ = std::move(*document);
    incident.auxv_ = std::move(auxv);
    return incident;
}

JsonView trigger_detail(JsonView incident) {
    const std::string_view kind = incident["kind"].text();
    return incident[kind == "txg_sync" ? "txg" : kind];
}

Result<Incident> Incident::read(const capture::Bundle &bundle) {
    const auto text = bundle.read("incident.json", incident_json_max);
    if (!text)
        return fail(Error(text.error()).in("corrupt bundle " + bundle.name()));
    return parse(*text, bundle.name(), bundle.read("process/auxv", auxv_max).value_or(""));
}

std::uint32_t Incident::pid() const {
    return id_number(view()["process"]["pid"]);
}

std::uint32_t Incident::tid() const {
    return id_number(view()["thread"]["tid"]);
}

std::string Incident::comm() const {
    return std::string(view()["process"]["comm"].text());
}

std::string Incident::exe() const {
    return std::string(view()["process"]["exe"].text());
}

int Incident::signal() const {
    if (const JsonView dump = view()["dump"]; dump["sent"].flag()) {
        const std::uint64_t number = dump["signal"].is_text() ? 0 : dump["signal"].count();
        return number && number <= signal_max ? static_cast<int>(number)
                                              : capture::signal_number(dump["signal"].text());
    }
    if (!view()["signal"]["fatal"].flag(true)) // only seen, the process went on
        return 0;
    const std::uint64_t number = view()["signal"]["number"].count();
    return number <= signal_max ? static_cast<int>(number) : 0;
}

std::optional<std::int64_t> Incident::trigger_ns() const {
    return view()["clocks"]["trigger_ns"].integer();
}

std::optional<std::int64_t> Incident::trigger_wall_ns() const {
    return parse_iso_time(view()["time"].text());
}

capture::DeathIdentity Incident::death() const {
    capture::DeathIdentity death;
    death.boot_id = boot_id_digits(view()["boot_id"].text());
    death.process.pid = pid();
    death.process.start.ns = view()["process"]["tgid_start_ns"].count();
    death.exe = exe();
    death.comm = comm();
    death.signal = signal();
    death.auxv = auxv_;
    if (const auto uid = view()["process"]["uid"].natural(); uid && *uid <= UINT32_MAX)
        death.uid = static_cast<std::uint32_t>(*uid);
    death.at.ns = static_cast<std::uint64_t>(trigger_ns().value_or(0));
    death.time.ns = static_cast<std::uint64_t>(trigger_wall_ns().value_or(0));
    const JsonView clocks = view()["clocks"];
    const std::uint64_t realtime = clocks["realtime_ns"].count(), boottime = clocks["boottime_ns"].count();
    if (death.process.start.ns != 0 && realtime > boottime)
        death.started = capture::WallTime{realtime} + (death.process.start.ns - boottime);
    return death;
}

capture::CoreLink Incident::stored_core() const {
    const JsonView core = view()["core"];
    capture::CoreLink link;
    const std::string_view join = core["join"].text();
    if (join == "exact")
        link.join = capture::Join::Exact;
    else if (join == "window")
        link.join = capture::Join::Window;
    link.reason = core["reason"].text();
    link.file = core["file"].text();
    link.journal_cursor = core["journal_cursor"].text();
    link.truncated = core["truncated"].flag();
    link.pending = core["pending"].flag();
    return link;
}

Result<capture::IncidentsDir> open_incidents(const Session &session) {
    auto dir = capture::IncidentsDir::open(session.state, false);
    if (dir)
        return dir;
    const std::string path = session.state + "/incidents";
    struct stat status {};
    if (stat(session.state.c_str(), &status) != 0 && errno == ENOENT)
        return fail(Error{
            fmt::format("no state directory {}: has incidentd ever run? (--state DIR names another)", session.state),
            ENOENT});
    if (dir.error().code == ENOENT)
        return fail(Error{fmt::format("no incidents yet: {} does not exist", path), ENOENT});
    return fail(explained(dir.error(), path));
}

// A bundle by its directory, wherever that is: somebody's copy of it.
static Result<OpenedBundle> open_bundle_at(std::string path) {
    while (path.size() > 1 && path.ends_with('/'))
        path.pop_back();
    const std::size_t slash = path.rfind('/');
    const std::string name = path.substr(slash + 1);
    const auto dir = capture::IncidentsDir::at(slash == 0 ? "/" : path.substr(0, slash));
    auto bundle = dir ? dir->bundle(name) : fail(dir.error());
    if (!bundle)
        return fail(explained(bundle.error(), path));
    return OpenedBundle{std::move(*bundle), path};
}

Result<OpenedBundle> open_bundle(const Session &session, const std::string &id) {
    if (id.find('/') != std::string::npos)
        return open_bundle_at(id);
    const auto dir = open_incidents(session);
    if (!dir)
        return fail(dir.error());
    const auto name = dir->resolve(id);
    if (!name) {
        const auto names = dir->names();
        if (names && names->empty())
            return fail("no incidents yet in " + dir->path());
        return fail(fmt::format("{} (see 'incidentctl list')", explained(name.error(), dir->path()).what));
    }
    auto bundle = dir->bundle(*name);
    const std::string path = dir->path() + "/" + *name;
    if (!bundle)
        return fail(explained(bundle.error(), path));
    return OpenedBundle{std::move(*bundle), path};
}

Result<Json> read_json(const capture::Bundle &bundle, const std::string &file, std::uint64_t cap) {
    const std::string context = "corrupt bundle " + bundle.name();
    const auto text = bundle.read(file, cap);
    if (!text)
        return fail(Error(text.error()).in(context));
    auto document = parse_json(*text);
    if (!document)
        return fail(Error(document.error()).in(context + ": " + file));
    return document;
}

} // namespace incident::postmortem
