#include "postmortem/verbs/examine.h"

#include "capture/modules/kept_name.h"
#include "postmortem/gdb/gdb_script.h"

#include <sys/mman.h>

#include <cstring>

namespace incident::postmortem {

namespace {

constexpr std::uint64_t timeline_max = 256u << 20;

// Memory that a capped child, which may write no file, hands back what it made in.
class SharedBytes {
public:
    explicit SharedBytes(std::size_t size) : size_(size) {
        void *at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        bytes_ = at == MAP_FAILED ? nullptr : static_cast<char *>(at);
    }
    ~SharedBytes() {
        if (bytes_)
            ::munmap(bytes_, size_);
    }
    SharedBytes(const SharedBytes &) = delete;
    SharedBytes &operator=(const SharedBytes &) = delete;
    char *data() const { return bytes_; }
    std::size_t size() const { return bytes_ ? size_ : 0; }

private:
    std::size_t size_;
    char *bytes_;
};

// Returns make_mini_core()'s notes or error; the bytes go into `into`.
Json mini_core_work(const CrashImage &image, const std::vector<ModuleFile> &files, const SharedBytes &into) {
    const auto made = make_mini_core(image, files);
    if (!made)
        return {{"error", made.error().what}};
    if (made->bytes.size() > into.size())
        return {{"error", "it is too large"}};
    std::memcpy(into.data(), made->bytes.data(), made->bytes.size());
    return {{"bytes", made->bytes.size()}, {"notes", made->notes}};
}

void take_mini_core(JsonView result, const SharedBytes &from, Examination &examination) {
    auto &notes = examination.analysis.notes;
    if (!result.present())
        return notes.push_back("mini.core: not made, the child that was to make it did not come to its end");
    if (result["error"].present())
        return notes.push_back("mini.core: " + std::string(result["error"].text()));
    examination.mini_core.assign(from.data(), std::min<std::uint64_t>(result["bytes"].count(), from.size()));
    result["notes"].each([&](JsonView note) { notes.push_back("mini.core: " + std::string(note.text())); });
}

} // namespace

std::string kept_modules_of(const Session &session) {
    return session.state + "/" + capture::kept_modules_dir;
}

Result<Examination> examine(const capture::Bundle &bundle, const Incident &incident, const ExamineOptions &options) {
    const auto image = read_crash_image(bundle, incident);
    if (!image)
        return fail(image.error());
    const auto files = open_module_files(*image, "", options.kept_modules);
    AnalyseOptions analyse_options;
    analyse_options.debuginfod = options.debuginfod;
    analyse_options.install_hints = options.install_hints;

    Examination examination;
    auto heap = find_heap(bundle, incident, *image);
    const auto call_stacks = heap ? stacks_by_need(*heap) : std::vector<const capture::HeapStackRecord *>();
    if (options.mini_core) {
        const SharedBytes bytes(mini_core_max);
        ChildWork work{[&] { return mini_core_work(*image, files, bytes); }, {}};
        examination.analysis = analyse(*image, files, analyse_options, &work, call_stacks);
        take_mini_core(work.result, bytes, examination);
    } else {
        examination.analysis = analyse(*image, files, analyse_options, nullptr, call_stacks);
    }
    if (heap) {
        add_names(*heap, examination.analysis, *image);
        examination.heap = heap_document(*heap, examination.analysis);
        examination.heap_files = heap_analysis_files(*heap, examination.analysis);
    }
    examination.verdict = judge(incident, *image, examination.analysis, bundle, heap ? &*heap : nullptr);
    return examination;
}

capture::BundleAnalysis bundle_analysis(const Examination &examination) {
    capture::BundleAnalysis made;
    // through text: it becomes a document whose members stay in their order
    made.document = nlohmann::ordered_json::parse(
        to_json(examination.analysis).dump(-1, ' ', false, Json::error_handler_t::replace), nullptr, false);
    made.document["verdict"] = nlohmann::ordered_json::parse(
        to_json(examination.verdict).dump(-1, ' ', false, Json::error_handler_t::replace), nullptr, false);
    if (!examination.heap.is_null())
        made.document["heap"] = nlohmann::ordered_json::parse(
            examination.heap.dump(-1, ' ', false, Json::error_handler_t::replace), nullptr, false);
    made.document["by"] = "incidentctl " INCIDENTD_VERSION;
    if (!examination.mini_core.empty())
        made.files.emplace_back("mini.core", examination.mini_core);
    made.files.insert(made.files.end(), examination.heap_files.begin(), examination.heap_files.end());
    for (const GdbFile &file : gdb_files)
        made.files.emplace_back("gdb/" + std::string(file.name), file.text);
    return made;
}

Result<Explained> read_explained(const Session &session, const capture::Bundle &bundle, bool anew, bool debuginfod) {
    auto incident = Incident::read(bundle);
    if (!incident)
        return fail(incident.error());
    auto threads = read_json(bundle, "threads.json", threads_json_max);
    if (!threads)
        return fail(threads.error());
    if (!anew && incident->view()["analysed"].flag())
        return Explained{std::move(*incident), std::move(*threads)};
    const auto examination = examine(bundle, *incident,
                                     {.mini_core = false,
                                      .debuginfod = debuginfod,
                                      .install_hints = false,
                                      .kept_modules = kept_modules_of(session)});
    if (!examination)
        return fail(examination.error());
    const auto merged = capture::merge_analysis(incident->document().dump(), threads->dump(),
                                                bundle.read("timeline.jsonl", timeline_max).value_or(""),
                                                bundle_analysis(*examination));
    if (!merged)
        return fail(merged.error());
    for (const auto &[path, text] : *merged) {
        if (path == "incident.json") {
            auto again = Incident::parse(text, bundle.name(), bundle.read("process/auxv", auxv_max).value_or(""));
            if (!again)
                return fail(again.error());
            *incident = std::move(*again);
        } else if (path == "threads.json") {
            auto again = parse_json(text);
            if (!again)
                return fail(again.error());
            *threads = std::move(*again);
        }
    }
    return Explained{std::move(*incident), std::move(*threads)};
}

} // namespace incident::postmortem
