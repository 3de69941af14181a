#include "daemon/service/open_modules.h"

#include "capture/modules/kept_name.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

namespace incident::daemon {

namespace {

std::string modules_dir(const std::string &state) {
    return state + "/" + capture::kept_modules_dir;
}

// Whether what goes from one directory makes room in the other.
bool on_one_file_system(const std::string &one, const std::string &other) {
    struct stat first {
    }, second{};
    return ::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 && first.st_dev == second.st_dev;
}

} // namespace

Result<std::shared_ptr<KeptModules>> open_kept_modules(const std::string &state, const rules::Config::Budget &budget) {
    auto store = ModuleStore::open(modules_dir(state), {.bytes = budget.modules, .keep_free = budget.keep_free});
    if (!store) {
        spdlog::error("{}; no copies of mapped files are kept", store.error().what);
        return fail(store.error());
    }
    if (budget.modules == 0) // those of an earlier life are gone now
        return fail("[budget] modules is 0");
    return std::make_shared<KeptModules>(std::move(*store));
}

GiveWay gives_way_to(const std::string &incidents, const std::string &state,
                     const Result<std::shared_ptr<KeptModules>> &kept) {
    if (!kept || !on_one_file_system(modules_dir(state), incidents))
        return {};
    return {.bytes = [copies = *kept] { return copies->counts().bytes; },
            .remove = [copies = *kept](std::uint64_t bytes) { return copies->give_way(bytes); }};
}

} // namespace incident::daemon
