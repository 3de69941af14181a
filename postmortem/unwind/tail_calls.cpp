#include "postmortem/unwind/tail_calls.h"

#include "postmortem/unwind/names.h"

#include <dwarf.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

namespace incident::postmortem {

namespace {

constexpr std::size_t sites_max = 4096;             // calls of one function
constexpr std::size_t visits_max = 2048;            // calls followed in one search; beyond that nothing is certain
constexpr std::size_t function_dies_max = 1u << 20; // of one function
constexpr unsigned call_depth_max = 128;

struct Call {
    UserAddress pc; // behind it
    bool tail = false;
    std::optional<UserAddress> target;
    std::string target_name; // or the linker's name of it
};

struct Function {
    UserAddress entry; // 0: not known
    std::vector<Call> calls;
    bool all_tail_calls = false; // the compiler says that none is missing
};

// integrate: also of what the DIE is an instance or a definition of
bool flag_of(Dwarf_Die *die, unsigned name, bool integrate = false) {
    Dwarf_Attribute attribute;
    bool flag = false;
    const bool there = integrate ? dwarf_attr_integrate(die, name, &attribute) : dwarf_attr(die, name, &attribute);
    return there && dwarf_formflag(&attribute, &flag) == 0 && flag;
}

std::optional<LinkAddress> address_of(Dwarf_Die *die, unsigned name) {
    Dwarf_Attribute attribute;
    Dwarf_Addr address = 0;
    if (!dwarf_attr(die, name, &attribute) || dwarf_formaddr(&attribute, &address) != 0)
        return std::nullopt;
    return LinkAddress(address);
}

class TailCallSearch {
public:
    explicit TailCallSearch(ModuleSet &modules) : modules_(modules) {}
    std::vector<UserAddress> run(UserAddress return_address, UserAddress callee);

private:
    std::optional<Function> function_at(UserAddress address);
    std::optional<Call> call_of(Dwarf_Die *die, LoadBias bias);
    void collect(Dwarf_Die *parent, LoadBias bias, unsigned depth, Function &function);
    std::optional<UserAddress> target_of(const Call &call);
    void candidate(const std::vector<UserAddress> &chain);
    bool follow(const Call &call, std::vector<UserAddress> &chain);

