// Makes memory.bin and its index, which hold what was copied of the process's memory.
#include "capture/decode/decode_text.h"

#include "capture/collect/vdso.h"
#include "capture/os/auxv.h"
#include "capture/render/render_json.h"
#include "capture/render/render_parts.h"
#include "capture/render/render_threads.h"

#include <algorithm>
#include <elf.h>

namespace incident::capture {

namespace {

class Image {
public:
    Image(const RenderContext &context, const Redactor &redactor)
        : process_(context.input.process), collected_(context.collected), redactor_(redactor) {}

    MemoryImage render() {
        for (const ThreadSnapshot &thread : process_.threads) {
            if (!thread.event)
                continue;
            for (const StackPiece &piece : thread.stack)
                add(piece.address, {reinterpret_cast<const char *>(piece.bytes.data()), piece.bytes.size()}, thread.tid,
                    "stack");
            for (const bpf::memory_window &window : thread.event->window)
                add_window(window, thread.tid, isa_of(thread.event->regs));
        }
        for (const bpf::memory_window &window : process_.pointers)
            add_window(window, process_.event.h.tid, Isa::x86_64); // of no register
        add_vdso();
        constexpr std::string_view names[ELF_HEADS] = {"elf head ip", "elf head exe"};
        for (std::size_t i = 0; i < ELF_HEADS; ++i) {
            const bpf::elf_head &head = process_.event.elf[i];
            if (head.address)
                add(head.address,
                    {reinterpret_cast<const char *>(head.bytes), std::min<std::size_t>(head.length, ELF_HEAD_LEN)},
                    process_.event.h.tid, names[i]);
        }
        image_.index = "[" + image_.index + (image_.index.empty() ? "" : "\n") + "]\n";
        return std::move(image_);
    }

private:
    // The 64-bit one is the same in this process.  A 32-bit process may have changed its copy, so that is its own
    // alone.
    void add_vdso() {
        const std::string_view auxv = saved_auxv(process_.event);
        const auto at = auxv_value(auxv, AT_SYSINFO_EHDR);
        if (!at || *at == 0)
            return;
        const std::string *read = collected_.file(narrow_vdso_file);
        if (!is_narrow_auxv(auxv))
            add(*at, own_vdso(), process_.event.h.tgid, "vdso");
        else if (read)
            add(*at, *read, process_.event.h.tgid, "vdso");
    }

    void add_window(const bpf::memory_window &window, std::uint32_t tid, Isa isa) {
        if (window.status != bpf::WINDOW_READ && window.status != bpf::WINDOW_PARTIAL)
            return;
        std::string what = "window";
        if (window.which == WINDOW_OF_STACK)
            what = "pointed at by the stack";
        else if (window.which == WINDOW_OF_MAPPING)
            what = "last mapping";
        else if (const std::string_view name = register_name(window.which, isa); !name.empty())
            what.append(" ").append(name);
        add(window.address,
            {reinterpret_cast<const char *>(window.bytes), std::min<std::size_t>(window.length, WINDOW_LEN)}, tid,
            what);
    }

    void add(std::uint64_t address, std::string_view bytes, std::uint32_t tid, std::string_view what) {
        if (bytes.empty())
            return;
        std::string copy(bytes);
        redactor_.memory(copy);
        image_.index += image_.index.empty() ? "\n" : ",\n";
        JsonObject object(image_.index);
        object.hex("address", address);
        object.number("length", copy.size());
        object.number("offset", image_.bytes.size());
        object.number("tid", tid);
        object.text("what", what);
        object.end();
        image_.bytes += copy;
    }

    const ProcessSnapshot &process_;
    const Collected &collected_;
    const Redactor &redactor_;
    MemoryImage image_;
};

} // namespace

MemoryImage memory_of(const RenderContext &context, const Redactor &redactor) {
    return Image(context, redactor).render();
}

} // namespace incident::capture
