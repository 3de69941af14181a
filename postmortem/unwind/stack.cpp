#include "postmortem/unwind/stack.h"

#include "postmortem/unwind/code_makers.h"
#include "postmortem/unwind/language_names.h"
#include "postmortem/unwind/names.h"
#include "postmortem/unwind/plt.h"
#include "postmortem/unwind/tail_calls.h"

#include <fmt/format.h>

namespace incident::postmortem {

namespace {

constexpr std::string_view no_registers = "registers not captured";

// Module, build-id and offset: what the mappings alone tell.
void locate_frame(Frame &frame, const CrashImage &image, UserAddress address) {
    const capture::Mapping *mapping = image.maps.find(address);
    if (!mapping)
        return;
    frame.module = mapping->path;
    frame.offset = mapping->offset_of(UserAddress(frame.ip)).value;
    const ImageModule *module = image.module_at(address);
    if (module && module->path == mapping->path)
        frame.build_id = module->build_id;
}

// OCaml's and GHC's names could be anybody's: they are taken for that only in files of theirs, which have some of the
// language's own runtime in them, or are libraries that GHC named.
std::string name_in_source(const Symbols &symbols, std::string_view path, std::string_view symbol) {
    const auto has = [&](std::string_view name) { return symbols.address_of(name).has_value(); };
    if (std::string name = ocaml_function_name(symbol);
        !name.empty() && (has("caml_start_program") || has("caml_shared_startup__code_begin")))
        return name;
    if (std::string name = haskell_function_name(symbol); !name.empty()) {
        const std::string_view file = path.substr(path.rfind('/') + 1);
        const bool library = file.starts_with("libHS") && file.find("-ghc") != std::string_view::npos;
        if (library || has("hs_main") || has("stg_ap_p_fast"))
            return name;
    }
    return function_name(symbol);
}

} // namespace

ThreadStack instruction_pointer_only(const CrashImage &image, const ImageThread &thread, const std::string &reason) {
    ThreadStack stack;
    stack.tid = thread.tid;
    stack.truncated = true;
    if (!thread.registers) {
        stack.how = "none";
        stack.reason = no_registers;
        return stack;
    }
    stack.how = "instruction pointer only";
    stack.reason = reason;
    Frame &frame = stack.frames.emplace_back();
    frame.ip = thread.registers->rip;
    frame.how = "registers";
    locate_frame(frame, image, UserAddress(frame.ip));
    return stack;
}

NamedStack StackNamer::name(const ImageThread &thread, std::size_t frames_max) {
    NamedStack named;
    if (!thread.registers) {
        named.stack = instruction_pointer_only(modules_.image(), thread, "");
        return named;
    }
    named.walk = walk_stack(*thread.registers, modules_, frames_max);
    const Walk &walk = named.walk;
    ThreadStack &stack = named.stack;
    stack.tid = thread.tid;
    stack.how = how_walked(walk);
    for (std::size_t i = 0; i < walk.frames.size() && stack.frames.size() <= frames_max; ++i) {
        const WalkFrame &frame = walk.frames[i];
        add_frames(named, i, frame.ip, frame.look_up(), frame.how);
        if (i + 1 < walk.frames.size() && frame.by_cfi && !frame.signal_frame && !walk.frames[i + 1].exact)
            for (const UserAddress jump : tail_calls_between(frame, walk.frames[i + 1]))
                add_frames(named, i, jump, jump - 1, "tail call");
    }
    const bool cut = stack.frames.size() > frames_max;
    if (cut) {
        stack.frames.resize(frames_max);
        named.sources.resize(frames_max);
    }
    stack.truncated = cut || !walk.outermost || !walk.doubt.empty();
    if (cut)
        stack.reason = fmt::format("more than {} frames", frames_max);
    else if (walk.outermost && !walk.doubt.empty())
        stack.reason = walk.doubt;
    else if (walk.outermost)
        stack.reason = stack.frames.back().symbol.empty()
                           ? "the outermost frame"
                           : fmt::format("the outermost frame ({})", stack.frames.back().symbol);
    else
        stack.reason = walk.reason;
    return named;
}

std::vector<std::string> StackNamer::take_notes() {
    for (const auto &[maker, naming] : std::exchange(told_naming_, {}))
        notes_.push_back(fmt::format("code made at run time has no names; {} writes them down with {}", maker, naming));
    return std::exchange(notes_, {});
}

const std::vector<UserAddress> &StackNamer::tail_calls_between(const WalkFrame &callee, const WalkFrame &caller) {
    const auto [it, fresh] = tail_calls_.try_emplace({caller.ip, callee.look_up()});
    if (fresh)
        it->second = tail_calls(modules_, caller.ip, callee.look_up());
    return it->second;
}

// The frames at one address, innermost inlined function first.
void StackNamer::add_frames(NamedStack &into, std::size_t walked, UserAddress ip, UserAddress look_up,
                            std::string_view how) {
    Frame frame;
    frame.ip = ip.value;
    frame.how = how;
    frame.signal_frame = into.walk.frames[walked].signal_frame && ip == into.walk.frames[walked].ip;
    locate_frame(frame, modules_.image(), look_up);
    FrameSource source{walked, modules_.index_at(look_up), nullptr, how != "tail call"};
    ElfModule *module = source.module == ModuleSet::none ? nullptr : modules_.elf(source.module);
    if (source.module != ModuleSet::none) {
        frame.module = modules_.path(source.module);
        frame.build_id = modules_.build_id(source.module);
    }
    if (!module) {
        if (source.module == ModuleSet::none)
            name_generated(frame, modules_.image().maps.find(look_up), look_up);
        into.stack.frames.push_back(std::move(frame));
        into.sources.push_back(source);
        return;
    }
    const std::vector<Place> *places = nullptr;
    if (DebugInfo *debug = modules_.debug(source.module)) {
        const auto scope = modules_.parsing(source.module, Part::debug);
        places = &debug->places(look_up - module->bias());
    }
    if ((!places || places->empty()) && add_go_frames(into, frame, source, look_up))
        return;
    if (!places || places->empty()) {
        name_by_symbol(frame, source.module, look_up);
        into.stack.frames.push_back(std::move(frame));
        into.sources.push_back(source);
        return;
    }
    // For a function that left by a jump only the innermost place is shown, as in gdb.
    const std::size_t shown_places = source.real_registers ? places->size() : 1;
    for (std::size_t i = 0; i < shown_places; ++i) {
        const Place &place = (*places)[i];
        Frame shown = frame;
        source.place = &place;
        shown.inlined = place.inlined && source.real_registers;
        shown.file = place.file;
        shown.line = place.line;
        shown.column = place.column;
        if (shown.inlined)
            shown.how = "inline";
        if (place.name.empty())
            name_by_symbol(shown, source.module, look_up);
        else
            shown.symbol = place.name;
        const UserAddress entry = place.entry + module->bias();
        if (!place.inlined && place.entry.value != 0 && ip >= entry)
            shown.symbol_offset = ip - entry;
        into.stack.frames.push_back(std::move(shown));
        into.sources.push_back(source);
    }
}

// By the table that a Go program carries, which a stripped one has as well; false: it has none for this address.
bool StackNamer::add_go_frames(NamedStack &into, const Frame &frame, const FrameSource &source, UserAddress look_up) {
    ElfModule *module = modules_.elf(source.module);
    const auto scope = modules_.parsing(source.module, Part::file);
    const GoTable *table = module->go();
    const auto function = table ? table->function_at(look_up - module->bias()) : std::nullopt;
    if (!function)
        return false;
    const auto places = table->places(*function, look_up - module->bias());
    for (const GoTable::Place &place : places) {
        if (place.inlined && !source.real_registers)
            continue;
        Frame shown = frame;
        shown.symbol = place.name;
        shown.file = place.file;
        shown.line = place.line;
        shown.inlined = place.inlined;
        if (place.inlined)
            shown.how = "inline";
        else
            shown.symbol_offset = UserAddress(frame.ip) - module->bias() - function->entry;
        into.stack.frames.push_back(std::move(shown));
        into.sources.push_back(source);
    }
    return true;
}

void StackNamer::name_by_symbol(Frame &frame, std::size_t index, UserAddress look_up) {
    ElfModule *module = modules_.elf(index);
    const auto scope = modules_.parsing(index, Part::file);
    if (const Symbol *symbol = module->symbols().function_at(look_up - module->bias())) {
        frame.symbol = name_in_source(module->symbols(), frame.module, symbol->name);
        frame.symbol_offset = UserAddress(frame.ip) - module->bias() - symbol->address;
    } else if (const std::string called = called_by_plt(module->elf(), look_up - module->bias()); !called.empty()) {
        frame.symbol = function_name(called) + "@plt";
    }
}

void StackNamer::name_generated(Frame &frame, const capture::Mapping *mapping, UserAddress look_up) {
    if (!mapping || !mapping->execute || mapping->is_file())
        return;
    if (mapping->path.empty() || mapping->path.starts_with("//anon"))
        frame.module = "jit/anon";
    name_by_perf_map(frame, look_up);
    if (!frame.symbol.empty() || frame.module != "jit/anon")
        return;
    for (const CodeMaker &maker : code_makers(modules_.image().modules)) {
        frame.made_by += (frame.made_by.empty() ? "" : " or ") + std::string(maker.name);
        if (!maker.naming.empty())
            told_naming_.try_emplace(maker.name, maker.naming);
    }
}

void StackNamer::name_by_perf_map(Frame &frame, UserAddress look_up) {
    if (modules_.image().perf_map.empty())
        return;
    if (!perf_map_) {
        perf_map_ = std::make_unique<PerfMap>(modules_.image().perf_map);
        if (perf_map_->cut())
            notes_.push_back(fmt::format("only the last {} entries of the perf map are used", PerfMap::entries_max));
        if (perf_map_->bad_lines())
            notes_.push_back(fmt::format("{} lines of the perf map are none", perf_map_->bad_lines()));
    }
    if (const PerfMap::Entry *entry = perf_map_->find(look_up.value)) {
        frame.module = "jit/anon";
        frame.symbol = entry->name;
        frame.symbol_offset = frame.ip - entry->start;
    }
}

} // namespace incident::postmortem
