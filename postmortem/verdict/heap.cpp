// Judges what the recorded heap proves: use after free, double free, access past the end. It makes a claim only if the
// records leave no doubt.
#include "postmortem/verdict/evidence.h"

#include "postmortem/heap/double_free.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace incident::postmortem {

namespace {

constexpr std::uint64_t lowest_pointer = 65536;     // below it a value may be anything's
constexpr std::uint64_t looked_through = 64u << 10; // bytes of a freed allocation
constexpr std::string_view allocator[] = {"malloc_printerr",
                                          "_int_free",
                                          "_int_malloc",
                                          "_int_realloc",
                                          "free",
                                          "malloc",
                                          "realloc",
                                          "calloc",
                                          "__libc_free",
                                          "__libc_malloc",
                                          "__libc_realloc",
                                          "__libc_calloc",
                                          "__GI___libc_free",
                                          "__GI___libc_malloc",
                                          "__GI___libc_realloc",
                                          "munmap_chunk",
                                          "unlink_chunk",
                                          "malloc_consolidate",
                                          "operator delete",
                                          "operator new"};

class HeapJudge {
public:
    explicit HeapJudge(const Evidence &evidence) : e_(evidence), heap_(*evidence.heap), words_(heap_.words) {}

    std::optional<Claim> fault() const {
        if (!e_.registers() || !e_.is_fault() || (e_.image.signal != SIGSEGV && e_.image.signal != SIGBUS))
            return std::nullopt;
        if (operand() && !operand_met()) // the instruction has another one, which it was
            return std::nullopt;
        for (const auto &[name, value] : operand_registers())
            if (auto claim = used_after_free(name, value))
                return claim;
        if (auto claim = loaded_from_freed())
            return claim;
        for (const auto &[name, value] : operand_registers())
            if (auto claim = out_of_bounds(name, value))
                return claim;
        return in_allocator() ? any_double_free() : std::nullopt;
    }

    std::optional<Claim> abort() const {
        if (!aborted_by_allocator())
            return std::nullopt;
        const capture::HeapHistoryRecord *last = heap_.last_call(e_.image.threads.front().tid);
        if (last && last->kind == bpf::HEAP_FREED)
            if (const Biography *of = heap_.of(last->address)) {
                if (of->life && of->where == Biography::Where::inside && of->offset == 0 &&
                    !of->life->freed_again.empty() && of->life->freed_again.back().t_ns == last->t_ns)
                    return freed_twice(*of->life, of->life->freed_again.back());
                if (of->where == Biography::Where::inside && of->offset != 0 && of->life->alive_at(words_.t_ns) &&
                    (last->flags & bpf::HEAP_UNKNOWN) && nothing_missed())
                    return freed_within(*of, *last);
            }
        return any_double_free();
    }

    // Nothing is proven, but what the allocator was about is known.
    std::optional<Claim> check() const {
        if (!aborted_by_allocator())
            return std::nullopt;
        const capture::HeapHistoryRecord *last = e_.free_under_way();
        const Biography *of = last ? heap_.of(last->address) : nullptr;
        if (!of || !of->life || of->where != Biography::Where::inside)
            return std::nullopt;
        auto claim = Claim::of<Sentence::about_to_free>(last->address, where_text(*of, words_));
        claim.facts = life_lines(*of, words_);
        claim.facts.emplace_back(
            "glibc keeps its own words just before and behind an allocation, and checks them: a write "
            "past the end of this one, or of the one just below, would change them");
        return claim;
    }

private:
    using Named = std::pair<std::string, std::uint64_t>;

    const Instruction::Operand *operand() const {
        const auto &instruction = e_.analysis.instruction;
        if (!instruction || instruction->address != e_.registers()->rip || !instruction->memory)
            return nullptr;
        return instruction->memory->read || instruction->memory->write ? &*instruction->memory : nullptr;
    }

    // True if the faulting address is within the bytes that the operand accesses.
    bool operand_met() const {
        const auto address = e_.fault_address();
        const auto *memory = operand();
        return !address ||
               (*address >= memory->address && *address - memory->address < std::max<std::uint64_t>(memory->bytes, 1));
    }

    std::vector<Named> operand_registers() const {
        std::vector<Named> named;
        if (const auto *memory = operand())
            for (const std::string &name : {memory->base, memory->index})
                if (const auto value = register_value(*e_.registers(), name))
                    named.emplace_back(name, *value);
        return named;
    }

    // A general protection fault has no address; the operand has.
    std::uint64_t touched() const {
        const auto address = e_.fault_address();
        return address ? *address : operand()->address;
    }

    std::string where() const {
        const auto *stack = e_.stack();
        return stack && !stack->frames.empty() ? function_text(stack->frames.front()) : hex(e_.registers()->rip);
    }

