#include "postmortem/verdict/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>

namespace incident::postmortem {

const user_regs_struct *Evidence::registers() const {
    if (image.threads.empty() || !image.threads.front().is_triggers || !image.threads.front().registers)
        return nullptr;
    return &*image.threads.front().registers;
}

const ThreadStack *Evidence::stack() const {
    if (image.threads.empty())
        return nullptr;
    const auto it = std::ranges::find(analysis.threads, image.threads.front().tid, &ThreadStack::tid);
    return it == analysis.threads.end() ? nullptr : &*it;
}

const Frame *Evidence::frame_of(Names functions) const {
    const ThreadStack *frames = stack();
    if (!frames)
        return nullptr;
    for (const Frame &frame : frames->frames)
        if (is_one_of(frame, functions))
            return &frame;
    return nullptr;
}

const Frame *Evidence::caller_of(const Frame &frame, Names passed_over) const {
    const auto &frames = stack()->frames;
    for (std::size_t i = static_cast<std::size_t>(&frame - frames.data()) + 1; i < frames.size(); ++i)
        if (!is_one_of(frames[i], passed_over))
            return &frames[i];
    return nullptr;
}

bool Evidence::is_fault() const {
    const std::int64_t code = signal()["code"].integer().value_or(0);
    // An exception leaves -1 where a system call has its number (arch/x86/entry/entry_64.S); seccomp's SIGSYS is one's.
    const user_regs_struct *of_thread = registers();
    const bool in_call = of_thread && static_cast<std::int64_t>(of_thread->orig_rax) >= 0 && image.signal != SIGSYS;
    return image.has_siginfo && code > 0 && signal()["fatal"].flag() && !in_call;
}

std::optional<std::uint64_t> Evidence::fault_address() const {
    return signal()["address"].natural();
}

const capture::HeapHistoryRecord *Evidence::free_under_way() const {
    constexpr std::string_view freeing[] = {
        "free", "cfree", "__libc_free", "__GI___libc_free", "operator delete", "operator delete[]"};
    // realloc() leaves its record when it returns, and so do those that give memory out: the last one is an older
    // call's.
    constexpr std::string_view others[] = {
        "malloc",        "__libc_malloc", "__GI___libc_malloc", "calloc",
        "__libc_calloc", "realloc",       "__libc_realloc",     "__GI___libc_realloc",
        "reallocarray",  "aligned_alloc", "memalign",           "posix_memalign",
        "valloc",        "pvalloc",       "operator new",       "operator new[]"};
    const ThreadStack *frames = stack();
    if (!heap || image.threads.empty() || heap->heap.unrecorded() != 0)
        return nullptr;
    bool in_free = false, in_another = false;
    for (std::size_t i = 0; frames && i < frames->frames.size() && !frames->frames[i].signal_frame; ++i) {
        const Frame &frame = frames->frames[i];
        in_another = in_another || is_one_of(frame, others);
        if (in_free && !is_one_of(frame, freeing))
            break;
        in_free = in_free || is_one_of(frame, freeing);
    }
    const auto *last = heap->last_call(image.threads.front().tid);
    return in_free && !in_another && last && last->kind == bpf::HEAP_FREED ? last : nullptr;
}

std::optional<std::uint64_t> Evidence::limit(std::string_view name) const {
    constexpr std::uint64_t limits_max = 1u << 20;
    const auto limits = bundle.read("process/limits", limits_max);
    const std::size_t at = limits ? limits->find(name) : std::string::npos;
    if (at == std::string::npos)
        return std::nullopt;
    const std::size_t digits = std::min(limits->find_first_not_of(' ', at + name.size()), limits->size());
    std::uint64_t value = 0;
    const char *begin = limits->data() + digits, *end = limits->data() + limits->size();
    return std::from_chars(begin, end, value).ec == std::errc() ? std::optional(value) : std::nullopt;
}

bool Evidence::aborted_itself() const {
    return image.signal == SIGABRT && sender() == image.pid && signal()["code_name"].text() == "SI_TKILL";
}

bool Evidence::halted_in_abort() const {
    constexpr std::string_view halting[] = {"abort", "__GI_abort"};
    const ThreadStack *frames = stack();
    return image.signal == SIGSEGV && is_fault() && signal()["code_name"].text() == "SI_KERNEL" && frames &&
           !frames->frames.empty() && is_one_of(frames->frames.front(), halting) && analysis.instruction &&
           analysis.instruction->text == "hlt" && incident.view()["process"]["ns_pid"].count() == 1;
}

std::string Evidence::how_it_aborted() const {
    return image.signal == SIGABRT
               ? fmt::format("it sent itself SIGABRT ({})", signal()["code_name"].text())
               : "SIGABRT does not kill process 1 of a pid namespace: abort() went on to its hlt, which raised SIGSEGV";
}

std::uint32_t Evidence::sender() const {
    return static_cast<std::uint32_t>(signal()["sender"]["pid"].count());
}

bool is_one_of(const Frame &frame, Names names) {
    return std::ranges::find(names, source_name(frame)) != names.end();
}

std::string signal_fact(const Evidence &evidence) {
    const JsonView signal = evidence.signal();
    std::string text = fmt::format("the kernel raised {} ({})", signal["name"].text(), signal["code_name"].text());
    if (const auto address = evidence.fault_address())
        text += " for address " + hex(*address);
    return text;
}

} // namespace incident::postmortem
