#include "postmortem/unwind/analysis.h"

#include "postmortem/unwind/place_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace incident::postmortem {

namespace {

Json text_or_null(const std::string &text) {
    return text.empty() ? Json() : Json(text);
}

std::string text_of(JsonView json) {
    return std::string(json.text().substr(0, analysis_text_max));
}

unsigned small(JsonView json) {
    return static_cast<unsigned>(std::min<std::uint64_t>(json.count(), std::numeric_limits<unsigned>::max()));
}

template <typename T, typename From> void read_list(JsonView json, std::vector<T> &into, std::size_t most, From from) {
    json.each([&](JsonView element) {
        if (into.size() < most)
            into.push_back(from(element));
    });
}

Json to_json(const Instruction::Operand &operand) {
    return {{"read", operand.read},
            {"write", operand.write},
            {"base", text_or_null(operand.base)},
            {"index", text_or_null(operand.index)},
            {"segment", text_or_null(operand.segment)},
            {"scale", operand.scale},
            {"displacement", operand.displacement},
            {"address", hex(operand.address)},
            {"bytes", operand.bytes}};
}

Instruction::Operand operand_from(JsonView json) {
    Instruction::Operand operand;
    operand.read = json["read"].flag();
    operand.write = json["write"].flag();
    operand.base = text_of(json["base"]);
    operand.index = text_of(json["index"]);
    operand.segment = text_of(json["segment"]);
    operand.scale = json["scale"].count();
    operand.displacement = json["displacement"].integer().value_or(0);
    operand.address = json["address"].count();
    operand.bytes = small(json["bytes"]);
    return operand;
}

} // namespace

// The keys of threads.json's frames (capture/render_stack), and what only unwinding can tell.
Json to_json(const Frame &frame) {
    return {{"ip", hex(frame.ip)},
            {"module", text_or_null(frame.module)},
            {"build_id", text_or_null(frame.build_id)},
            {"offset", hex(frame.offset)},
            {"symbol", text_or_null(frame.symbol)},
            {"symbol_offset", frame.symbol_offset},
            {"inline", frame.inlined},
            {"file", text_or_null(frame.file)},
            {"line", frame.line ? Json(frame.line) : Json()},
            {"column", frame.column ? Json(frame.column) : Json()},
            {"how", frame.how},
            {"signal_frame", frame.signal_frame}};
}

Json to_json(const ThreadStack &stack) {
    Json frames = Json::array();
    for (const Frame &frame : stack.frames)
        frames.push_back(to_json(frame));
    return {{"tid", stack.tid},
            {"how", stack.how},
            {"truncated", stack.truncated},
            {"reason", stack.reason},
            {"frames", std::move(frames)}};
}

Json to_json(const ModuleState &module) {
    return {{"path", module.path},
            {"build_id", text_or_null(module.build_id)},
            {"file", module.file},
            {"debug", text_or_null(module.debug)},
            {"install", text_or_null(module.install)},
            {"on_a_stack", module.on_a_stack}};
}

Json to_json(const Instruction &instruction) {
    return {{"address", hex(instruction.address)},
            {"text", instruction.text},
            {"syntax", "AT&T"},
            {"memory", instruction.memory ? to_json(*instruction.memory) : Json()},
            {"is_call", instruction.is_call},
            {"is_jump", instruction.is_jump},
            {"is_return", instruction.is_return},
            {"base_untouched", instruction.base_untouched}};
}

Json to_json(const Interrupted &interrupted) {
    Json registers = Json::object();
    for (const auto &[name, value] : interrupted.registers)
        registers[name] = hex(value);
    return {{"frame", interrupted.frame},
            {"registers", std::move(registers)},
            {"instruction", interrupted.instruction ? to_json(*interrupted.instruction) : Json()},
            {"signal", interrupted.signal},
            {"code", interrupted.code},
            {"address", hex(interrupted.address)}};
}

Json to_json(const CallToNowhere &call) {
    return {{"text", call.text}, {"target", call.target ? Json(hex(*call.target)) : Json()}};
}

Json to_json(const Argument &argument) {
    return {{"number", argument.number},           {"name", text_or_null(argument.name)},
            {"type", text_or_null(argument.type)}, {"value", argument.value ? Json(hex(*argument.value)) : Json()},
            {"is_pointer", argument.is_pointer},   {"how", argument.how}};
}

Json to_json(const Exception &exception) {
    return {{"type", exception.type}, {"what", text_or_null(exception.what)}};
}

