#include "capture/render/bundle_analysis.h"

#include "capture/bundle/json_member.h"
#include "capture/render/render.h"
#include "capture/render/render_parts.h"

#include <algorithm>
#include <map>

namespace incident::capture {

namespace {

constexpr int format_version = 1;
constexpr std::size_t files_max = 32;

// The tool is ours, but what it reads is not: it may add nothing but its own files.
bool is_own_file(std::string_view path) {
    return path == "mini.core" || path == "heap/frames.json" || path == "heap/growth.folded" ||
           (path.starts_with("gdb/") && path.find('/', 4) == std::string_view::npos);
}

// Frames and how they were found; what the stack's bytes are stays as it was.
void take_stack(Json &thread, const Json &unwound) {
    Json &stack = thread["stack"];
    if (!stack.is_object() || !member(unwound, "frames").is_array())
        return;
    // Nothing to unwind by, not even a mapping: what was said when it was captured is the better.
    const Json &how = member(unwound, "how"), &frames = member(unwound, "frames");
    const bool nowhere =
        frames.empty() || (frames.size() == 1 && frames[0].is_object() && member(frames[0], "module").is_null());
    if (how == "none" || (how == "instruction pointer only" && nowhere))
        return;
    for (const char *key : {"how", "truncated", "reason", "frames"})
        stack[key] = member(unwound, key);
}

// Only whoever unwinds a stack knows whether it goes on beyond what was captured of it.  Of the thread that the
// incident is about that is a loss: its outermost callers are not known.
void add_stack_cut(Json &incident, const Json &thread) {
    const Json &stack = member(thread, "stack"), &bytes = member(stack, "bytes"), &wanted = member(stack, "wanted");
    const Json &tid = member(member(incident, "thread"), "tid");
    if (!incident["quality"].is_object() || !tid.is_number_unsigned() || member(thread, "tid") != tid ||
        member(stack, "truncated") != true || !bytes.is_number_unsigned() || !wanted.is_number_unsigned() ||
        bytes < wanted || wanted == 0)
        return;
    Json &quality = incident["quality"], &because = quality["incomplete_because"];
    const std::string reason = "its stack goes on beyond the captured " +
                               std::to_string(wanted.get<std::uint64_t>() / 1024) + " KiB (context.stack)";
    if (because.is_null())
        because = Json::array();
    if (!because.is_array() || std::find(because.begin(), because.end(), reason) != because.end())
        return; // it was said the last time
    because.push_back(reason);
    quality["complete"] = false;
}

} // namespace

std::string analysis_stream(const Json &analysis, const BundleFiles &files) {
    Json listed = Json::array();
    for (const auto &[path, bytes] : files)
        listed.push_back({{"path", path}, {"bytes", bytes.size()}});
    const Json head = {{"format", format_version}, {"analysis", analysis}, {"files", listed}};
    std::string stream = head.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
    for (const auto &[path, bytes] : files)
        stream += bytes;
    return stream;
}

Result<BundleAnalysis> parse_analysis_stream(std::string stream) {
    const std::size_t end = stream.find('\n');
    if (end == std::string::npos)
        return fail(stream.empty() ? "it answered nothing" : "its answer is cut");
    const Json head = Json::parse(stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (!head.is_object() || member(head, "format") != format_version || !member(head, "analysis").is_object() ||
        !member(head, "files").is_array() || member(head, "files").size() > files_max)
        return fail("its answer is not of the format expected");
    BundleAnalysis analysis{member(head, "analysis"), {}};
    std::size_t at = end + 1;
    for (const Json &file : member(head, "files")) {
        if (!file.is_object() || !member(file, "path").is_string() || !member(file, "bytes").is_number_unsigned())
            return fail("its answer is not of the format expected");
        const auto path = member(file, "path").get<std::string>();
        const auto bytes = member(file, "bytes").get<std::uint64_t>();
        if (!is_own_file(path))
            return fail("its answer has a file that is not for it to write");
        if (bytes > stream.size() - at)
            return fail("its answer is cut");
        analysis.files.emplace_back(path, stream.substr(at, bytes));
        at += bytes;
    }
    return analysis;
}

Result<BundleFiles> merge_analysis(const std::string &incident_json, const std::string &threads_json,
                                   const std::string &timeline, BundleAnalysis analysis) {
    Json incident = Json::parse(incident_json, nullptr, false), threads = Json::parse(threads_json, nullptr, false);
    if (!incident.is_object())
        return fail("incident.json: not a JSON object");
    if (!threads.is_array())
        return fail("threads.json: not a list of threads");
    std::map<std::uint64_t, const Json *> stacks;
    const Json unwound = member(analysis.document, "threads");
    for (const Json &stack : unwound)
        if (stack.is_object() && member(stack, "tid").is_number_unsigned())
            stacks.emplace(member(stack, "tid").get<std::uint64_t>(), &stack);
    for (Json &thread : threads) {
        if (!thread.is_object() || !member(thread, "tid").is_number_unsigned())
            continue;
        if (const auto found = stacks.find(member(thread, "tid").get<std::uint64_t>()); found != stacks.end())
            take_stack(thread, *found->second);
        add_stack_cut(incident, thread);
    }
    incident["verdict"] = member(analysis.document, "verdict");
    if (std::ranges::any_of(analysis.files, [](const auto &file) { return file.first == "mini.core"; }))
        incident["mini_core"] = true;
    if (const Json &heap = member(analysis.document, "heap"); heap.is_object() && member(incident, "heap").is_object())
        incident["heap"].update(heap);
    incident["analysed"] = true;
    analysis.document.erase("threads"); // in threads.json now
    analysis.document.erase("verdict");
    analysis.document.erase("heap");

    BundleFiles files;
    files.emplace_back("summary.txt", render_summary(incident, threads, timeline));
    files.emplace_back("threads.json", json_lines(threads));
    files.emplace_back("incident.json", json_text(incident));
    files.emplace_back("analysis.json", json_text(analysis.document));
    std::ranges::move(analysis.files, std::back_inserter(files));
    return files;
}

} // namespace incident::capture
