// incidentctl list: one line a bundle, oldest first.
#include "capture/os/number.h"
#include "postmortem/read/incident.h"
#include "postmortem/read/json_skim.h"
#include "postmortem/terminal/escape.h"
#include "postmortem/terminal/times.h"
#include "postmortem/verbs/verbs.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <fmt/format.h>
#include <fnmatch.h>
#include <thread>

namespace incident::postmortem {

namespace {

constexpr std::array<std::string_view, 11> wanted{"rule",         "kind",        "time",         "process.pid",
                                                  "process.comm", "process.exe", "process.unit", "signal.name",
                                                  "core.join",    "alike.seen",  "alike.light"};
enum Wanted { rule, kind, time, pid, comm, exe, unit, signal, core, similar, light };

struct Row {
    std::string id;
    std::vector<std::string> values; // in the order of wanted
    std::string corrupt;             // why incident.json could not be read
    std::optional<std::int64_t> time_ns;
    bool pinned = false;

    std::string_view value(Wanted which) const {
        return which < values.size() ? std::string_view(values[which]) : std::string_view();
    }
};

Row read_row(const capture::IncidentsDir &dir, const std::string &name) {
    Row row{.id = name, .time_ns = parse_name_time(name.substr(0, name.find('-')))};
    const auto bundle = dir.bundle(name);
    const auto text = bundle ? bundle->read("incident.json", incident_json_max) : fail(bundle.error());
    if (!text)
        row.corrupt = text.error().what;
    else if (!skim_json(*text, wanted, row.values))
        row.corrupt = "incident.json: not a JSON object";
    if (const auto stated = parse_iso_time(row.value(time)))
        row.time_ns = stated;
    return row;
}

// Reading is mostly waiting for the kernel's path walk: spread over the CPUs.
std::vector<Row> read_rows(const capture::IncidentsDir &dir, const std::vector<std::string> &names) {
    constexpr std::size_t batch = 64;
    std::vector<Row> rows(names.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
        for (std::size_t start; (start = next.fetch_add(batch)) < names.size();)
            for (std::size_t i = start; i < std::min(start + batch, names.size()); ++i)
                rows[i] = read_row(dir, names[i]);
    };
    const std::size_t workers =
        std::min<std::size_t>({std::thread::hardware_concurrency(), 8, names.size() / batch + 1});
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < workers; ++i)
        threads.emplace_back(work);
    work();
    threads.clear();
    return rows;
}

class List : public Verb {
public:
    std::string_view name() const override { return "list"; }
    std::string_view summary() const override { return "List the incidents, oldest first"; }

    void declare(Options &options) override {
        options.text("--rule", "NAME", rule_, "only those of this rule");
        options.text("--comm", "GLOB", comm_, "only those whose process name matches");
        options.value("--since", "TIME", "only later ones: \"2h ago\", \"today\", \"2026-11-21 15:04\"",
                      [this](const std::string &given) { return take_since(given); });
        options.count("-n", "N", newest_, "only the newest N");
        options.flag("--reverse", reverse_, "newest first");
    }

    Result<int> run(Session &session) override {
        const auto dir = open_incidents(session);
        if (!dir)
            return fail(dir.error());
        auto names = dir->names();
        if (!names)
            return fail(names.error());
        const bool none = names->empty();
        const std::size_t most = newest_ ? static_cast<std::size_t>(*newest_) : SIZE_MAX;
        const bool filtered = !rule_.empty() || !comm_.empty() || since_ns_ != INT64_MIN;
        if (!filtered && names->size() > most)
            names->erase(names->begin(), names->end() - static_cast<std::ptrdiff_t>(most));
        const auto pinned = dir->pinned();
        if (!pinned)
            return fail(pinned.error());
        std::vector<Row> rows = read_rows(*dir, *names);
        for (Row &row : rows)
            row.pinned = std::ranges::binary_search(*pinned, row.id);
        if (filtered)
            std::erase_if(rows, [&](const Row &row) { return !matches(row); });
        if (rows.size() > most)
            rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(most));
        if (reverse_)
            std::ranges::reverse(rows);
        if (session.json)
            print_json(rows, session);
        else if (!rows.empty())
            print_table(rows, session.out);
        else if (none)
            session.say("no incidents yet in " + dir->path());
        else if (most > 0)
            session.say("no incident matches");
        return exit_done;
    }

private:
    Status take_since(const std::string &given) {
        const auto instant = parse_time(given, now_realtime_ns());
        if (!instant)
            return fail(instant.error());
        since_ns_ = *instant;
        return {};
    }

