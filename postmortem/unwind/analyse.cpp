#include "postmortem/unwind/analyse.h"

#include "capture/collect/collect.h"
#include "postmortem/unwind/capped_child.h"
#include "postmortem/unwind/child_analysis.h"
#include "postmortem/unwind/debug_files.h"
#include "postmortem/unwind/debuginfod_fetch.h"
#include "postmortem/unwind/install_hint.h"
#include "postmortem/unwind/stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace incident::postmortem {

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned descriptors_spare = 128; // of the child, beside what it opens of each module
constexpr unsigned descriptors_of_module = 4;

// Parts of modules that have ended a child.
using Poison = std::set<std::uint32_t>;

class Analyser {
public:
    Analyser(const CrashImage &image, const std::vector<ModuleFile> &files, const AnalyseOptions &options,
             ChildWork *more, CallStackRecords call_stacks)
        : image_(image), files_(files), options_(options), more_(more), records_(call_stacks),
          deadline_(Clock::now() + options.time) {
        findings_.stacks.resize(image.threads.size());
        findings_.modules.resize(image.modules.size() + 1);
        findings_.call_stacks.resize(call_stacks.size());
        fetched_files_.resize(image.modules.size());
        fetched_debug_.resize(image.modules.size());
    }

    Analysis run() {
        find_all();
        for (unsigned round = 0; options_.debuginfod && round < debuginfod_rounds_max && fetch(); ++round) {
            // Start again with the new files; the time spent waiting for them does not count.
            Findings before = std::exchange(findings_, {});
            findings_.stacks.resize(before.stacks.size());
            findings_.modules.resize(before.modules.size());
            findings_.call_stacks.resize(before.call_stacks.size());
            findings_.notes = std::move(before.notes);
            findings_.more = std::move(before.more);
            findings_.more_done = before.more_done;
            find_all();
        }
        if (more_ && findings_.more_done)
            more_->result = std::move(findings_.more);
        return result();
    }

private:
    void find_all();
    bool find_some(std::chrono::milliseconds time);
    bool fetch();
    std::vector<ModuleInput> inputs() const;
    Analysis result();
    std::string name_of(std::uint32_t part) const;

    const CrashImage &image_;
    const std::vector<ModuleFile> &files_;
    const AnalyseOptions &options_;
    ChildWork *more_;
    CallStackRecords records_;
    Clock::time_point deadline_;
    Findings findings_;
    Poison poison_;
    std::string ended_; // why the last child did not come to its end
    std::vector<UniqueFd> fetched_files_, fetched_debug_;
    std::set<std::pair<std::size_t, bool>> asked_; // of debuginfod: module, the file itself
};

std::string Analyser::name_of(std::uint32_t part) const {
    const std::size_t module = part / 2;
    const std::string path = module < image_.modules.size() ? image_.modules[module].path : "[vdso]";
    return part % 2 == static_cast<std::uint32_t>(Part::debug) ? "the debug information of " + path : path;
}

std::vector<ModuleInput> Analyser::inputs() const {
    std::vector<ModuleInput> inputs(image_.modules.size() + 1);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        ModuleInput &input = inputs[i];
        if (i < files_.size()) {
            input.file = files_[i].file.get();
            input.problem = files_[i].problem;
            input.kept = files_[i].kept;
        }
        if (i < fetched_files_.size() && fetched_files_[i]) {
            input.file = fetched_files_[i].get();
            input.fetched = true;
            input.kept = false;
        }
        if (i < fetched_debug_.size())
            input.fetched_debug = fetched_debug_[i].get();
        input.skip_file = poison_.contains(static_cast<std::uint32_t>(i * 2));
        input.skip_debug = poison_.contains(static_cast<std::uint32_t>(i * 2 + 1));
    }
    return inputs;
}

