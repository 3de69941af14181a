// Makes the signature, which is the same for similar incidents: the signal or other event, and its place in which
// build.
//
// Only what the kernel side copied goes in, so that the daemon can ask before any collector has
// run, and so that the answer does not hang on whether /proc could still be read.
#include "capture/decode/decode_text.h"
#include "capture/decode/kernel_path.h"
#include "capture/decode/syscalls.h"
#include "capture/os/auxv.h"
#include "capture/os/page_size.h"
#include "capture/render/render.h"
#include "capture/render/render_stack.h"
#include "capture/render/render_threads.h"
#include "capture/render/render_trigger.h"

#include <algorithm>

namespace incident::capture {

namespace {

constexpr std::size_t build_id_digits = 12;
std::string head_build_id(const bpf::elf_head &head) {
    if (!head.address)
        return "";
    return build_id_of_head(head.bytes, std::min<std::size_t>(head.length, ELF_HEAD_LEN)).substr(0, build_id_digits);
}

const bpf::vma_record *vma_of(const bpf::death_event &event, std::uint64_t address) {
    const std::size_t count = std::min<std::size_t>(event.vmas, VMA_RECORDS);
    for (std::size_t i = 0; i < count; ++i)
        if (address >= event.vma[i].start && address < event.vma[i].end)
            return &event.vma[i];
    return nullptr;
}

bool in_executable(const bpf::death_event &event, std::uint64_t address) {
    return address >= event.start_code && address < event.end_code;
}

// "build-id+0xoffset" of an address in the executable, whose mapping need not have been copied:
// relative to where the file's first page is mapped.
std::string executable_place(const bpf::death_event &event, std::uint64_t address) {
    const bpf::elf_head &exe = event.elf[ELF_HEADS - 1];
    const std::string build_id = head_build_id(exe);
    const std::uint64_t base = exe.address ? exe.address : event.start_code;
    const std::string name(file_name_of(event.exe));
    return (!build_id.empty() ? build_id : name.empty() ? "exe" : name) + "+" + hex_text(address - base);
}

std::string place(const bpf::death_event &event, std::uint64_t ip) {
    if (in_executable(event, ip))
        return executable_place(event, ip);
    const bpf::vma_record *vma = vma_of(event, ip);
    if (!vma)
        return "nowhere";
    if (!vma->inode)
        return "anonymous"; // code made at run time: its addresses mean nothing the next time
    const std::string build_id = head_build_id(event.elf[0]);
    return (build_id.empty() ? std::string(fixed_text(vma->name)) : build_id) + "+" +
           hex_text(ip - vma->start + vma->page_offset * page_size);
}

// A crash in a library (abort() always ends in the same place of libc) is told apart by who
// called it: the first word on the stack that points into the executable's code.  A guess, but the
// same one for the same way there.
std::string caller(const ThreadSnapshot &thread, const bpf::death_event &event) {
    constexpr std::uint64_t looked_at = 8192;
    const std::uint64_t word = word_bytes(isa_of(thread.event->regs));
    const std::uint64_t first = thread.event->regs.sp & ~(word - 1);
    for (std::uint64_t offset = 0; offset < looked_at; offset += word) {
        const auto value = stack_word(thread, first + offset);
        if (!value)
            break;
        if (in_executable(event, *value))
            return executable_place(event, *value);
    }
    return "";
}

std::string what_it_was(const IncidentInput &input) {
    const bool of_signal = std::holds_alternative<SignalTrigger>(input.trigger);
    return (of_signal ? signal_name(input.process.event.number) : trigger_label(input.trigger)) + ":";
}

} // namespace

std::string incident_kind(const IncidentInput &input) {
    return what_it_was(input) + std::string(fixed_text(input.process.event.leader_comm));
}

std::string incident_signature(const IncidentInput &input) {
    const ProcessSnapshot &process = input.process;
    const bpf::death_event &event = process.event;
    const bool of_signal = std::holds_alternative<SignalTrigger>(input.trigger);
    const ThreadSnapshot *thread = crashed_thread(process);
    // Where a process stands when it is looked at from outside says nothing about why.  An address whose mappings were
    // lost is no place.
    const bool mapped = event.vmas || event.end_code;
    const bool by_place =
        mapped && thread && thread->event && (of_signal || thread->event->role == bpf::ROLE_TRIGGERED);
    if (!by_place)
        return incident_kind(input);
    const std::uint64_t ip = thread->event->regs.ip;
    std::string signature = what_it_was(input) + place(event, ip);
    if (!in_executable(event, ip))
        if (const std::string from = caller(*thread, event); !from.empty())
            signature += "<" + from;
    return signature;
}

} // namespace incident::capture
