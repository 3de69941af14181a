// Judges SIGSEGV and SIGBUS that the thread's own instruction raised: which address was wrong, and how.
#include "postmortem/verdict/evidence.h"
#include "postmortem/verdict/munmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>

namespace incident::postmortem {

namespace {

constexpr std::uint64_t null_pages = 65536;            // vm.mmap_min_addr: nothing is ever mapped below
constexpr std::uint64_t user_end = 0x0000800000000000; // canonical addresses of user space end here (4-level paging)
constexpr std::uint64_t kernel_begin = 0xffff800000000000;
constexpr std::uint64_t stack_reach = 1u << 20; // how far beyond the end of its stack a frame may reach
constexpr std::uint64_t red_zone = 128;         // below the stack pointer, for a leaf's own use (psABI, 3.2.2)
constexpr std::uint64_t pushed_most = 64;       // bytes an instruction pushes: call 8, enter a few words
constexpr std::uint64_t limits_max = 1u << 20;
constexpr unsigned aligned_least = 16; // bytes: SSE's and what came after may be asked to be aligned
// Those that are of any operand in memory, by their names (Intel SDM, volume 1, 14.9). Others of SSE's are, too.
constexpr std::string_view aligning[] = {"movaps",   "movapd",   "movdqa",   "movntps",  "movntpd",   "movntdq",
                                         "movntdqa", "vmovaps",  "vmovapd",  "vmovdqa",  "vmovdqa32", "vmovdqa64",
                                         "vmovntps", "vmovntpd", "vmovntdq", "vmovntdqa"};

bool canonical(std::uint64_t address) {
    return address < user_end || address >= kernel_begin;
}

// Documentation/arch/x86/x86_64/5level-paging.rst
bool canonical_of_five_levels(std::uint64_t address) {
    constexpr std::uint64_t user_end_of_five = 1ull << 56, kernel_begin_of_five = ~0ull << 56;
    return address < user_end_of_five || address >= kernel_begin_of_five;
}

// Eight printable bytes in a pointer: text was taken for one.
std::string text_in(std::uint64_t value) {
    std::string text(sizeof value, '\0');
    std::memcpy(text.data(), &value, sizeof value);
    while (!text.empty() && text.back() == '\0')
        text.pop_back();
    constexpr std::size_t least = 4;
    const bool readable =
        text.size() >= least && std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
    return readable ? text : std::string();
}

class Fault {
public:
    explicit Fault(const Evidence &evidence)
        : e_(evidence), regs_(*evidence.registers()), address_(evidence.fault_address().value_or(0)) {
        if (const auto *stack = evidence.stack(); stack && !stack->frames.empty())
            frame_ = &stack->frames.front();
        if (evidence.analysis.instruction && evidence.analysis.instruction->address == regs_.rip)
            instruction_ = &*evidence.analysis.instruction;
    }

    std::optional<Claim> judge() const {
        const int number = e_.image.signal;
        const std::string_view code = e_.signal()["code_name"].text();
        if (number == SIGBUS)
            return beyond_file(code);
        if (code == "SI_KERNEL")
            return protection();
        if (auto claim = jumped(code))
            return claim;
        if (auto claim = overflowed())
            return claim;
        if (code == "SEGV_MAPERR" && address_ < null_pages)
            return null_pointer();
        if (code == "SEGV_ACCERR")
            return forbidden();
        if (code == "SEGV_MAPERR")
            return unmapped();
        return std::nullopt;
    }

private:
    const Instruction::Operand *operand() const {
        return instruction_ && instruction_->memory ? &*instruction_->memory : nullptr;
    }

    std::string where() const { return frame_ ? function_text(*frame_) : hex(regs_.rip); }

    std::string instruction_fact() const {
        std::string text = fmt::format("the instruction at {} is \"{}\"", frame_ ? place_text(*frame_) : hex(regs_.rip),
                                       instruction_->text);
        const Instruction::Operand &memory = *operand();
        for (const std::string &name : {memory.base, memory.index})
            if (const auto value = register_value(regs_, name))
                text += fmt::format(", {} is {:#x}", name, *value);
        return text;
    }

    static std::string access(const Instruction::Operand &memory) {
        const std::string verb = memory.write ? (memory.read ? "changes" : "writes") : "reads";
        return memory.bytes ? fmt::format("{} {}", verb, bytes_text(memory.bytes)) : verb;
    }

    // si_addr is within what the operand touches.
    bool operand_met() const {
        const auto *memory = operand();
        return memory && (memory->read || memory->write) && address_ >= memory->address &&
               address_ - memory->address < std::max<std::uint64_t>(memory->bytes, 1);
    }

