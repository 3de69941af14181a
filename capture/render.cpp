#include "capture/render.h"

#include "capture/decode_text.h"
#include "capture/render_core.h"
#include "capture/render_redact.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace incident::capture {

using Json = nlohmann::ordered_json;

namespace {

std::string dumped(const Json &json, int indent) {
    return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

// An array of objects with an object a line: can be read, and is a third of the indented form.
std::string dumped_lines(const Json &array) {
    std::string text = "[";
    for (const Json &element : array) {
        text += text.size() == 1 ? "\n" : ",\n";
        text += element.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    return text + "\n]\n";
}

const char *join_name(Join join) {
    return join == Join::Exact ? "exact" : join == Join::Window ? "window" : "none";
}

// The auxiliary vector as the kernel side copied it, for a process whose /proc was gone.
std::string kernel_auxv(const bpf::death_event &event) {
    const bool known = std::ranges::any_of(event.auxv, [](std::uint64_t word) { return word != 0; });
    return known ? std::string(reinterpret_cast<const char *>(event.auxv), sizeof event.auxv) : std::string();
}

} // namespace

nlohmann::ordered_json core_json(const CoreLink &core) {
    return {{"join", join_name(core.join)},
            {"reason", valid_utf8(core.reason)},
            {"file", core.file.empty() ? Json() : Json(valid_utf8(core.file))},
            {"file_bytes", core.file_bytes},
            {"journal_cursor", core.journal_cursor.empty() ? Json() : Json(valid_utf8(core.journal_cursor))},
            {"truncated", core.truncated},
            {"pending", core.pending}};
}

std::vector<std::pair<std::string, std::string>> render_all(const RenderContext &context) {
    std::vector<std::pair<std::string, std::string>> files;
    std::string timeline = render_timeline(context);
    const Json threads = render_threads(context), incident = render_incident(context);
    std::string summary = render_summary(incident, threads, timeline);
    MemoryImage memory = render_memory(context);

    files.emplace_back("timeline.jsonl", std::move(timeline));
    files.emplace_back("threads.json", dumped_lines(threads));
    files.emplace_back("memory.json", std::move(memory.index));
    files.emplace_back("memory.bin", std::move(memory.bytes));
    const Redactor redactor(context.redact);
    for (const auto &[path, bytes] : context.collected.files)
        files.emplace_back(path, redactor.file(path, bytes));
    if (!context.collected.file("process/auxv"))
        if (std::string auxv = kernel_auxv(context.input.process.event); !auxv.empty())
            files.emplace_back("process/auxv", std::move(auxv));
    files.emplace_back("summary.txt", std::move(summary));
    files.emplace_back("incident.json", dumped(incident, 2));
    return files;
}

Result<std::vector<std::pair<std::string, std::string>>> rerender_core(const std::string &incident_json,
                                                                       const std::string &threads_json,
                                                                       const std::string &timeline,
                                                                       const CoreLink &core) {
    Json incident = Json::parse(incident_json, nullptr, false);
    if (!incident.is_object())
        return fail("incident.json: not a JSON object");
    const Json threads = Json::parse(threads_json, nullptr, false);
    if (!threads.is_array())
        return fail("threads.json: not a list of threads");
    incident["core"] = core_json(core);
    std::vector<std::pair<std::string, std::string>> files;
    files.emplace_back("summary.txt", render_summary(incident, threads, timeline));
    files.emplace_back("incident.json", dumped(incident, 2));
    return files;
}

} // namespace incident::capture