    ModuleSet &modules_;
    UserAddress callee_; // 0: not known
    std::size_t callee_module_ = ModuleSet::none, left_ = function_dies_max, visits_ = 0;
    std::set<UserAddress> entered_;
    // The chains found so far agree on this: the first one, and how much of it from either end.
    std::optional<std::vector<UserAddress>> result_;
    std::size_t callers_ = 0, callees_ = 0;
};

// A DW_TAG_call_site of DWARF 5, or the GNU extension it was made of.
std::optional<Call> TailCallSearch::call_of(Dwarf_Die *die, LoadBias bias) {
    Call call;
    auto pc = address_of(die, DW_AT_call_return_pc);
    if (!pc)
        pc = address_of(die, DW_AT_call_pc);
    if (!pc)
        pc = address_of(die, DW_AT_low_pc);
    if (!pc)
        return std::nullopt;
    call.pc = *pc + bias;
    call.tail = flag_of(die, DW_AT_call_tail_call) || flag_of(die, DW_AT_GNU_tail_call);
    Dwarf_Attribute attribute;
    if (dwarf_hasattr(die, DW_AT_call_target) || dwarf_hasattr(die, DW_AT_GNU_call_site_target))
        return call; // through a pointer
    if (!dwarf_attr(die, DW_AT_call_origin, &attribute) && !dwarf_attr(die, DW_AT_abstract_origin, &attribute))
        return call;
    Dwarf_Die target;
    if (!dwarf_formref_die(&attribute, &target))
        return call;
    Dwarf_Attribute specification;
    if (flag_of(&target, DW_AT_declaration, true) &&
        !dwarf_attr_integrate(&target, DW_AT_specification, &specification)) {
        const char *name = nullptr;
        if (dwarf_attr_integrate(&target, DW_AT_linkage_name, &attribute))
            name = dwarf_formstring(&attribute);
        if (!name)
            name = dwarf_diename(&target);
        call.target_name = name ? name : "";
    } else if (const LinkAddress entry = entry_of(&target); entry.value) {
        call.target = entry + bias;
    }
    return call;
}

void TailCallSearch::collect(Dwarf_Die *parent, LoadBias bias, unsigned depth, Function &function) {
    Dwarf_Die die;
    if (depth > call_depth_max || dwarf_child(parent, &die) != 0)
        return;
    do {
        if (left_ == 0 || function.calls.size() >= sites_max)
            return;
        --left_;
        const int tag = dwarf_tag(&die);
        if (tag == DW_TAG_call_site || tag == DW_TAG_GNU_call_site) {
            if (auto call = call_of(&die, bias))
                function.calls.push_back(std::move(*call));
        } else if (tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_try_block ||
                   tag == DW_TAG_catch_block) {
            collect(&die, bias, depth + 1, function);
        }
    } while (dwarf_siblingof(&die, &die) == 0);
}

std::optional<Function> TailCallSearch::function_at(UserAddress address) {
    const std::size_t index = modules_.index_at(address);
    ElfModule *module = index == ModuleSet::none ? nullptr : modules_.elf(index);
    DebugInfo *debug = module ? modules_.debug(index) : nullptr;
    if (!debug)
        return std::nullopt;
    const auto scope = modules_.parsing(index, Part::debug);
    Dwarf_Die unit, die;
    if (!debug->function_at(address - module->bias(), unit, die))
        return std::nullopt;
    Function function;
    if (const LinkAddress entry = entry_of(&die); entry.value)
        function.entry = entry + module->bias();
    for (const unsigned complete :
         {DW_AT_call_all_calls, DW_AT_call_all_tail_calls, DW_AT_GNU_all_call_sites, DW_AT_GNU_all_tail_call_sites})
        function.all_tail_calls = function.all_tail_calls || flag_of(&die, complete);
    collect(&die, module->bias(), 0, function);
    return function;
}

std::optional<UserAddress> TailCallSearch::target_of(const Call &call) {
    if (call.target || call.target_name.empty())
        return call.target;
    const auto called = [&](std::size_t index, const auto &look) {
        ElfModule *module = modules_.elf(index);
        const auto scope = modules_.parsing(index, Part::file);
        return module ? look(*module) : std::optional<UserAddress>();
    };
    if (callee_module_ != ModuleSet::none)
        if (const auto own = called(callee_module_, [&](ElfModule &module) {
                return module.symbols().is_called(callee_ - module.bias(), call.target_name) ? std::optional(callee_)
                                                                                             : std::nullopt;
            }))
            return own;
    for (std::size_t index = 0; index < modules_.size(); ++index)
        if (modules_.is_on_stack(index))
            if (const auto found = called(index, [&](ElfModule &module) {
                    auto address = module.symbols().address_of(call.target_name);
                    return address ? std::optional(*address + module.bias()) : std::nullopt;
                }))
                return found;
    return std::nullopt;
}

void TailCallSearch::candidate(const std::vector<UserAddress> &chain) {
    if (!result_) {
        result_ = chain;
        callers_ = callees_ = chain.size();
        return;
    }
    const std::size_t shorter = std::min(chain.size(), result_->size());
    std::size_t same = 0;
    while (same < std::min(callers_, shorter) && chain[same] == (*result_)[same])
        ++same;
    callers_ = same;
    same = 0;
    while (same < std::min(callees_, shorter) &&
           chain[chain.size() - 1 - same] == (*result_)[result_->size() - 1 - same])
        ++same;
    callees_ = same;
}

// false: something on the way cannot be told, so nothing is certain.
bool TailCallSearch::follow(const Call &call, std::vector<UserAddress> &chain) {
    if (++visits_ > visits_max)
        return false;
    const auto target = target_of(call);
    if (!target)
        return false;
    if (*target == callee_) {
        candidate(chain);
        return true;
    }
    const auto function = function_at(*target);
    if (!function || function->entry != *target)
        return false;
    if (!function->all_tail_calls)
        return true; // gdb keeps no list of them then
    for (const Call &next : function->calls) {
        if (!next.tail || !entered_.insert(next.pc).second)
            continue;
        chain.push_back(next.pc);
        const bool certain = chain.size() <= call_depth_max && follow(next, chain);
        chain.pop_back();
        entered_.erase(next.pc);
        if (!certain)
            return false;
    }
    return true;
}

std::vector<UserAddress> TailCallSearch::run(UserAddress return_address, UserAddress callee) {
    const auto caller = function_at(return_address - 1);
    if (!caller)
        return {};
    const auto call = std::ranges::find(caller->calls, return_address, &Call::pc);
    if (call == caller->calls.end())
        return {};
    callee_module_ = modules_.index_at(callee);
    if (const auto function = function_at(callee)) {
        callee_ = function->entry;
    } else if (ElfModule *module = callee_module_ == ModuleSet::none ? nullptr : modules_.elf(callee_module_)) {
        const auto scope = modules_.parsing(callee_module_, Part::file);
        const Symbol *symbol = module->symbols().function_at(callee - module->bias());
        callee_ = symbol ? symbol->address + module->bias() : UserAddress();
    }
    std::vector<UserAddress> chain;
    if (callee_.value == 0 || !follow(*call, chain) || !result_)
        return {};
    if (callers_ == result_->size())
        return {result_->rbegin(), result_->rend()};
    std::vector<UserAddress> known(result_->rbegin(), result_->rbegin() + static_cast<std::ptrdiff_t>(callees_));
    for (std::size_t i = callers_; i > 0; --i)
        known.push_back((*result_)[i - 1]);
    return known;
}

} // namespace

std::vector<UserAddress> tail_calls(ModuleSet &modules, UserAddress return_address, UserAddress callee) {
    return TailCallSearch(modules).run(return_address, callee);
}

} // namespace incident::postmortem
