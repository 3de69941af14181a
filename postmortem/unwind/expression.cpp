#include "postmortem/unwind/expression.h"

#include <dwarf.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace incident::postmortem {

namespace {

Location unknown(std::string why, std::optional<std::uint64_t> unread = std::nullopt) {
    return {Location::Kind::unknown, 0, std::move(why), unread};
}

class Machine {
public:
    Machine(std::span<const Dwarf_Op> code, const ExpressionContext &context) : code_(code), context_(context) {}

    Location run(bool is_location) {
        if (code_.empty())
            return {Location::Kind::absent, 0, "optimized out", std::nullopt};
        for (std::size_t at = 0, steps = 0; at < code_.size(); ++steps) {
            if (steps >= expression_steps_max)
                return unknown("its expression does not end");
            const Dwarf_Op &op = code_[at];
            // Registers as locations stand alone; what follows could only be a piece.
            if (is_location && at == 0 && code_.size() == 1) {
                if (op.atom >= DW_OP_reg0 && op.atom <= DW_OP_reg31)
                    return in_register(op.atom - DW_OP_reg0);
                if (op.atom == DW_OP_regx)
                    return in_register(op.number);
            }
            if (is_location && op.atom == DW_OP_stack_value && at + 1 == code_.size())
                return top(Location::Kind::computed);
            std::size_t next = at + 1;
            if (!step(op, next))
                return std::move(failure_);
            at = next;
        }
        return top(is_location ? Location::Kind::memory : Location::Kind::computed);
    }

private:
    Location in_register(std::uint64_t number) const {
        return {Location::Kind::in_register, place_of(number, isa_), "", std::nullopt};
    }
    Location top(Location::Kind kind) {
        return stack_.empty() ? unknown("its expression leaves nothing")
                              : Location{kind, stack_.back(), "", std::nullopt};
    }
    bool fails(std::string why, std::optional<std::uint64_t> unread = std::nullopt) {
        failure_ = unknown(std::move(why), unread);
        return false;
    }
    bool push(std::uint64_t value) {
        if (stack_.size() >= expression_stack_max)
            return fails("its expression needs too much stack");
        stack_.push_back(value & capture::word_mask(isa_)); // as wide as an address (DWARF 5, 2.5.1)
        return true;
    }
    std::int64_t is_signed(std::uint64_t value) const {
        return isa_ == Isa::i386 ? static_cast<std::int32_t>(value) : static_cast<std::int64_t>(value);
    }
    bool push_register(std::uint64_t number, std::uint64_t offset) {
        const unsigned place = place_of(number, isa_);
        if (place >= context_.registers.size())
            return fails(fmt::format("register {} is not captured", number));
        if (!context_.registers[place])
            return fails(fmt::format("{} is not known there", register_name(place, isa_)));
        return push(*context_.registers[place] + offset);
    }
    bool push_memory(std::uint64_t address, std::size_t bytes) {
        if (bytes == 0 || bytes > sizeof(std::uint64_t))
            return fails("its expression reads an odd size");
        const auto value = context_.memory.number(address, bytes);
        return value ? push(*value) : fails(fmt::format("memory at {:#x} was not captured", address), address);
    }
    bool pop(std::uint64_t &value) {
        if (stack_.empty())
            return fails("its expression needs more than there is");
        value = stack_.back();
        stack_.pop_back();
        return true;
    }
    // DW_OP_skip, DW_OP_bra: to the operation at that byte of the expression, or to its end.
    bool jump(const Dwarf_Op &op, std::size_t &next) {
        const Dwarf_Word target = op.offset + 3 + static_cast<Dwarf_Word>(static_cast<std::int16_t>(op.number));
        const auto found = std::ranges::lower_bound(code_, target, {}, &Dwarf_Op::offset);
        if (found == code_.end())
            next = code_.size();
        else if (found->offset == target)
            next = static_cast<std::size_t>(found - code_.begin());
        else
            return fails("its expression jumps into an operation");
        return true;
    }
    bool step(const Dwarf_Op &op, std::size_t &next);
    bool arithmetic(const Dwarf_Op &op);
    bool shuffle(const Dwarf_Op &op);