    std::string access() const {
        const auto *memory = operand();
        const std::string verb = memory->write ? (memory->read ? "changes" : "writes") : "reads";
        return memory->bytes ? fmt::format("{} {}", verb, bytes_text(memory->bytes)) : verb;
    }

    bool in_allocator() const {
        const auto *stack = e_.stack();
        return stack && !stack->frames.empty() &&
               std::ranges::find(allocator, stack->frames.front().symbol) != std::end(allocator);
    }

    bool aborted_by_allocator() const {
        const bool own = e_.sender() == e_.image.pid && e_.signal()["code_name"].text() == "SI_TKILL";
        const std::string &message = e_.image.abort_message;
        return e_.image.signal == SIGABRT && own && !e_.image.threads.empty() &&
               (e_.frame_of(allocator) != nullptr || message.find("free()") != std::string::npos ||
                message.find("malloc") != std::string::npos);
    }

    // One alive now lies where the freed one did: the pointer may be meant for that.
    static bool overlapped(const Biography &biography) {
        return biography.below && biography.below->past_end() > biography.life->start;
    }

    // One alive ends just below: the pointer may have run past the end of that.
    bool run_into(const Biography &biography) const {
        return biography.below && touched() - biography.below->past_end() < heap_near;
    }

    // Every call of every function that gives memory out or takes it back has left its record.
    bool nothing_missed() const {
        const bool all_probed = std::ranges::all_of(heap_.heap.known.functions, &capture::HeapFunction::probed);
        return all_probed && heap_.heap.unrecorded() == 0 && heap_.heap.known.level == "history";
    }

    // Adds the reservation that a claim needs if records may be missing.
    void add_unless_missed(Claim &claim) const {
        const std::uint64_t unrecorded = heap_.heap.unrecorded();
        if (!nothing_missed())
            claim.add<Sentence::unless_unrecorded>(unrecorded ? fmt::format("{} calls", unrecorded) : "the calls");
    }

    std::string freed_words(const Life &life) const {
        const std::string place = words_.place(life.freed->stack);
        return fmt::format("freed {}{}", when_text(life.freed->t_ns, words_), place.empty() ? "" : " by " + place);
    }

    std::string size_words(const Life &life) const {
        return life.size_known ? fmt::format("an allocation of {} bytes", life.size) : "an allocation";
    }

    void add_life(Claim &claim, const Biography &biography, const std::string &what) const {
        claim.facts.push_back(fmt::format("{} {:#x} is {}", what, biography.address, where_text(biography, words_)));
        std::ranges::copy(life_lines(biography, words_), std::back_inserter(claim.facts));
    }

    std::optional<Claim> used_after_free(const std::string &name, std::uint64_t value) const {
        const Biography *of = heap_.of(value);
        if (!of || !of->inside_freed() || overlapped(*of) || run_into(*of) || of->life->resized_to)
            return std::nullopt;
        const Life &life = *of->life;
        const std::uint64_t address = touched();
        Claim claim;
        if (life.covers(address))
            claim.add<Sentence::used_after_free>(where(), access(), address - life.start, size_words(life),
                                                 freed_words(life));
        else
            claim.add<Sentence::used_after_free_near>(where(), access(), size_words(life), freed_words(life));
        add_unless_missed(claim);
        claim.facts = {signal_fact(e_)};
        add_life(claim, *of, name);
        return claim;
    }

    // The pointer that was followed, or jumped to, is what stands in an allocation that was freed.
    std::optional<Claim> loaded_from_freed() const {
        std::vector<Named> bad = operand_registers();
        const capture::Mapping *code = e_.image.maps.find(UserAddress(e_.registers()->rip));
        if (!operand() && (!code || !code->execute))
            bad.emplace_back("rip", e_.registers()->rip);
        for (const auto &[name, value] : bad)
            for (const HeapPointer &pointer : heap_.pointers) {
                const Biography &of = pointer.biography;
                if (value < lowest_pointer || !of.inside_freed() || overlapped(of) || of.life->resized_to ||
                    !of.life->size_known)
                    continue;
                const auto offset = found_in(*of.life, value);
                if (!offset || !written_by_free(*offset))
                    continue;
                auto claim = Claim::of<Sentence::freed_pointer_followed>(where(), *offset, size_words(*of.life),
                                                                         freed_words(*of.life));
                add_unless_missed(claim);
                claim.facts = {signal_fact(e_), fmt::format("{} is {:#x}, which is what stands at offset {} of the "
                                                            "freed allocation",
                                                            name, value, *offset)};
                add_life(claim, of, pointer.at.front());
                return claim;
            }
        return std::nullopt;
    }

