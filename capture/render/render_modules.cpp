#include "capture/render/render_modules.h"

#include "capture/decode/decode_text.h"
#include "capture/os/page_size.h"

#include <algorithm>

namespace incident::capture {

namespace {

// include/linux/mm.h
enum : std::uint64_t { mapped_read = 1, mapped_write = 2, mapped_exec = 4, mapped_shared = 8 };

Maps kernel_maps(const bpf::death_event &event) {
    std::vector<Mapping> mappings;
    const std::size_t count = std::min<std::size_t>(event.vmas, VMA_RECORDS);
    for (std::size_t i = 0; i < count; ++i) {
        const bpf::vma_record &vma = event.vma[i];
        if (vma.end <= vma.start)
            continue;
        Mapping &mapping = mappings.emplace_back();
        mapping.start = UserAddress(vma.start);
        mapping.end = UserAddress(vma.end);
        mapping.offset = FileOffset(vma.page_offset * page_size);
        mapping.inode = vma.inode;
        mapping.major = vma.device >> 20;
        mapping.minor = vma.device & 0xfffff;
        mapping.read = vma.flags & mapped_read;
        mapping.write = vma.flags & mapped_write;
        mapping.execute = vma.flags & mapped_exec;
        mapping.shared = vma.flags & mapped_shared;
        mapping.path = fixed_text(vma.name);
    }
    return Maps::of(std::move(mappings));
}

} // namespace

Modules::Modules(const RenderContext &context) : context_(context) {
    if (const std::string *text = context.collected.file("process/maps"))
        maps_ = Maps::parse(*text);
    whole_ = !maps_.empty();
    if (!whole_)
        maps_ = kernel_maps(context.input.process.event);
    for (const bpf::elf_head &head : context.input.process.event.elf) {
        const Mapping *first = head.address ? maps_.find(UserAddress(head.address)) : nullptr;
        if (!first || first->inode == 0)
            continue;
        std::string id = build_id_of_head(head.bytes, std::min<std::size_t>(head.length, ELF_HEAD_LEN));
        if (!id.empty())
            build_ids_.emplace(std::pair(first->inode, first->path), std::move(id));
    }
    // The module ip lies in is the first head's; without maps its first mapping may be unknown.
    const bpf::elf_head &head = context.input.process.event.elf[0];
    const auto &threads = context.input.process.threads;
    if (whole_ || !head.address || threads.empty() || !threads.front().event)
        return;
    const Mapping *at = maps_.find(UserAddress(threads.front().event->regs.ip));
    if (at && at->inode && UserAddress(head.address) <= at->start) {
        std::string id = build_id_of_head(head.bytes, std::min<std::size_t>(head.length, ELF_HEAD_LEN));
        if (!id.empty())
            build_ids_.emplace(std::pair(at->inode, at->path), std::move(id));
    }
}

const std::string &Modules::build_id(const Mapping &mapping) const {
    static const std::string none;
    if (mapping.inode == 0)
        return none;
    const auto [it, fresh] = build_ids_.try_emplace({mapping.inode, mapping.path});
    if (fresh && mapping.is_file() && context_.build_id_of)
        it->second = context_.build_id_of(mapping.path, mapping.inode);
    return it->second;
}

} // namespace incident::capture
