#include "postmortem/unwind/debuginfod_fetch.h"

#include "capture/os/environment.h"
#include "postmortem/read/json_view.h"
#include "postmortem/unwind/capped_child.h"
#include "postmortem/unwind/debug_files.h"

#include <elfutils/debuginfod.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <system_error>

namespace incident::postmortem {

namespace {

constexpr std::uint64_t file_max = 4ull << 30; // bytes of one download
constexpr unsigned descriptors_max = 1024;     // connections among them

struct ClientEnd {
    void operator()(debuginfod_client *client) const { debuginfod_end(client); }
};

void fetch_in_child(const std::vector<Wanted> &wanted, const AnswerLine &answer) {
    const std::unique_ptr<debuginfod_client, ClientEnd> client(debuginfod_begin());
    for (std::size_t i = 0; client && i < wanted.size(); ++i) {
        const auto *id = reinterpret_cast<const unsigned char *>(wanted[i].build_id.c_str());
        char *path = nullptr;
        // length 0: hexadecimal
        const int got = wanted[i].executable ? debuginfod_find_executable(client.get(), id, 0, &path)
                                             : debuginfod_find_debuginfo(client.get(), id, 0, &path);
        const std::unique_ptr<char, decltype(&std::free)> owner(path, std::free);
        Json line{{"wanted", i}};
        if (got >= 0 && path)
            line["path"] = path;
        else
            line["error"] = std::generic_category().message(got < 0 ? -got : EINVAL);
        answer(dump_json(line));
        if (got >= 0)
            ::close(got);
    }
}

} // namespace

std::vector<Fetched> fetch_by_build_id(const std::vector<Wanted> &wanted, std::chrono::milliseconds time,
                                       std::uint64_t memory_bytes, std::vector<std::string> &notes) {
    std::vector<Fetched> fetched;
    const char *servers = capture::environment(DEBUGINFOD_URLS_ENV_VAR);
    if (!servers || !*servers) {
        notes.emplace_back("no debuginfod server is asked: DEBUGINFOD_URLS is not set");
        return fetched;
    }
    ChildCaps caps;
    caps.time = time;
    caps.memory_bytes = memory_bytes;
    caps.cpu_seconds = static_cast<unsigned>(time.count() / 1000 + 1);
    caps.file_bytes = file_max;
    caps.descriptors = descriptors_max;
    caps.drop_privileges = false; // its cache is the user's
    const ChildEnd end = run_capped(
        caps, [&](const AnswerLine &answer, std::atomic<std::uint32_t> *) { fetch_in_child(wanted, answer); },
        [&](std::string_view line) {
            const auto parsed = parse_json(line);
            const JsonView view = parsed ? JsonView(*parsed) : JsonView();
            const std::uint64_t index = view["wanted"].natural().value_or(wanted.size());
            if (index >= wanted.size())
                return;
            const char *what = wanted[index].executable ? "the file" : "debug information";
            UniqueFd file = view["path"].is_text() ? open_regular(std::string(view["path"].text())) : UniqueFd();
            if (file)
                fetched.push_back({wanted[index].module, wanted[index].executable, std::move(file)});
            else
                notes.push_back(fmt::format("debuginfod has not {} of build-id {}: {}", what, wanted[index].build_id,
                                            view["error"].is_text() ? std::string(view["error"].text().substr(0, 200))
                                                                    : "its file cannot be opened"));
        });
    if (!end.done)
        notes.push_back("asking debuginfod was ended: " + end.why);
    return fetched;
}

} // namespace incident::postmortem