// One child; true: another one may do better.
bool Analyser::find_some(std::chrono::milliseconds time) {
    std::vector<ModuleInput> modules = inputs();
    std::vector<UniqueFd> by_build_id; // opened in the child while it is still allowed to
    ChildCaps caps;
    caps.time = time;
    caps.memory_bytes = options_.memory_bytes;
    caps.cpu_seconds = options_.cpu_seconds;
    caps.descriptors = static_cast<unsigned>(
        std::min<std::size_t>(UINT16_MAX, descriptors_spare + files_.size() + descriptors_of_module * modules.size()));
    caps.before_drop = [&] {
        for (std::size_t i = 0; i < image_.modules.size(); ++i) {
            const std::string path = build_id_path(options_.debug_root, image_.modules[i].build_id);
            if (path.empty() || modules[i].file < 0)
                continue;
            if (UniqueFd file = open_regular(path)) {
                modules[i].by_build_id = file.get();
                by_build_id.push_back(std::move(file));
            }
        }
    };
    const ChildEnd end = run_capped(
        caps,
        [&](const AnswerLine &answer, std::atomic<std::uint32_t> *progress) {
            analyse_in_child(image_, std::move(modules), options_, more_, records_, findings_, answer, progress);
        },
        [&](std::string_view line) { add_answer(line, findings_); });
    ended_ = end.why;
    if (end.done)
        return false;
    std::uint32_t blamed = end.progress;
    // If memory ran out, debug information took most of it, and a stack can be unwound without it.
    constexpr auto debug = static_cast<std::uint32_t>(Part::debug);
    if (end.out_of_memory && blamed % 2 != debug && !poison_.contains(blamed + debug))
        blamed += debug;
    const bool known = end.progress < 2 * (image_.modules.size() + 1) && poison_.insert(blamed).second;
    findings_.notes.push_back(known ? fmt::format("{} is not used: reading it was ended: {}", name_of(blamed), end.why)
                                    : "the analysis was ended: " + end.why);
    return known;
}

void Analyser::find_all() {
    deadline_ = Clock::now() + options_.time;
    for (unsigned run = 0; run <= analyse_reruns_max; ++run) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
        if (left.count() <= 0 || !find_some(run < analyse_reruns_max ? left / 2 : left))
            return;
    }
}

// Fetches missing files of modules on a stack, each only once; returns true if something came.
bool Analyser::fetch() {
    std::vector<Wanted> wanted;
    for (std::size_t i = 0; i < image_.modules.size(); ++i) {
        const auto &state = findings_.modules[i];
        const std::string &build_id = image_.modules[i].build_id;
        if (!state || !state->on_a_stack || build_id_path("", build_id).empty())
            continue;
        const bool has_file = state->file == "used" || state->file == "debuginfod";
        if (!has_file && asked_.insert({i, true}).second)
            wanted.push_back({i, build_id, true});
        if (state->debug != "in the file" && !state->debug.starts_with('/') && asked_.insert({i, false}).second)
            wanted.push_back({i, build_id, false});
    }
    if (wanted.empty())
        return false;
    bool come = false;
    for (Fetched &file : fetch_by_build_id(wanted, options_.debuginfod_time, options_.memory_bytes, findings_.notes)) {
        if (file.executable) {
            if (capture::build_id_of_file(file.file.get()) != image_.modules[file.module].build_id) {
                findings_.notes.push_back(image_.modules[file.module].path +
                                          ": debuginfod's file has another build-id");
                continue;
            }
            fetched_files_[file.module] = std::move(file.file);
        } else {
            fetched_debug_[file.module] = std::move(file.file);
        }
        come = true;
    }
    return come;
}

Analysis Analyser::result() {
    Analysis analysis;
    const std::string why = ended_.empty() ? "not analysed" : "the analysis was ended: " + ended_;
    for (std::size_t i = 0; i < image_.threads.size(); ++i)
        analysis.threads.push_back(findings_.stacks[i] ? std::move(*findings_.stacks[i])
                                                       : instruction_pointer_only(image_, image_.threads[i], why));
    for (std::size_t i = 0; i < findings_.modules.size(); ++i) {
        if (findings_.modules[i]) {
            analysis.modules.push_back(std::move(*findings_.modules[i]));
        } else if (i < image_.modules.size()) {
            ModuleState &state = analysis.modules.emplace_back();
            state.path = image_.modules[i].path;
            state.build_id = image_.modules[i].build_id;
            const bool there = i < files_.size() && files_[i].file;
            state.file = there ? "not looked at" : i < files_.size() ? files_[i].problem : "missing";
        }
    }
    analysis.instruction = std::move(findings_.instruction);
    analysis.interrupted = std::move(findings_.interrupted);
    analysis.call = std::move(findings_.call);
    analysis.argument_frame = findings_.argument_frame;
    analysis.arguments = std::move(findings_.arguments);
    analysis.exception = std::move(findings_.exception);
    analysis.go_fatal_error = std::move(findings_.go_fatal_error);
    analysis.notes = std::move(findings_.notes);
    analysis.call_frames = std::move(findings_.call_frames);
    for (std::size_t i = 0; i < records_.size(); ++i)
        if (auto &stack = findings_.call_stacks[i]) {
            stack->id = records_[i]->id;
            analysis.call_stacks.push_back(std::move(*stack));
        }
    if (options_.install_hints)
        add_install_hints(analysis.modules);
    return analysis;
}

} // namespace

Analysis analyse(const CrashImage &image, const std::vector<ModuleFile> &files, const AnalyseOptions &options,
                 ChildWork *more, CallStackRecords call_stacks) {
    return Analyser(image, files, options, more, call_stacks).run();
}

} // namespace incident::postmortem
