#include "daemon/service/all_watches.h"

#include "capture/modules/kept_name.h"
#include "daemon/watch/blocked/blocked_watch.h"
#include "daemon/watch/heap/heap_watch.h"
#include "daemon/watch/latency/latency_watch.h"
#include "daemon/watch/memory/memory_watch.h"
#include "daemon/watch/modules/module_watch.h"
#include "daemon/watch/reclaim/reclaim_watch.h"
#include "daemon/watch/tracepoint/tracepoint_watch.h"
#include "daemon/watch/txg/txg_watch.h"

#include <spdlog/spdlog.h>

namespace incident::daemon {

namespace {

Result<ModuleStore> open_module_store(const std::string &state, const rules::Config::Budget &budget) {
    if (budget.modules == 0)
        return fail("[budget] modules is 0");
    auto store = ModuleStore::open(state + "/" + capture::kept_modules_dir,
                                   {.bytes = budget.modules, .keep_free = budget.keep_free});
    if (!store)
        spdlog::error("{}; no copies of mapped files are kept", store.error().what);
    return store;
}

} // namespace

void add_all(Watches &watches, const rules::Config &config, const std::string &state) {
    const WatchContext &context = watches.context();
    watches.add(std::make_unique<LatencyWatch>(context));
    watches.add(std::make_unique<BlockedWatch>(context));
    watches.add(std::make_unique<MemoryWatch>(context));
    watches.add(std::make_unique<ReclaimWatch>(context));
    watches.add(std::make_unique<TxgWatch>(context));
    watches.add(std::make_unique<TracepointWatch>(context));
    watches.add(std::make_unique<HeapWatch>(context, config.heap));
    watches.add(std::make_unique<ModuleWatch>(context, open_module_store(state, config.budget)));
}

} // namespace incident::daemon
