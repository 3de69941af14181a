#include "daemon/os/tracefs.h"

#include "bpf/event.h"

#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace incident::daemon {

namespace fs = std::filesystem;

namespace {

// Where it is mounted; mounted now where nobody has: systemd does so only when it is touched.
const fs::path &events() {
    static const fs::path found = [] {
        for (const char *root : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"})
            if (::access((std::string(root) + "/events/sched").c_str(), F_OK) == 0)
                return fs::path(root) / "events";
        if (::mount("tracefs", "/sys/kernel/tracing", "tracefs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0)
            return fs::path("/sys/kernel/tracing/events");
        return fs::path();
    }();
    return found;
}

bool is_name(const std::string &text) {
    return !text.empty() && text.find('/') == std::string::npos && text != "." && text != "..";
}

} // namespace

bool tracefs_is_there() {
    return !events().empty();
}

std::optional<std::string> tracepoint_format(const std::string &category, const std::string &name) {
    if (events().empty() || !is_name(category) || !is_name(name))
        return std::nullopt;
    std::ifstream file(events() / category / name / "format");
    if (!file)
        return std::nullopt;
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::optional<std::uint32_t> tracepoint_number(const std::string &category, const std::string &name) {
    if (events().empty() || !is_name(category) || !is_name(name))
        return std::nullopt;
    std::ifstream file(events() / category / name / "id");
    std::uint32_t number = 0;
    return file >> number ? std::optional(number) : std::nullopt;
}

const rules::TracepointFormat *parsed_format(const std::string &category, const std::string &name) {
    static std::map<std::string, rules::TracepointFormat> formats; // only the event loop asks
    const std::string key = category + ":" + name;
    if (const auto known = formats.find(key); known != formats.end())
        return &known->second;
    const auto text = tracepoint_format(category, name);
    return text ? &formats.emplace(key, rules::parse_tracepoint_format(*text)).first->second : nullptr;
}

std::vector<std::string> tracepoint_names(const std::string &category) {
    std::vector<std::string> names;
    if (events().empty() || (!category.empty() && !is_name(category)))
        return names;
    std::error_code error;
    for (const auto &entry : fs::directory_iterator(category.empty() ? events() : events() / category, error))
        if (entry.is_directory(error))
            names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

std::uint32_t tracepoint_record_length(const std::string &category, const std::string &name) {
    constexpr std::uint32_t room_for_texts = 512;
    const auto text = tracepoint_format(category, name);
    if (!text)
        return 0;
    const rules::TracepointFormat format = rules::parse_tracepoint_format(*text);
    const bool texts = std::ranges::any_of(format.fields, [](const rules::TracepointField &field) {
        return field.kind == rules::TracepointField::Kind::TextAt;
    });
    return std::min<std::uint32_t>(format.size + (texts ? room_for_texts : 0), TRACEPOINT_RECORD_MAX);
}

} // namespace incident::daemon