    // glibc's free() keeps its list and a key in the first two words, so the program cannot have copied them before the
    // free. Words after these may have been copied before the free.
    bool written_by_free(std::uint64_t offset) const {
        return offset < 2 * sizeof(std::uint64_t) &&
               std::ranges::none_of(heap_.heap.known.functions, [](const capture::HeapFunction &function) {
                   const std::string_view path = function.path, file = path.substr(path.rfind('/') + 1);
                   return function.name == "free" && !file.starts_with("libc.so") && !file.starts_with("libc-");
               });
    }

    std::optional<std::uint64_t> found_in(const Life &life, std::uint64_t value) const {
        constexpr std::uint64_t word = sizeof value;
        for (std::uint64_t at = 0; at + word <= std::min(life.size, looked_through); at += word)
            if (e_.image.memory.word(life.start + at) == value)
                return at;
        return std::nullopt;
    }

    // The instruction's own pointer lies in an allocation, what it touched does not.
    std::optional<Claim> out_of_bounds(const std::string &name, std::uint64_t value) const {
        const Biography *of = heap_.of(value);
        const std::uint64_t address = touched();
        if (!of || !of->life || !of->life->alive_at(words_.t_ns) || of->life->covers(address) ||
            !of->life->size_known || !e_.fault_address())
            return std::nullopt;
        const Biography *there = heap_.of(address);
        if (there && there->where == Biography::Where::inside && there->life->alive_at(words_.t_ns))
            return std::nullopt;
        const Life &life = *of->life;
        const bool under = address < life.start;
        const std::uint64_t distance = under ? life.start - address : address - life.past_end();
        Claim claim;
        // With an index the other register may be what leads from here to where it was meant to.
        if (!operand()->index.empty())
            under ? claim.add<Sentence::reached_before>(where(), access(), distance, size_words(life), name)
                  : claim.add<Sentence::reached_past>(where(), access(), distance, size_words(life), name);
        else
            under ? claim.add<Sentence::underrun>(where(), access(), distance, size_words(life))
                  : claim.add<Sentence::overrun>(where(), access(), distance, size_words(life));
        claim.facts = {signal_fact(e_)};
        add_life(claim, *of, name);
        return claim;
    }

    Claim freed_twice(const Life &life, const HeapEvent &again) const {
        const std::string second = words_.place(again.stack), first = words_.place(life.freed->stack);
        auto claim = Claim::of<Sentence::freed_twice>(life.start, size_words(life), first.empty() ? "" : " by " + first,
                                                      between(life.freed->t_ns, again.t_ns),
                                                      second.empty() ? "" : " by " + second);
        add_unless_missed(claim);
        claim.facts = {"freed " + event_text(*life.freed, words_), "freed again " + event_text(again, words_)};
        if (life.allocated)
            claim.facts.insert(claim.facts.begin(), "allocated " + event_text(*life.allocated, words_));
        if (const std::uint64_t unrecorded = heap_.heap.unrecorded())
            claim.facts.push_back(
                fmt::format("{} calls were not recorded; one of them may have allocated it in between", unrecorded));
        return claim;
    }

    std::string between(std::uint64_t from, std::uint64_t to) const {
        HeapWords then = words_;
        then.t_ns = to;
        std::string text = when_text(from, then);
        return text.substr(0, text.rfind(' '));
    }

    Claim freed_within(const Biography &of, const capture::HeapHistoryRecord &last) const {
        auto claim = Claim::of<Sentence::freed_in_the_middle>(of.address, where_text(of, words_));
        claim.facts = {"freed " + event_text({last.t_ns, last.stack, last.tid, last.function}, words_)};
        std::ranges::copy(life_lines(of, words_), std::back_inserter(claim.facts));
        return claim;
    }

    // A double free by any thread, because the allocator need not notice it at once. It proves nothing if an allocation
    // in between may be unrecorded.
    std::optional<Claim> any_double_free() const {
        if (!nothing_missed())
            return std::nullopt;
        const auto twice = last_double_free(heap_.heap, words_.t_ns);
        if (!twice)
            return std::nullopt;
        return freed_twice(*twice, twice->freed_again.back());
    }

    const Evidence &e_;
    const HeapFindings &heap_;
    const HeapWords &words_;
};

} // namespace

std::optional<Claim> judge_heap(const Evidence &evidence) {
    if (!evidence.heap)
        return std::nullopt;
    const HeapJudge judge(evidence);
    if (auto claim = judge.fault())
        return claim;
    return judge.abort();
}

std::optional<Claim> judge_heap_check(const Evidence &evidence) {
    if (!evidence.heap || judge_heap(evidence))
        return std::nullopt;
    return HeapJudge(evidence).check();
}

} // namespace incident::postmortem