    // A null pointer is a register that holds 0, with what the program adds to it as a constant.  With an index either
    // register may be the pointer; an address without a register was written down as it is; of thread-local storage and
    // the stack pointer 0 is another matter.
    static bool is_null_pointer(const Instruction::Operand &memory, std::optional<std::uint64_t> base) {
        return base == 0 && memory.index.empty() && memory.segment.empty() && memory.base != "rsp" &&
               memory.base != "esp" && memory.base != "rip";
    }

    std::optional<Claim> null_pointer() const {
        if (!operand_met())
            return std::nullopt;
        const Instruction::Operand &memory = *operand();
        const bool null = is_null_pointer(memory, register_value(regs_, memory.base));
        Claim claim;
        if (!null)
            claim.add<Sentence::low_address>(where(), access(memory), address_, bytes_text(null_pages));
        else if (address_ == 0)
            claim.add<Sentence::null_dereference>(where(), access(memory));
        else
            claim.add<Sentence::null_offset>(where(), access(memory), address_);
        claim.facts = {signal_fact(e_), instruction_fact()};
        const bool named = arguments(claim, null);
        if (instruction_->base_untouched && null && frame_ && !frame_->inlined) {
            if (!named)
                claim.add<Sentence::entered_with_null>(where(), memory.base);
            claim.facts.push_back(
                fmt::format("nothing in {} has written to {} since it was entered", where(), memory.base));
        }
        return claim;
    }

    // Pointer arguments that are null.  In the sentence only the one of the function the fault is in: of several, and
    // of outer functions', nothing says which has to do with it.  Whether the sentence names one.
    bool arguments(Claim &claim, bool null_dereference) const {
        const ThreadStack *stack = e_.stack();
        if (!stack || e_.analysis.argument_frame >= stack->frames.size())
            return false;
        const Frame &frame = stack->frames[e_.analysis.argument_frame];
        const Argument *only = nullptr;
        std::size_t count = 0;
        for (const Argument &argument : e_.analysis.arguments) {
            if (!argument.is_pointer || argument.value != 0 || argument.name.empty())
                continue;
            claim.facts.push_back(
                fmt::format("{} of {} is null ({})", argument.name, function_text(frame), argument.how));
            only = &argument;
            ++count;
        }
        if (!null_dereference || count != 1 || e_.analysis.argument_frame != 0)
            return false;
        claim.add<Sentence::null_argument>(only->name);
        return true;
    }

    std::optional<Claim> protection() const {
        const auto *memory = operand();
        const std::string_view name = instruction_ ? std::string_view(instruction_->text) : std::string_view();
        const std::string_view mnemonic = name.substr(0, name.find(' '));
        if (!memory || !(memory->read || memory->write) || !canonical(memory->address) ||
            memory->bytes < aligned_least || memory->address % memory->bytes == 0 ||
            std::ranges::find(aligning, mnemonic) == std::end(aligning))
            return non_canonical();
        auto claim =
            Claim::of<Sentence::misaligned>(where(), access(*memory), memory->address, memory->bytes, mnemonic);
        claim.facts = {signal_fact(e_) + ": what the processor raises for an address that is not aligned",
                       instruction_fact()};
        return claim;
    }

    std::optional<Claim> non_canonical() const {
        if (e_.image.isa == Isa::i386)
            return std::nullopt; // each of its addresses is canonical
        if (const auto *memory = operand(); memory && (memory->read || memory->write) && !canonical(memory->address)) {
            // With five levels of page tables it may be one, and what the processor minded was how it is aligned.
            const bool unaligned = memory->bytes >= aligned_least && memory->address % memory->bytes != 0;
            if (unaligned && canonical_of_five_levels(memory->address))
                return std::nullopt;
            const auto base = register_value(regs_, memory->base);
            const std::uint64_t pointer = base && !canonical(*base) ? *base : memory->address;
            auto claim = Claim::of<Sentence::impossible_address>(where(), access(*memory), memory->address);
            claim.facts = {signal_fact(e_) + ": what the processor raises for a non-canonical address",
                           instruction_fact()};
            if (const std::string text = text_in(pointer); !text.empty())
                claim.facts.push_back(fmt::format("read as text the pointer is \"{}\"", text));
            return claim;
        }
        if (instruction_ && instruction_->is_return) {
            const auto target = e_.image.memory.word(regs_.rsp);
            if (!target || canonical(*target))
                return std::nullopt;
            auto claim = Claim::of<Sentence::impossible_return>(where(), *target);
            claim.facts = {signal_fact(e_),
                           fmt::format("the instruction is \"{}\" and the stack pointer, {:#x}, points at {:#x}",
                                       instruction_->text, regs_.rsp, *target)};
            if (const std::string text = text_in(*target); !text.empty())
                claim.facts.push_back(fmt::format("read as text that is \"{}\"", text));
            return claim;
        }
        return std::nullopt;
    }

