// What becomes of a bundle after it was written: its core, its analysis and its past are added, and its journal entry
// is made.
#include "daemon/write/attempts.h"
#include "daemon/write/writer.h"

#include "capture/render/render.h"
#include "daemon/os/clocks.h"

#include <fmt/format.h>

#include <cerrno>

namespace incident::daemon {

WriteResult Writer::amend(AmendJob &job) {
    const std::uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    WriteResult result;
    result.name = job.name;
    result.user = job.user;
    result.news = news_of(job);
    auto *core = std::get_if<capture::CoreLink>(&job.news);
    auto *analysis = std::get_if<capture::BundleAnalysis>(&job.news);
    auto *past = std::get_if<capture::Past>(&job.news);
    if (!core && !analysis && !past)
        return result;
    if (past)
        result.summary =
            fmt::format("{} lines of the journal, {}", past->words.words.size(), name_of(past->words.state));
    else if (core)
        result.summary = core->join == capture::Join::None ? core->reason : core->file;
    else if (const auto verdict = analysis->document.find("verdict"); verdict != analysis->document.end())
        if (const auto sentence = verdict->find("sentence"); sentence != verdict->end() && sentence->is_string())
            result.summary = sentence->get<std::string>();
    auto amended = [&]() -> Status {
        const auto parts = attempt_again(job.name, [&]() -> Result<std::vector<std::string>> {
            const auto bundle = directory_.bundle(job.name);
            if (!bundle)
                return fail(bundle.error());
            std::vector<std::string> texts;
            for (const char *path : {"incident.json", "threads.json", "timeline.jsonl"})
                if (auto text = bundle->read(path))
                    texts.push_back(std::move(*text));
                else
                    return fail(text.error());
            return texts;
        });
        if (!parts)
            return fail(parts.error());
        const std::string &incident = parts->at(0), &threads = parts->at(1), &timeline = parts->at(2);
        auto files = core   ? capture::rerender_core(incident, threads, timeline, *core)
                     : past ? capture::merge_past(incident, threads, timeline, std::move(*past), job.redact)
                            : capture::merge_analysis(incident, threads, timeline, std::move(*analysis));
        if (!files)
            return fail(files.error());
        return with_room(job.name, *files, [&] { return directory_.amend(job.name, *files); });
    }();
    retention_.changed(job.name);
    if (!amended)
        result.error = amended.error().what;
    result.took_ns = clock_ns(CLOCK_MONOTONIC) - begin;
    return result;
}

WriteResult Writer::report(const ReportJob &job) {
    WriteResult result;
    result.name = job.name;
    result.user = job.user;
    result.reported = true;
    retention_.finished(job.name);
    auto entry = attempt_again(job.name, [&]() -> Result<EntryFields> {
        const auto bundle = directory_.bundle(job.name);
        return bundle ? incident_entry(*bundle, directory_.path() + "/" + job.name) : fail(bundle.error());
    });
    if (entry)
        result.entry = std::move(*entry);
    else if (entry.error().code == ENOENT && !directory_.bundle(job.name))
        result.gone = true; // for space
    else
        result.error = entry.error().what;
    return result;
}

} // namespace incident::daemon
