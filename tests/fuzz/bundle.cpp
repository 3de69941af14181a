// A bundle that somebody else made: every file of it is read and shown.
#include "capture/bundle/bundle.h"
#include "capture/render/bundle_analysis.h"
#include "capture/render/render.h"
#include "postmortem/core/core_returns.h"
#include "postmortem/heap/records.h"
#include "postmortem/heap/view.h"
#include "postmortem/image/mini_core.h"
#include "postmortem/read/json_skim.h"
#include "postmortem/show/incident_text.h"
#include "postmortem/show/recorded_firing.h"
#include "postmortem/show/threads_view.h"
#include "postmortem/show/timeline_line.h"
#include "postmortem/show/verdict_view.h"
#include "postmortem/unwind/analysis.h"
#include "tests/fuzz/target.h"

#include <simdjson.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

namespace incident::fuzz {
namespace {

using namespace postmortem;
namespace fs = std::filesystem;

const char *const name = "20261121T150405.123Z-crash-app-100-9f3c2a";

// A state directory with one bundle, whose files change.
class State {
public:
    State() {
        path_ = fs::exists("/dev/shm") ? "/dev/shm/incidentd-fuzz-XXXXXX" : "/tmp/incidentd-fuzz-XXXXXX";
        must(::mkdtemp(path_.data()) != nullptr, "there is a directory for the bundle");
        for (const char *directory : {"process", "host", "heap"})
            fs::create_directories(bundle() / directory);
    }
    ~State() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    const std::string &path() const { return path_; }

    void put(const std::map<std::string_view, std::string_view> &files) {
        for (const std::string &file : written_)
            fs::remove(bundle() / file);
        written_.clear();
        for (const auto &[file, bytes] : files) {
            std::ofstream(bundle() / file, std::ios::binary) << bytes;
            written_.emplace_back(file);
        }
    }

private:
    fs::path bundle() const { return fs::path(path_) / "incidents" / name; }
    std::string path_;
    std::vector<std::string> written_;
};

// Parts that begin with the name of a file, on a line of its own.
std::map<std::string_view, std::string_view> files_of(std::string_view input) {
    static constexpr std::string_view known[] = {"incident.json",    "threads.json", "timeline.jsonl",  "memory.json",
                                                 "memory.bin",       "modules.json", "process/maps",    "process/auxv",
                                                 "process/perf_map", "heap.json",    "heap/stacks.bin", "heap/live.bin",
                                                 "heap/history.bin", "summary.txt",  "MANIFEST",        "analysis"};
    std::map<std::string_view, std::string_view> files;
    for (const std::string_view part : parts_of(input)) {
        const std::string_view file = part.substr(0, part.find('\n'));
        if (std::ranges::find(known, file) != std::end(known))
            files[file] = part.substr(std::min(part.size(), file.size() + 1));
    }
    return files;
}

void harmless(const std::vector<std::string> &lines) {
    for (const std::string &line : lines) {
        must_be_harmless(line, "a line that is shown can be printed");
        must(line.find('\n') == std::string::npos, "a line is one line");
    }
}

void show_threads(const capture::Bundle &bundle, const Incident &incident) {
    const auto threads = read_json(bundle, "threads.json", threads_json_max);
    if (!threads)
        return;
    (void)replaced_returns(*threads);
    JsonView(*threads).each([&](JsonView thread) {
        harmless({thread_title(thread), thread_call(thread), std::string(thread_role(incident.view(), thread))});
        harmless(stack_lines(thread, 64));
        harmless(kernel_stack_lines(thread));
        harmless(register_lines(thread));
        (void)to_json(from_json<ThreadStack>(thread["stack"]));
    });
}

void show_timeline(const capture::Bundle &bundle, const Incident &incident) {
    StringOutput out;
    const TimelineStyle style{.trigger_ns = incident.trigger_ns().value_or(0), .comms = {}};
    TimelineQuery query;
    query.earliest_ns = 1;
    query.errors = true;
    simdjson::dom::parser parser;
    (void)bundle.lines("timeline.jsonl", [&](std::string_view line) {
        simdjson::dom::element event;
        if (line.empty() || parser.parse(line.data(), line.size()).get(event) || !event.is_object())
            return true;
        (void)query.wants(event);
        harmless({timeline_line(event, style, out)});
        return true;
    });
}

void show_heap(const capture::Bundle &bundle, const Incident &incident) {
    harmless(heap_account_lines(incident.view()["heap"]));
    harmless(heap_growth_lines(incident.view()["heap"]));
    harmless(heap_pointer_lines(incident.view()["heap"]));
    harmless(heap_register_lines(incident.view()["heap"]));
    if (const auto heap = read_heap(bundle)) {
        (void)heap->unrecorded();
        for (const auto &allocation : heap->known.allocations)
            (void)heap->stack(allocation.stack);
    }
}

void make_core(const capture::Bundle &bundle, const Incident &incident) {
    const auto image = read_crash_image(bundle, incident);
    if (!image)
        return;
    std::vector<ModuleFile> files(image->modules.size());
    for (ModuleFile &file : files)
        file.problem = "missing";
    if (const auto core = make_mini_core(*image, files))
        must(core->bytes.starts_with("\x7f"
                                     "ELF"),
             "a mini.core is an ELF file");
}

// What the analyser of another version, or one that was taken over, could answer.
void merge(const capture::Bundle &bundle, std::string_view stream) {
    auto analysis = capture::parse_analysis_stream(std::string(stream));
    if (!analysis)
        return;
    const auto text = [&](const char *file) { return bundle.read(file).value_or(""); };
    (void)from_json<Instruction>(JsonView(Json(analysis->document)));
    if (const auto merged = capture::merge_analysis(text("incident.json"), text("threads.json"), text("timeline.jsonl"),
                                                    std::move(*analysis)))
        for (const auto &[file, bytes] : *merged)
            must(!file.ends_with(".json") || Json::accept(bytes), "what is written as JSON is JSON");
}

} // namespace

FUZZ_TARGET(bundle) {
    static State state;
    const auto files = files_of(input);
    state.put(files);
    const auto incidents = capture::IncidentsDir::open(state.path(), false);
    must(incidents.has_value(), "incidents/ can be read");
    const auto bundle = incidents->bundle(name);
    must(bundle.has_value(), "a bundle can be opened whatever is in it");
    if (const auto problems = bundle->verify())
        for (const std::string &problem : *problems)
            must(!problem.empty(), "a problem is named");
    if (const auto text = bundle->read("incident.json")) {
        std::vector<std::string> values;
        static constexpr std::string_view paths[] = {"rule", "process.exe", "core.join", "summary"};
        if (skim_json(*text, paths, values))
            must(values.size() == std::size(paths), "each value that is asked for is answered");
    }
    const auto incident = Incident::read(*bundle);
    if (!incident)
        return;
    must_be_harmless(dump_json(incident->document()), "a document that is printed is harmless");
    StringOutput out;
    print_incident({.incident = *incident, .bundle = *bundle, .path = state.path(), .core = {}}, out);
    must_be_harmless(out.text(), "the incident on one screen is harmless");
    (void)incident->death();
    (void)incident->stored_core();
    harmless(verdict_lines(incident->view()["verdict"]));
    show_threads(*bundle, *incident);
    show_timeline(*bundle, *incident);
    show_heap(*bundle, *incident);
    make_core(*bundle, *incident);
    TracepointFormats formats;
    add_format(*incident, formats);
    (void)recorded_firing(*incident, {});
    if (const auto stream = files.find("analysis"); stream != files.end())
        merge(*bundle, stream->second);
}

} // namespace incident::fuzz