    // The mapping that the address lies in; null: in none known.
    const capture::Mapping *mapped() const { return e_.image.maps.find(UserAddress(address_)); }

    // The address that could not be used is the instruction's own.
    std::optional<Claim> jumped(std::string_view code) const {
        if (regs_.rip != address_)
            return std::nullopt;
        Claim claim;
        const capture::Mapping *mapping = mapped();
        // The kernel's code must agree with the known mapping; if it does not, another thread has changed the mapping.
        const bool unmapped = code == "SEGV_MAPERR";
        if (unmapped && address_ == 0)
            claim.add<Sentence::jump_to_null>();
        else if (unmapped && address_ < null_pages)
            claim.add<Sentence::jump_close_to_null>(address_);
        else if (mapping && code == "SEGV_ACCERR" && !mapping->execute)
            claim.add<Sentence::jump_not_executable>(mapping_text(*mapping));
        else if (!mapping && address_ >= kernel_begin)
            claim.add<Sentence::jump_to_kernel>(address_);
        else if (unmapped && !mapping && e_.image.maps_whole)
            claim.add<Sentence::jump_unmapped>(address_);
        else
            return std::nullopt;
        claim.facts = {signal_fact(e_), fmt::format("the instruction pointer is {:#x} itself", regs_.rip)};
        const ThreadStack *stack = e_.stack();
        if (!stack || stack->frames.size() < 2 || !stack->frames[1].how.starts_with("return address"))
            return claim; // called, jumped or returned: not known
        claim.facts.push_back("on top of the stack is a return address, to " + place_text(stack->frames[1]));
        // A function that was called may have jumped on from there; the call itself leads here only if its operand
        // does.
        if (const auto &call = e_.analysis.call; call && call->target == address_) {
            claim.facts.push_back(fmt::format("before it stands \"{}\", which leads to {:#x}", call->text, address_));
            if (address_ == 0)
                claim.add<Sentence::null_call>();
        }
        return claim;
    }

    // Below the lowest address of the stack it runs on, and by the stack pointer.
    std::optional<Claim> overflowed() const {
        const auto &all = e_.image.maps.all();
        const auto above = std::ranges::upper_bound(all, UserAddress(address_), {}, &capture::Mapping::start);
        const auto at = mapped();
        const bool guard = at && !at->read && !at->write && !at->execute; // pthread_attr_setguardsize(3)
        if (above == all.end() || !above->write || (at && !guard) || (guard && at->end != above->start))
            return std::nullopt;
        // A frame in use lies above its stack pointer, but for the red zone and what the instruction pushes: a write
        // far below that, or from a frame that still has room, went past something else.
        const bool in_frame = address_ + red_zone + pushed_most >= regs_.rsp;
        const std::uint64_t stack = above->start.value;
        const bool at_the_end = regs_.rsp < stack + red_zone + pushed_most && stack - address_ < stack_reach &&
                                stack - std::min<std::uint64_t>(stack, regs_.rsp) < stack_reach;
        if (!in_frame || !at_the_end)
            return std::nullopt;
        // The kernel lets a main thread's stack grow at any access until its limit (expand_stack(), mm/mmap.c);
        // any other thread has what lies above its guard.
        const bool main = above->path == "[stack]";
        const auto limit = e_.limit("Max stack size");
        const std::uint64_t size = above->end - above->start;
        constexpr std::uint64_t slack = 1u << 20; // stack_guard_gap, and what the kernel puts above
        if (main ? limit && size + slack < *limit : !guard)
            return std::nullopt;
        auto claim = Claim::of<Sentence::stack_overflow>(e_.image.threads.front().tid, bytes_text(size));
        claim.facts = {signal_fact(e_),
                       fmt::format("that is {} below the stack, which lies at {:#x}-{:#x}; the stack pointer is {:#x}",
                                   bytes_text(stack - address_), stack, above->end.value, regs_.rsp)};
        if (main && limit)
            claim.facts.push_back(fmt::format("RLIMIT_STACK is {}", bytes_text(*limit)));
        if (guard)
            claim.facts.push_back(
                fmt::format("the address lies in the stack's guard, {:#x}-{:#x}", at->start.value, at->end.value));
        recursion(claim);
        return claim;
    }

