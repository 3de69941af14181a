#include "capture/render/render_requests.h"

#include <algorithm>

namespace incident::capture {

std::vector<ShownRequest> requests_of(const ProcessSnapshot &process) {
    std::vector<ShownRequest> all;
    for (const ThreadSnapshot &thread : process.threads) {
        if (!thread.rings)
            continue;
        for (const Request &request : thread.rings->requests) {
            ShownRequest shown{.request = &request, .tid = request.submitter ? request.submitter : thread.tid};
            shown.completed_by = shown.tid == thread.tid ? 0 : thread.tid;
            all.push_back(shown);
        }
    }
    const bool in_doubt = !process.entry || process.entry->requests_doubtful != 0;
    for (const Request &request : process.requests)
        all.push_back({.request = &request, .tid = request.submitter, .in_flight = true, .in_doubt = in_doubt});
    std::ranges::stable_sort(all, {}, [](const ShownRequest &shown) { return shown.request->t_ns; });
    return all;
}

bool was_pending(const ShownRequest &shown, std::uint64_t t_ns) {
    const Request &request = *shown.request;
    if (request.t_ns > t_ns || (request.code & (REQUEST_SILENT | REQUEST_UNSEEN)))
        return false;
    return shown.in_flight || (request.duration_ns < NO_DURATION && request.t_ns + request.duration_ns > t_ns);
}

} // namespace incident::capture
