#include "daemon/service/all_watches.h"

#include "daemon/watch/blocked/blocked_watch.h"
#include "daemon/watch/heap/heap_watch.h"
#include "daemon/watch/latency/latency_watch.h"
#include "daemon/watch/memory/memory_watch.h"
#include "daemon/watch/modules/module_watch.h"
#include "daemon/watch/reclaim/reclaim_watch.h"
#include "daemon/watch/tracepoint/tracepoint_watch.h"
#include "daemon/watch/txg/txg_watch.h"

namespace incident::daemon {

void add_all(Watches &watches, const rules::Config &config, const Result<std::shared_ptr<KeptModules>> &kept) {
    const WatchContext &context = watches.context();
    watches.add(std::make_unique<LatencyWatch>(context));
    watches.add(std::make_unique<BlockedWatch>(context));
    watches.add(std::make_unique<MemoryWatch>(context));
    watches.add(std::make_unique<ReclaimWatch>(context));
    watches.add(std::make_unique<TxgWatch>(context));
    watches.add(std::make_unique<TracepointWatch>(context));
    watches.add(std::make_unique<HeapWatch>(context, config.heap));
    watches.add(std::make_unique<ModuleWatch>(context, kept));
}

} // namespace incident::daemon
