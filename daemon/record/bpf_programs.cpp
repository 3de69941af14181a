#include "daemon/record/bpf_programs.h"

#include "capture/os/unique_fd.h"

#include <bpf/bpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace incident::daemon {

namespace {

constexpr std::uint32_t functions_max = 256; // BPF_MAX_SUBPROGS, include/linux/bpf_verifier.h
constexpr std::size_t programs_max = 65536;

void add_code(int program, std::vector<BpfCode> &code) {
    std::vector<__u64> starts(functions_max);
    std::vector<__u32> lengths(functions_max);
    bpf_prog_info info{};
    info.nr_jited_ksyms = info.nr_jited_func_lens = functions_max;
    info.jited_ksyms = reinterpret_cast<__u64>(starts.data());
    info.jited_func_lens = reinterpret_cast<__u64>(lengths.data());
    __u32 size = sizeof info;
    if (::bpf_obj_get_info_by_fd(program, &info, &size) != 0)
        return;
    std::string name = "bpf_prog_";
    for (const unsigned char byte : info.tag)
        name += fmt::format("{:02x}", byte);
    if (info.name[0])
        name.append("_").append(info.name, strnlen(info.name, sizeof info.name));
    // The kernel answers how many there are, and fills in as many as there is room for.
    const std::size_t count = std::min({info.nr_jited_ksyms, info.nr_jited_func_lens, functions_max});
    for (std::size_t i = 0; i < count; ++i)
        if (starts[i] && lengths[i])
            code.push_back({starts[i], lengths[i], name});
}

} // namespace

std::vector<BpfCode> loaded_bpf_code() {
    std::vector<BpfCode> code;
    __u32 id = 0;
    for (std::size_t seen = 0; seen < programs_max && ::bpf_prog_get_next_id(id, &id) == 0; ++seen)
        if (const UniqueFd program(::bpf_prog_get_fd_by_id(id)); program) // it may be gone by now
            add_code(program.get(), code);
    std::ranges::sort(code, {}, &BpfCode::start);
    return code;
}

} // namespace incident::daemon
