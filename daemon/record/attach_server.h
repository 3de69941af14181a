// What the process with the rights does when it is asked (attacher.h): loads and attaches the recorder's own programs.
#pragma once

#include "daemon/record/attach_request.h"

struct heap_bpf;
struct recorder_bpf;

namespace incident::daemon {

class AttachServer {
public:
    // recorder: loaded; it must outlive this.
    explicit AttachServer(recorder_bpf &recorder) : recorder_(recorder) {}
    ~AttachServer();

    AttachAnswer serve(const AttachRequest &request, const UniqueFd &file);

    AttachServer(const AttachServer &) = delete;
    AttachServer &operator=(const AttachServer &) = delete;

private:
    AttachAnswer attach_uprobe(const AttachRequest &request, const UniqueFd &file);
    AttachAnswer attach_txg();
    AttachAnswer load_heap();
    AttachAnswer make_heap_maps(const AttachRequest &request) const;

    recorder_bpf &recorder_;
    heap_bpf *heap_ = nullptr;
};

} // namespace incident::daemon