Json to_json(const Analysis &analysis) {
    Json threads = Json::array(), modules = Json::array(), arguments = Json::array();
    for (const ThreadStack &stack : analysis.threads)
        threads.push_back(to_json(stack));
    for (const ModuleState &module : analysis.modules)
        modules.push_back(to_json(module));
    for (const Argument &argument : analysis.arguments)
        arguments.push_back(to_json(argument));
    return {{"threads", std::move(threads)},
            {"modules", std::move(modules)},
            {"instruction", analysis.instruction ? to_json(*analysis.instruction) : Json()},
            {"interrupted", analysis.interrupted ? to_json(*analysis.interrupted) : Json()},
            {"call", analysis.call ? to_json(*analysis.call) : Json()},
            {"argument_frame", analysis.argument_frame},
            {"arguments", std::move(arguments)},
            {"exception", analysis.exception ? to_json(*analysis.exception) : Json()},
            {"notes", analysis.notes}};
}

Frame frame_from(JsonView json) {
    Frame frame;
    frame.ip = json["ip"].count();
    frame.module = text_of(json["module"]);
    frame.build_id = text_of(json["build_id"]);
    frame.offset = json["offset"].count();
    frame.symbol = text_of(json["symbol"]);
    frame.symbol_offset = json["symbol_offset"].count();
    frame.inlined = json["inline"].flag();
    frame.file = text_of(json["file"]);
    frame.line = small(json["line"]);
    frame.column = small(json["column"]);
    frame.how = text_of(json["how"]);
    frame.signal_frame = json["signal_frame"].flag();
    return frame;
}

ThreadStack thread_stack_from(JsonView json) {
    ThreadStack stack;
    stack.tid = small(json["tid"]);
    stack.how = text_of(json["how"]);
    stack.truncated = json["truncated"].flag();
    stack.reason = text_of(json["reason"]);
    read_list(json["frames"], stack.frames, analysis_frames_max, frame_from);
    return stack;
}

ModuleState module_state_from(JsonView json) {
    ModuleState module;
    module.path = text_of(json["path"]);
    module.build_id = text_of(json["build_id"]);
    module.file = text_of(json["file"]);
    module.debug = text_of(json["debug"]);
    module.install = text_of(json["install"]);
    module.on_a_stack = json["on_a_stack"].flag();
    return module;
}

Instruction instruction_from(JsonView json) {
    Instruction instruction;
    instruction.address = json["address"].count();
    instruction.text = text_of(json["text"]);
    if (json["memory"].is_object())
        instruction.memory = operand_from(json["memory"]);
    instruction.is_call = json["is_call"].flag();
    instruction.is_jump = json["is_jump"].flag();
    instruction.is_return = json["is_return"].flag();
    instruction.base_untouched = json["base_untouched"].flag();
    return instruction;
}

Interrupted interrupted_from(JsonView json) {
    constexpr std::size_t registers_max = 64;
    Interrupted interrupted;
    interrupted.frame = small(json["frame"]);
    json["registers"].members([&](const std::string &name, JsonView value) {
        if (interrupted.registers.size() < registers_max)
            interrupted.registers[name.substr(0, analysis_text_max)] = value.count();
    });
    if (json["instruction"].is_object())
        interrupted.instruction = instruction_from(json["instruction"]);
    interrupted.signal = static_cast<int>(json["signal"].integer().value_or(0));
    interrupted.code = static_cast<int>(json["code"].integer().value_or(0));
    interrupted.address = json["address"].count();
    return interrupted;
}

CallToNowhere call_to_nowhere_from(JsonView json) {
    return {text_of(json["text"]), json["target"].natural()};
}

Argument argument_from(JsonView json) {
    Argument argument;
    argument.number = small(json["number"]);
    argument.name = text_of(json["name"]);
    argument.type = text_of(json["type"]);
    argument.value = json["value"].natural();
    argument.is_pointer = json["is_pointer"].flag();
    argument.how = text_of(json["how"]);
    return argument;
}

Exception exception_from(JsonView json) {
    return {text_of(json["type"]), text_of(json["what"])};
}

Analysis analysis_from(JsonView json) {
    Analysis analysis;
    read_list(json["threads"], analysis.threads, analysis_threads_max, thread_stack_from);
    read_list(json["modules"], analysis.modules, analysis_modules_max, module_state_from);
    if (json["instruction"].is_object())
        analysis.instruction = instruction_from(json["instruction"]);
    if (json["interrupted"].is_object())
        analysis.interrupted = interrupted_from(json["interrupted"]);
    if (json["call"].is_object())
        analysis.call = call_to_nowhere_from(json["call"]);
    analysis.argument_frame = small(json["argument_frame"]);
    read_list(json["arguments"], analysis.arguments, analysis_arguments_max, argument_from);
    if (json["exception"].is_object())
        analysis.exception = exception_from(json["exception"]);
    read_list(json["notes"], analysis.notes, analysis_notes_max, text_of);
    return analysis;
}

} // namespace incident::postmortem