    bool matches(const Row &row) const {
        return (rule_.empty() || row.value(rule) == rule_) &&
               (comm_.empty() || fnmatch(comm_.c_str(), std::string(row.value(comm)).c_str(), 0) == 0) &&
               row.time_ns.value_or(INT64_MAX) >= since_ns_;
    }

    static void print_json(const std::vector<Row> &rows, Session &session) {
        for (const Row &row : rows) {
            nlohmann::ordered_json line{{"id", row.id},
                                        {"time", row.value(time)},
                                        {"rule", row.value(rule)},
                                        {"kind", row.value(kind)},
                                        {"signal", row.value(signal)},
                                        {"comm", row.value(comm)},
                                        {"pid", capture::whole_number<std::uint64_t>(row.value(pid)).value_or(0)},
                                        {"exe", row.value(exe)},
                                        {"unit", row.value(unit)},
                                        {"core", row.value(core)},
                                        {"light", row.value(light) == "true"},
                                        {"pinned", row.pinned}};
            if (!row.corrupt.empty())
                line["corrupt"] = row.corrupt;
            session.print(line);
            if (session.out.closed())
                return;
        }
    }

    static void print_table(const std::vector<Row> &rows, Output &out) {
        struct Line {
            std::array<std::string, 7> cells;
            bool corrupt;
        };
        const std::array<std::string_view, 7> titles{"TIME", "RULE", "SIGNAL", "COMM", "PID", "CORE", "UNIT OR EXE"};
        std::array<std::size_t, 7> widths{};
        for (std::size_t i = 0; i < titles.size(); ++i)
            widths[i] = titles[i].size();
        std::vector<Line> lines;
        lines.reserve(rows.size());
        for (const Row &row : rows) {
            const auto what = row.value(signal).empty() ? row.value(kind) : row.value(signal);
            const auto where = row.value(unit).empty() ? row.value(exe) : row.value(unit);
            // "SIGSEGV x12": the twelfth of its signature lately; "light": kept without its files; "pinned": never
            // removed
            const bool many = !row.value(similar).empty() && row.value(similar) != "0" && row.value(similar) != "1";
            const std::string like = (many ? fmt::format(" x{}", row.value(similar)) : "") +
                                     (row.value(light) == "true" ? " light" : "") + (row.pinned ? " pinned" : "");
            Line line{{row.time_ns ? local_time(*row.time_ns) : "?", cell(row.value(rule), 24),
                       cell(what, 12) + printable(like), cell(row.value(comm), 20), cell(row.value(pid), 10),
                       cell(row.value(core), 8), where.empty() ? "-" : printable(where)},
                      !row.corrupt.empty()};
            if (line.corrupt)
                line.cells[6] = "corrupt bundle " + printable(row.id);
            for (std::size_t i = 0; i < line.cells.size(); ++i)
                widths[i] = std::max(widths[i], columns(line.cells[i]));
            lines.push_back(std::move(line));
        }
        out.page();
        out.line(out.tone(Tone::Bold, text_of(titles, widths, out.width())));
        for (const Line &line : lines) {
            out.line(out.tone(line.corrupt ? Tone::Bad : Tone::Plain, text_of(line.cells, widths, out.width())));
            if (out.closed())
                return;
        }
    }

    static std::string cell(std::string_view value, std::size_t width) {
        return value.empty() ? "-" : clipped(printable(value), width);
    }

    static std::string text_of(const auto &cells, const std::array<std::size_t, 7> &widths, std::size_t most) {
        std::string text;
        for (std::size_t i = 0; i + 1 < cells.size(); ++i)
            text += padded(cells[i], widths[i]) + "  ";
        text += cells.back();
        return most ? clipped(text, most) : text;
    }

    std::string rule_, comm_;
    std::int64_t since_ns_ = INT64_MIN;
    std::optional<std::uint64_t> newest_;
    bool reverse_ = false;
};

} // namespace

std::unique_ptr<Verb> make_list() {
    return std::make_unique<List>();
}

} // namespace incident::postmortem
