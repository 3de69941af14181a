#include "postmortem/unwind/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <limits>

namespace incident::postmortem {

namespace {

constexpr std::size_t registers_max = 64;

// Hex: "0x1f".  OrNull: null where it is empty or 0.
enum class As { Value, Hex, OrNull };

class PartWriter {
public:
    Json json = Json::object();

    void constant(const char *key, const char *text) { json[key] = text; }
    void operator()(const char *key, const std::string &text, As as = As::Value) {
        json[key] = as == As::OrNull && text.empty() ? Json() : Json(text);
    }
    template <std::integral Number> void operator()(const char *key, Number number, As as = As::Value) {
        json[key] = as == As::Hex                 ? Json(fmt::format("{:#x}", number))
                    : as == As::OrNull && !number ? Json()
                                                  : Json(number);
    }
    void operator()(const char *key, const std::optional<std::uint64_t> &value) {
        json[key] = value ? Json(fmt::format("{:#x}", *value)) : Json();
    }
    template <typename T> void operator()(const char *key, const std::optional<T> &part) {
        json[key] = part ? to_json(*part) : Json();
    }
    template <typename T> void operator()(const char *key, const std::vector<T> &list, std::size_t) {
        Json &array = json[key] = Json::array();
        for (const T &element : list)
            array.push_back(to_json(element));
    }
    void operator()(const char *key, const std::vector<std::string> &texts, std::size_t) { json[key] = texts; }
    void operator()(const char *key, const std::map<std::string, std::uint64_t> &values, std::size_t) {
        Json &object = json[key] = Json::object();
        for (const auto &[name, value] : values)
            object[name] = fmt::format("{:#x}", value);
    }
};

class PartReader {
public:
    explicit PartReader(JsonView json) : json_(json) {}

    void constant(const char *, const char *) {}
    void operator()(const char *key, std::string &text, As = {}) { text = text_of(json_[key]); }
    void operator()(const char *key, bool &flag) { flag = json_[key].flag(); }
    template <std::unsigned_integral Number> void operator()(const char *key, Number &number, As = {}) {
        number = static_cast<Number>(std::min<std::uint64_t>(json_[key].count(), std::numeric_limits<Number>::max()));
    }
    template <std::signed_integral Number> void operator()(const char *key, Number &number) {
        number = static_cast<Number>(json_[key].integer().value_or(0));
    }
    void operator()(const char *key, std::optional<std::uint64_t> &value) { value = json_[key].natural(); }
    template <typename T> void operator()(const char *key, std::optional<T> &part) {
        if (json_[key].is_object())
            part = from_json<T>(json_[key]);
    }
    template <typename T> void operator()(const char *key, std::vector<T> &list, std::size_t most) {
        json_[key].each([&](JsonView element) {
            if (list.size() < most)
                list.push_back(from_json<T>(element));
        });
    }
    void operator()(const char *key, std::vector<std::string> &texts, std::size_t most) {
        json_[key].each([&](JsonView element) {
            if (texts.size() < most)
                texts.push_back(text_of(element));
        });
    }
    void operator()(const char *key, std::map<std::string, std::uint64_t> &values, std::size_t most) {
        json_[key].members([&](const std::string &name, JsonView value) {
            if (values.size() < most)
                values[name.substr(0, analysis_text_max)] = value.count();
        });
    }

private:
    static std::string text_of(JsonView json) { return std::string(json.text().substr(0, analysis_text_max)); }

