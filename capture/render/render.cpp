#include "capture/render/render.h"

#include "capture/decode/decode_text.h"
#include "capture/render/render_parts.h"
#include "capture/render/render_tallies.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace incident::capture {

namespace {

const char *join_name(Join join) {
    return join == Join::Exact ? "exact" : join == Join::Window ? "window" : "none";
}

// The auxiliary vector as the kernel side copied it, for a process whose /proc was gone; "" if it is not whole.
std::string kernel_auxv(const bpf::death_event &event) {
    for (std::size_t i = 2; i < std::size(event.auxv); i += 2)
        if (event.auxv[i] == 0 && event.auxv[0] != 0) // AT_NULL ends it
            return {reinterpret_cast<const char *>(event.auxv), sizeof event.auxv};
    return "";
}

} // namespace

std::string auxiliary_vector(const Collected &collected, const bpf::death_event &event) {
    const std::string *collected_one = collected.file("process/auxv");
    return collected_one ? *collected_one : kernel_auxv(event);
}

std::string json_text(const Json &json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string json_lines(const Json &array) {
    std::string text = "[";
    for (const Json &element : array) {
        text += text.size() == 1 ? "\n" : ",\n";
        text += element.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    return text + "\n]\n";
}

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
    const Redactor redactor(context.redact);
    std::string timeline = timeline_of(context, redactor);
    const Json threads = threads_of(context, redactor);
    MemoryImage memory = memory_of(context, redactor);

    files.emplace_back("timeline.jsonl", std::move(timeline));
    if (std::string facts = facts_of(context, redactor); !facts.empty())
        files.emplace_back("facts.jsonl", std::move(facts));
    files.emplace_back("threads.json", json_lines(threads));
    files.emplace_back("memory.json", std::move(memory.index));
    files.emplace_back("memory.bin", std::move(memory.bytes));
    files.emplace_back("modules.json", json_lines(modules_of(context, redactor)));
    for (const auto &[path, bytes] : context.collected.files)
        if (path != narrow_vdso_file) // which is in memory.bin
            files.emplace_back(path, redactor.file(path, bytes));
    if (!context.collected.file("process/auxv"))
        if (std::string auxv = auxiliary_vector(context.collected, context.input.process.event); !auxv.empty())
            files.emplace_back("process/auxv", std::move(auxv));
    if (!context.collected.file("process/limits"))
        if (std::string limits = limits_text(context.input.process.event); !limits.empty())
            files.emplace_back("process/limits", std::move(limits));
    if (context.input.process.heap)
        for (auto &file : render_heap(*context.input.process.heap, context.input.light, redactor))
            files.push_back(std::move(file));
    const Json incident = incident_of(context, redactor);
    files.emplace_back("summary.txt", render_summary(incident, threads, files.front().second));
    files.emplace_back("incident.json", json_text(incident));
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
    files.emplace_back("incident.json", json_text(incident));
    return files;
}

} // namespace incident::capture