    std::span<const Dwarf_Op> code_;
    const ExpressionContext &context_;
    const Isa isa_ = context_.memory.isa();
    std::vector<std::uint64_t> stack_;
    Location failure_;
};

bool Machine::step(const Dwarf_Op &op, std::size_t &next) {
    std::uint64_t value = 0;
    if (op.atom >= DW_OP_lit0 && op.atom <= DW_OP_lit31)
        return push(op.atom - DW_OP_lit0);
    if (op.atom >= DW_OP_breg0 && op.atom <= DW_OP_breg31)
        return push_register(op.atom - DW_OP_breg0, op.number);
    switch (op.atom) {
    case DW_OP_nop:
        return true;
    case DW_OP_addr:
        return push((LinkAddress(op.number) + context_.bias).value);
    case DW_OP_const1u:
    case DW_OP_const1s:
    case DW_OP_const2u:
    case DW_OP_const2s:
    case DW_OP_const4u:
    case DW_OP_const4s:
    case DW_OP_const8u:
    case DW_OP_const8s:
    case DW_OP_constu:
    case DW_OP_consts:
        return push(op.number); // libdw has sign-extended it
    case DW_OP_bregx:
        return push_register(op.number, op.number2);
    case DW_OP_fbreg: {
        const auto base = context_.frame_base ? context_.frame_base() : std::nullopt;
        return base ? push(*base + op.number) : fails("its frame base is not known");
    }
    case DW_OP_call_frame_cfa:
        return context_.cfa ? push(*context_.cfa) : fails("the frame's address is not known");
    case DW_OP_deref:
        return pop(value) && push_memory(value, capture::word_bytes(isa_));
    case DW_OP_deref_size:
        return pop(value) && push_memory(value, op.number);
    case DW_OP_skip:
        return jump(op, next);
    case DW_OP_bra:
        return pop(value) && (value == 0 || jump(op, next));
    case DW_OP_dup:
    case DW_OP_drop:
    case DW_OP_over:
    case DW_OP_pick:
    case DW_OP_swap:
    case DW_OP_rot:
        return shuffle(op);
    case DW_OP_entry_value:
    case DW_OP_GNU_entry_value:
        return fails("optimized out (only its value at entry, which is not kept)");
    case DW_OP_piece:
    case DW_OP_bit_piece:
        return fails("in pieces");
    case DW_OP_implicit_pointer:
    case DW_OP_GNU_implicit_pointer:
    case DW_OP_implicit_value:
        return fails("optimized out");
    case DW_OP_form_tls_address:
    case DW_OP_GNU_push_tls_address:
        return fails("thread-local");
    default:
        return arithmetic(op);
    }
}

bool Machine::shuffle(const Dwarf_Op &op) {
    const std::size_t needed = op.atom == DW_OP_rot                             ? 3
                               : op.atom == DW_OP_over || op.atom == DW_OP_swap ? 2
                               : op.atom == DW_OP_pick                          ? std::size_t{op.number & 0xff} + 1
                                                                                : 1;
    if (stack_.size() < needed)
        return fails("its expression needs more than there is");
    switch (op.atom) {
    case DW_OP_dup:
        return push(stack_.back());
    case DW_OP_drop:
        stack_.pop_back();
        return true;
    case DW_OP_swap:
        std::swap(stack_[stack_.size() - 1], stack_[stack_.size() - 2]);
        return true;
    case DW_OP_rot: // the top becomes the third
        std::rotate(stack_.end() - 3, stack_.end() - 1, stack_.end());
        return true;
    default: // over, pick
        return push(stack_[stack_.size() - (op.atom == DW_OP_over ? 2 : needed)]);
    }
}

bool Machine::arithmetic(const Dwarf_Op &op) {
    std::uint64_t b = 0, a = 0;
    const auto binary = [&] { return pop(b) && pop(a); };
    switch (op.atom) {
    case DW_OP_abs:
        return pop(a) && push(is_signed(a) < 0 ? 0 - a : a);
    case DW_OP_neg:
        return pop(a) && push(0 - a);
    case DW_OP_not:
        return pop(a) && push(~a);
    case DW_OP_plus_uconst:
        return pop(a) && push(a + op.number);
    case DW_OP_plus:
        return binary() && push(a + b);
    case DW_OP_minus:
        return binary() && push(a - b);
    case DW_OP_mul:
        return binary() && push(a * b);
    case DW_OP_and:
        return binary() && push(a & b);
    case DW_OP_or:
        return binary() && push(a | b);
    case DW_OP_xor:
        return binary() && push(a ^ b);
    case DW_OP_shl:
        return binary() && push(b < 64 ? a << b : 0);
    case DW_OP_shr:
        return binary() && push(b < 64 ? a >> b : 0);
    case DW_OP_shra:
        return binary() && push(static_cast<std::uint64_t>(is_signed(a) >> std::min<std::uint64_t>(b, 63)));
    case DW_OP_div:
        if (!binary())
            return false;
        if (b == 0 || (is_signed(b) == -1 && is_signed(a) == INT64_MIN))
            return fails("its expression divides by zero");
        return push(static_cast<std::uint64_t>(is_signed(a) / is_signed(b)));
    case DW_OP_mod:
        return binary() && (b == 0 ? fails("its expression divides by zero") : push(a % b));
    case DW_OP_eq:
        return binary() && push(a == b);
    case DW_OP_ne:
        return binary() && push(a != b);
    case DW_OP_lt:
        return binary() && push(is_signed(a) < is_signed(b));
    case DW_OP_le:
        return binary() && push(is_signed(a) <= is_signed(b));
    case DW_OP_gt:
        return binary() && push(is_signed(a) > is_signed(b));
    case DW_OP_ge:
        return binary() && push(is_signed(a) >= is_signed(b));
    default:
        return fails(fmt::format("DWARF operation {:#x} is not supported", op.atom));
    }
}

} // namespace

Location locate(std::span<const Dwarf_Op> expression, const ExpressionContext &context) {
    return Machine(expression, context).run(true);
}

Location compute(std::span<const Dwarf_Op> expression, const ExpressionContext &context) {
    return Machine(expression, context).run(false);
}

} // namespace incident::postmortem