    // The same functions over and over: by the distance at which the frames repeat.  That they would have gone on for
    // ever is not known.
    void recursion(Claim &claim) const {
        const ThreadStack *stack = e_.stack();
        constexpr std::size_t period_max = 8, repeats_least = 4;
        if (!stack)
            return;
        std::vector<const Frame *> frames;
        for (const Frame &frame : stack->frames)
            if (!frame.inlined)
                frames.push_back(&frame);
        for (std::size_t period = 1; period <= period_max; ++period) {
            std::size_t same = 1; // the innermost frame is not at a call
            while (same + period < frames.size() && frames[same]->ip == frames[same + period]->ip)
                ++same;
            if (same < period * repeats_least)
                continue;
            std::string names, each;
            for (std::size_t i = 1; i <= period; ++i) {
                names += (names.empty() ? "" : ", called by ") + function_text(*frames[i]);
                each += (i == 1 ? "" : i == period ? " and " : ", ") + function_text(*frames[i]);
            }
            if (period == 1)
                claim.add<Sentence::calls_itself>(names);
            else
                claim.add<Sentence::call_one_another>(each);
            claim.facts.push_back(fmt::format("the same {} frame{} repeat{} at least {} times: {}", period,
                                              period == 1 ? "" : "s", period == 1 ? "s" : "", same / period, names));
            return;
        }
    }

    // Mapped, but not for this.
    std::optional<Claim> forbidden() const {
        const capture::Mapping *mapping = mapped();
        if (!mapping || !operand_met())
            return std::nullopt;
        const Instruction::Operand &memory = *operand();
        Claim claim;
        if (memory.write && !mapping->write && mapping->read)
            claim.add<Sentence::read_only_memory>(where(), access(memory), mapping_text(*mapping));
        else if (!mapping->read && !mapping->write)
            claim.add<Sentence::no_permission>(where(), access(memory), mapping_text(*mapping));
        else
            return std::nullopt;
        claim.facts = {signal_fact(e_), instruction_fact(),
                       fmt::format("the address lies in {:#x}-{:#x} {}", mapping->start.value, mapping->end.value,
                                   mapping_text(*mapping))};
        return claim;
    }

    // Not mapped; since a recorded munmap(2), where there is one.
    std::optional<Claim> unmapped() const {
        if (!operand_met() || !e_.image.maps_whole || mapped())
            return std::nullopt;
        Claim claim;
        if (address_ >= kernel_begin)
            claim.add<Sentence::kernels_address>(where(), access(*operand()), address_);
        else
            claim.add<Sentence::nothing_mapped>(where(), access(*operand()), address_);
        claim.facts = {signal_fact(e_), instruction_fact()};
        if (const auto base = register_value(regs_, operand()->base))
            if (const std::string text = text_in(*base); !text.empty())
                claim.facts.push_back(fmt::format("read as text the pointer is \"{}\"", text));
        // Whether the pointer was meant for what lay there, or ran into it from elsewhere, is not known.
        if (auto munmap = munmap_of(e_, address_)) {
            if (munmap->was_mapped)
                claim.add<Sentence::since_munmap>();
            claim.facts.push_back(std::move(munmap->fact));
        }
        return claim;
    }

    // mmap(2): SIGBUS for a page of the mapping that lies beyond the end of the file; also where reading it failed
    std::optional<Claim> beyond_file(std::string_view code) const {
        const capture::Mapping *mapping = mapped();
        if (code != "BUS_ADRERR" || !mapping || !mapping->is_file())
            return std::nullopt;
        auto claim = Claim::of<Sentence::no_file_page>(mapping->path);
        claim.facts = {
            signal_fact(e_),
            fmt::format("the address lies {} into the mapping {:#x}-{:#x} of {}, at offset {:#x} of the file",
                        bytes_text(address_ - mapping->start.value), mapping->start.value, mapping->end.value,
                        mapping->path, mapping->offset_of(UserAddress(address_)).value)};
        return claim;
    }

    const Evidence &e_;
    const user_regs_struct &regs_;
    std::uint64_t address_;
    const Frame *frame_ = nullptr;
    const Instruction *instruction_ = nullptr;
};

} // namespace

std::optional<Claim> judge_fault(const Evidence &evidence) {
    if ((evidence.image.signal != SIGSEGV && evidence.image.signal != SIGBUS) || !evidence.is_fault() ||
        !evidence.registers())
        return std::nullopt;
    return Fault(evidence).judge();
}

} // namespace incident::postmortem
