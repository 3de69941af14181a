#include "daemon/record/attach_server.h"

#include "daemon/record/bpf_programs.h"
#include "daemon/record/libbpf_log.h"

#include "heap.skel.h"
#include "recorder.skel.h"
#include "txg_fentry.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>

namespace incident::daemon {

namespace {

AttachAnswer only(UniqueFd fd) {
    std::vector<UniqueFd> files;
    files.push_back(std::move(fd));
    return files;
}

// The link's descriptor is all that keeps it: libbpf's own end would detach it as well.
AttachAnswer link_of(bpf_link *link, const std::string &doing) {
    if (!link)
        return fail(Error::system(doing));
    UniqueFd fd(::fcntl(bpf_link__fd(link), F_DUPFD_CLOEXEC, 0));
    const int error = errno;
    bpf_link__disconnect(link);
    bpf_link__destroy(link);
    if (!fd)
        return fail(Error::system(doing, error));
    return only(std::move(fd));
}

AttachAnswer copies_of(std::initializer_list<int> fds) {
    std::vector<UniqueFd> files;
    for (const int fd : fds) {
        files.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
        if (!files.back())
            return fail(Error::system("sharing a map"));
    }
    return files;
}

// Like that one, but for its size: with the same BTF too, for Linux 6.1 takes a map without for one of another
// kind (kernel/bpf/map_in_map.c, bpf_map_meta_equal: timer_off).
Result<UniqueFd> make_map(const bpf_map *like, int btf, std::uint32_t entries) {
    bpf_map_create_opts options{};
    options.sz = sizeof(options);
    options.map_flags = bpf_map__map_flags(like);
    options.btf_fd = static_cast<__u32>(btf);
    options.btf_key_type_id = bpf_map__btf_key_type_id(like);
    options.btf_value_type_id = bpf_map__btf_value_type_id(like);
    UniqueFd fd(bpf_map_create(bpf_map__type(like), bpf_map__name(like), bpf_map__key_size(like),
                               bpf_map__value_size(like), entries, &options));
    if (!fd)
        return fail(Error::system(fmt::format("making a map {} of {} entries", bpf_map__name(like), entries)));
    return fd;
}

AttachAnswer loaded_code() {
    std::string text;
    for (const BpfCode &code : loaded_bpf_code())
        fmt::format_to(std::back_inserter(text), "{:x} {:x} {}\n", code.start, code.length, code.name);
    UniqueFd file(::memfd_create("bpf-code", MFD_CLOEXEC));
    for (std::size_t written = 0; file && written < text.size();) {
        const ssize_t wrote = ::write(file.get(), text.data() + written, text.size() - written);
        if (wrote < 0)
            return fail(Error::system("listing the code of BPF programs"));
        written += static_cast<std::size_t>(wrote);
    }
    if (!file)
        return fail(Error::system("listing the code of BPF programs"));
    return only(std::move(file));
}

AttachAnswer count_run_times() {
    UniqueFd on(bpf_enable_stats(BPF_STATS_RUN_TIME));
    if (!on)
        return fail(Error::system("counting the programs' run times"));
    return only(std::move(on));
}

} // namespace

AttachServer::~AttachServer() {
    heap_bpf__destroy(heap_);
}

AttachAnswer AttachServer::serve(const AttachRequest &request, const UniqueFd &file) {
    libbpf_log().clear();
    const auto named = [&](bpf_object *object) {
        return bpf_object__find_program_by_name(object, request.program.data());
    };
    switch (request.what) {
    case AttachRequest::What::Program:
        if (bpf_program *program = named(recorder_.obj))
            return link_of(bpf_program__attach(program),
                           fmt::format("attaching {}", bpf_program__section_name(program)));
        break;
    case AttachRequest::What::Tracepoint:
        if (bpf_program *program = named(recorder_.obj)) {
            bpf_tracepoint_opts options{};
            options.sz = sizeof(options);
            options.bpf_cookie = request.cookie;
            return link_of(
                bpf_program__attach_tracepoint_opts(program, request.category.data(), request.name.data(), &options),
                fmt::format("attaching tracepoint {}:{}", request.category.data(), request.name.data()));
        }
        break;
    case AttachRequest::What::Uprobe:
        return attach_uprobe(request, file);
    case AttachRequest::What::Kprobe:
        if (bpf_program *program = named(recorder_.obj))
            return link_of(bpf_program__attach_kprobe(program, request.on_return != 0, request.name.data()),
                           fmt::format("{} on {}", request.on_return ? "kretprobe" : "kprobe", request.name.data()));
        break;
    case AttachRequest::What::TxgFentry:
        return attach_txg();
    case AttachRequest::What::CountRunTimes:
        return count_run_times();
    case AttachRequest::What::LoadedCode:
        return loaded_code();
    case AttachRequest::What::LoadHeap:
        return load_heap();
    case AttachRequest::What::MakeHeapMaps:
        return make_heap_maps(request);
    }
    return fail(fmt::format("no BPF program {}", request.program.data()));
}

AttachAnswer AttachServer::attach_uprobe(const AttachRequest &request, const UniqueFd &file) {
    bpf_program *program = bpf_object__find_program_by_name(recorder_.obj, request.program.data());
    if (!program && heap_)
        program = bpf_object__find_program_by_name(heap_->obj, request.program.data());
    if (!program || !file)
        return fail(fmt::format("no BPF program {} for a uprobe, or no file", request.program.data()));
    bpf_uprobe_opts options{};
    options.sz = sizeof(options);
    options.bpf_cookie = request.cookie;
    options.ref_ctr_offset = request.semaphore;
    options.retprobe = request.on_return != 0;
    const pid_t pid = request.pid ? static_cast<pid_t>(request.pid) : -1;
    const std::string path = fmt::format("/proc/self/fd/{}", file.get()); // exactly one inode
    return link_of(bpf_program__attach_uprobe_opts(program, pid, path.c_str(), request.offset, &options),
                   fmt::format("attaching a uprobe at file offset {:#x}", request.offset));
}

AttachAnswer AttachServer::attach_txg() {
    txg_fentry_bpf *opened = txg_fentry_bpf__open();
    if (!opened)
        return fail(Error::system("opening the fentry programs"));
    const std::unique_ptr<txg_fentry_bpf, decltype([](txg_fentry_bpf *it) { txg_fentry_bpf__destroy(it); })> owner(
        opened);
    // Of the maps that the shared headers declare only these are used, and they are the recorder's.
    const auto &mine = recorder_.maps;
    const std::pair<bpf_map *, bpf_map *> shared[] = {{opened->maps.events, mine.events},
                                                      {opened->maps.losses, mine.losses},
                                                      {opened->maps.txg_syncs, mine.txg_syncs},
                                                      {opened->maps.txg_threshold, mine.txg_threshold}};
    bpf_map *map = nullptr;
    bpf_object__for_each_map(map, opened->obj) {
        if (!bpf_map__is_internal(map))
            bpf_map__set_autocreate(map, false);
    }
    for (const auto &[to, from] : shared) {
        bpf_map__set_autocreate(to, true);
        if (const int error = bpf_map__reuse_fd(to, bpf_map__fd(from)))
            return fail(Error::system(fmt::format("sharing map {}", bpf_map__name(from)), -error));
    }
    if (const int error = txg_fentry_bpf__load(opened))
        return fail(libbpf_error("loading fentry/spa_sync", -error));
    std::vector<UniqueFd> links;
    bpf_program *program = nullptr;
    bpf_object__for_each_program(program, opened->obj) {
        auto link = link_of(bpf_program__attach(program), "attaching fentry/spa_sync");
        if (!link)
            return fail(link.error());
        links.push_back(std::move(link->front()));
    }
    return links;
}

AttachAnswer AttachServer::load_heap() {
    if (!heap_) {
        heap_bpf *opened = heap_bpf__open();
        if (!opened)
            return fail(Error::system("opening the heap recorder's programs"));
        if (const int error = heap_bpf__load(opened)) {
            Error why = libbpf_error("loading the heap recorder's programs", -error);
            heap_bpf__destroy(opened);
            return fail(std::move(why));
        }
        heap_ = opened;
    }
    const auto &maps = heap_->maps;
    return copies_of({bpf_map__fd(maps.heap_accounts), bpf_map__fd(maps.heap_live), bpf_map__fd(maps.heap_stacks),
                      bpf_map__fd(maps.heap_history)});
}

AttachAnswer AttachServer::make_heap_maps(const AttachRequest &request) const {
    if (!heap_)
        return fail("the heap recorder's programs are not loaded");
    const int btf = bpf_object__btf_fd(heap_->obj);
    const bpf_map *like[] = {heap_->maps.one_live, heap_->maps.one_stacks, heap_->maps.one_history};
    std::vector<UniqueFd> files;
    for (std::size_t i = 0; i < std::size(like); ++i) {
        auto made = make_map(like[i], btf, std::max(request.entries[i], 1u));
        if (!made)
            return fail(made.error());
        files.push_back(std::move(*made));
    }
    return files;
}

} // namespace incident::daemon
