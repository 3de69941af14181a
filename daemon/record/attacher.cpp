#include "daemon/record/attacher.h"

#include "daemon/record/attach_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>

#include <cstring>
#include <fstream>

namespace incident::daemon {

namespace {

bool is_of_bpf(std::string_view link) {
    return link.starts_with("anon_inode:bpf") || link.starts_with("anon_inode:btf");
}

} // namespace

Result<std::unique_ptr<Attacher>> Attacher::start(recorder_bpf &recorder) {
    const Servant::Role role{.name = "incidentd-bpf",
                             .capabilities = {CAP_SYS_ADMIN, CAP_BPF, CAP_PERFMON, CAP_SYSLOG},
                             .connects = false,
                             .needs = is_of_bpf,
                             .request_bytes = sizeof(AttachRequest),
                             .patience = std::chrono::seconds(25)};
    AttachServer server(recorder); // the other process's
    auto servant =
        Servant::start(role, [&server](std::span<const char> bytes, const UniqueFd &file, bool &keeps) -> AttachAnswer {
            AttachRequest request;
            std::memcpy(static_cast<void *>(&request), bytes.data(), sizeof(request));
            request.program.back() = request.category.back() = request.name.back() = '\0';
            keeps = request.what == AttachRequest::What::LoadHeap;
            return server.serve(request, file);
        });
    if (!servant)
        return fail(servant.error());
    return std::unique_ptr<Attacher>(new Attacher(std::move(*servant)));
}

AttachAnswer Attacher::ask(const AttachRequest &request, int file) {
    return servant_->ask({reinterpret_cast<const char *>(&request), sizeof(request)}, file);
}

Result<Attached> attached(AttachAnswer answer) {
    if (!answer)
        return fail(answer.error());
    return std::make_shared<std::vector<UniqueFd>>(std::move(*answer));
}

std::vector<BpfCode> ask_for_bpf_code(Attacher &attacher) {
    std::vector<BpfCode> all;
    const auto file = attacher.ask({.what = AttachRequest::What::LoadedCode});
    if (!file)
        return all;
    std::ifstream lines(fmt::format("/proc/self/fd/{}", file->front().get()));
    BpfCode code;
    while (lines >> std::hex >> code.start >> code.length >> code.name)
        all.push_back(code);
    return all;
}

Result<Attached> attach_uprobe(Attacher &attacher, const char *program, const std::string &path,
                               AttachRequest request) {
    request.what = AttachRequest::What::Uprobe;
    const UniqueFd file(::open(path.c_str(), O_PATH | O_CLOEXEC));
    if (!file)
        return fail(Error::system(path));
    if (!put_name(request.program, program))
        return fail(std::string("no BPF program ") + program);
    return attached(attacher.ask(request, file.get()));
}

} // namespace incident::daemon