    JsonView json_;
};

// The members of each part, listed once for reading and writing.
template <typename T, typename Part>
concept Either = std::same_as<std::remove_const_t<T>, Part>;

void fields_of(auto &io, Either<Instruction::Operand> auto &operand) {
    io("read", operand.read);
    io("write", operand.write);
    io("base", operand.base, As::OrNull);
    io("index", operand.index, As::OrNull);
    io("segment", operand.segment, As::OrNull);
    io("scale", operand.scale);
    io("displacement", operand.displacement);
    io("address", operand.address, As::Hex);
    io("bytes", operand.bytes);
}

// The keys of threads.json's frames (capture/render_stack), and what only unwinding can tell.
void fields_of(auto &io, Either<Frame> auto &frame) {
    io("ip", frame.ip, As::Hex);
    io("module", frame.module, As::OrNull);
    io("build_id", frame.build_id, As::OrNull);
    io("offset", frame.offset, As::Hex);
    io("symbol", frame.symbol, As::OrNull);
    io("symbol_offset", frame.symbol_offset);
    io("made_by", frame.made_by, As::OrNull);
    io("inline", frame.inlined);
    io("file", frame.file, As::OrNull);
    io("line", frame.line, As::OrNull);
    io("column", frame.column, As::OrNull);
    io("how", frame.how);
    io("signal_frame", frame.signal_frame);
}

void fields_of(auto &io, Either<ThreadStack> auto &stack) {
    io("tid", stack.tid);
    io("how", stack.how);
    io("truncated", stack.truncated);
    io("reason", stack.reason);
    io("frames", stack.frames, analysis_frames_max);
}

void fields_of(auto &io, Either<ModuleState> auto &module) {
    io("path", module.path);
    io("build_id", module.build_id, As::OrNull);
    io("file", module.file);
    io("debug", module.debug, As::OrNull);
    io("install", module.install, As::OrNull);
    io("on_a_stack", module.on_a_stack);
}

void fields_of(auto &io, Either<Instruction> auto &instruction) {
    io("address", instruction.address, As::Hex);
    io("text", instruction.text);
    io.constant("syntax", "AT&T");
    io("memory", instruction.memory);
    io("is_call", instruction.is_call);
    io("is_jump", instruction.is_jump);
    io("is_return", instruction.is_return);
    io("base_untouched", instruction.base_untouched);
}

void fields_of(auto &io, Either<Interrupted> auto &interrupted) {
    io("frame", interrupted.frame);
    io("registers", interrupted.registers, registers_max);
    io("instruction", interrupted.instruction);
    io("signal", interrupted.signal);
    io("code", interrupted.code);
    io("address", interrupted.address, As::Hex);
}

void fields_of(auto &io, Either<CallToNowhere> auto &call) {
    io("text", call.text);
    io("target", call.target);
}

void fields_of(auto &io, Either<Argument> auto &argument) {
    io("number", argument.number);
    io("name", argument.name, As::OrNull);
    io("type", argument.type, As::OrNull);
    io("value", argument.value);
    io("is_pointer", argument.is_pointer);
    io("how", argument.how);
}

void fields_of(auto &io, Either<Exception> auto &exception) {
    io("type", exception.type);
    io("what", exception.what, As::OrNull);
}

void fields_of(auto &io, Either<Analysis> auto &analysis) {
    io("threads", analysis.threads, analysis_threads_max);
    io("modules", analysis.modules, analysis_modules_max);
    io("instruction", analysis.instruction);
    io("interrupted", analysis.interrupted);
    io("call", analysis.call);
    io("argument_frame", analysis.argument_frame);
    io("arguments", analysis.arguments, analysis_arguments_max);
    io("exception", analysis.exception);
    io("go_fatal_error", analysis.go_fatal_error, As::OrNull);
    io("notes", analysis.notes, analysis_notes_max);
}

} // namespace

template <typename Part> Json to_json(const Part &part) {
    PartWriter writer;
    fields_of(writer, part);
    return std::move(writer.json);
}

template <typename Part> Part from_json(JsonView json) {
    Part part;
    PartReader reader(json);
    fields_of(reader, part);
    return part;
}

template Json to_json(const Frame &);
template Json to_json(const ThreadStack &);
template Json to_json(const ModuleState &);
template Json to_json(const Instruction &);
template Json to_json(const Interrupted &);
template Json to_json(const CallToNowhere &);
template Json to_json(const Argument &);
template Json to_json(const Exception &);
template Json to_json(const Analysis &);
template Frame from_json(JsonView);
template ThreadStack from_json(JsonView);
template ModuleState from_json(JsonView);
template Instruction from_json(JsonView);
template Interrupted from_json(JsonView);
template CallToNowhere from_json(JsonView);
template Argument from_json(JsonView);
template Exception from_json(JsonView);
template Analysis from_json(JsonView);

} // namespace incident::postmortem
