#include "verdict_lab.h"

#include <fmt/format.h>

namespace incident::postmortem::test {

namespace {

std::string name_of_signal(int number) {
    return std::string("SIG") + sigabbrev_np(number);
}

} // namespace

LabEvidence::LabEvidence() {
    image.pid = 100;
    image.comm = "x";
    maps("00400000-00402000 r-xp 00000000 08:01 7 /bin/x\n"
         "00403000-00404000 r--p 00003000 08:01 7 /bin/x\n"
         "00404000-00405000 rw-p 00004000 08:01 7 /bin/x\n"
         "7fff00000000-7fff00021000 rw-p 00000000 00:00 0 [stack]\n");
    ImageThread &thread = image.threads.emplace_back();
    thread.tid = 100;
    thread.is_triggers = true;
    thread.registers.emplace() = {};
    registers().rip = code;
    registers().rsp = 0x7fff00010000;
    registers().orig_rax = ~0ull;
    analysis.threads.emplace_back().tid = 100;
    frames({"use", "main"});
    record = Json{{"kind", "signal"},
                  {"process", {{"pid", 100}}},
                  {"thread", {{"tid", 100}}},
                  {"clocks", {{"trigger_ns", trigger}}}};
}

void LabEvidence::fault(int number, int si_code, const std::string &code_name, std::uint64_t address) {
    image.signal = number;
    image.has_siginfo = true;
    record["signal"] = {{"number", number},       {"name", name_of_signal(number)}, {"code", si_code},
                        {"code_name", code_name}, {"address", hex(address)},        {"sender", nullptr},
                        {"fatal", true}};
    if (si_code == SI_KERNEL)
        record["signal"]["address"] = nullptr;
}

void LabEvidence::sent_itself(int number, int si_code, const std::string &code_name) {
    image.signal = number;
    image.has_siginfo = true;
    record["signal"] = {{"number", number},   {"name", name_of_signal(number)},
                        {"code", si_code},    {"code_name", code_name},
                        {"address", nullptr}, {"sender", {{"pid", 100}, {"tid", 100}, {"uid", 0}, {"comm", "x"}}},
                        {"fatal", true}};
    registers().orig_rax = 234; // tgkill
    signal_line(0, number, si_code, code_name, {}, "delivered", "fatal", 100, true);
}

void LabEvidence::sent_by(std::uint32_t pid, std::uint32_t tid, int number, int si_code, const std::string &code_name) {
    sent_itself(number, si_code, code_name);
    record["signal"]["sender"] = {{"pid", pid}, {"tid", tid ? Json(tid) : Json()}, {"uid", 0}, {"comm", "killer"}};
}

void LabEvidence::aborts(const std::vector<std::string> &names, const std::string &message) {
    sent_itself(SIGABRT);
    image.abort_message = message;
    frames(names);
}

Instruction::Operand &LabEvidence::accesses(const std::string &base, std::int64_t displacement,
                                            const std::string &index, bool write) {
    Instruction &instruction = analysis.instruction.emplace();
    instruction.address = registers().rip;
    instruction.text = "mov";
    Instruction::Operand &memory = instruction.memory.emplace();
    memory.base = base;
    memory.index = index;
    memory.scale = index.empty() ? 0 : 1;
    memory.displacement = displacement;
    memory.read = !write;
    memory.write = write;
    memory.bytes = 4;
    memory.address = register_value(registers(), base).value_or(0) + register_value(registers(), index).value_or(0) +
                     static_cast<std::uint64_t>(displacement);
    return memory;
}

void LabEvidence::instruction(const std::string &text) {
    analysis.instruction.emplace().address = registers().rip;
    analysis.instruction->text = text;
}

void LabEvidence::argument(const std::string &name, std::uint64_t value) {
    analysis.arguments.push_back(
        {static_cast<unsigned>(analysis.arguments.size()), name, "T *", value, true, "in memory at 0x7fff00010010"});
}

void LabEvidence::small_stack() {
    maps("00400000-00402000 r-xp 00000000 08:01 7 /bin/x\n"
         "70000000-70001000 ---p 00000000 00:00 0\n"
         "70001000-70011000 rw-p 00000000 00:00 0\n");
}

void LabEvidence::word(std::uint64_t address, std::uint64_t value) {
    image.memory.add(address, {reinterpret_cast<const char *>(&value), sizeof value});
}

void LabEvidence::handled(std::uint32_t tid, const std::string &disposition) {
    signal_line(2'000'001, SIGSEGV, SEGV_MAPERR, "SEGV_MAPERR", 8, "generated", "", tid);
    signal_line(2'000'000, SIGSEGV, SEGV_MAPERR, "SEGV_MAPERR", 8, "delivered", disposition, tid);
}

void LabEvidence::in_handler(std::uint64_t address) {
    frames({"libc.so.6:raise", "handler", "<signal>", "use", "main"});
    Interrupted &interrupted = analysis.interrupted.emplace();
    interrupted.frame = 3;
    interrupted.registers = {{"rip", code}, {"rax", 0}, {"rsp", 0x7fff00010000}};
    interrupted.signal = SIGSEGV;
    interrupted.code = SEGV_MAPERR;
    interrupted.address = address;
    accesses("rax", 8);
    interrupted.instruction = analysis.instruction;
    analysis.instruction.reset();
}

void LabEvidence::maps(const std::string &text) {
    image.maps = capture::Maps::parse(text);
    image.maps_whole = true;
}

void LabEvidence::frames(const std::vector<std::string> &names) {
    auto &frames = analysis.threads[0].frames;
    frames.clear();
    for (const std::string &name : names) {
        Frame &frame = frames.emplace_back();
        const bool of_library = name.starts_with("lib");
        const std::size_t colon = name.find(':');
        frame.module = of_library ? "/lib/" + name.substr(0, colon) : "/bin/x";
        frame.symbol = of_library ? name.substr(colon + 1) : name;
        frame.signal_frame = frame.symbol == "<signal>";
        frame.how = frames.size() == 1 ? "registers" : "CFI";
        frame.ip = code;
    }
}

void LabEvidence::signal_line(std::int64_t before_ns, int number, int si_code, const std::string &code_name,
                              std::optional<std::uint64_t> address, const std::string &phase,
                              const std::string &disposition, std::uint32_t tid, bool is_trigger) {
    Json line = {{"t_ns", static_cast<std::int64_t>(trigger) - before_ns},
                 {"tid", tid},
                 {"kind", "signal"},
                 {"name", name_of_signal(number)},
                 {"phase", phase},
                 {"signal", number},
                 {"code", si_code},
                 {"code_name", code_name},
                 {"address", address ? Json(hex(*address)) : Json()},
                 {"sender", nullptr}};
    if (!disposition.empty())
        line["disposition"] = disposition;
    if (is_trigger)
        line["trigger"] = true;
    timeline_ += line.dump() + "\n";
}

void LabEvidence::call_line(std::int64_t before_ns, const std::string &name, const std::vector<std::string> &args,
                            std::int64_t ret) {
    timeline_ += Json{{"t_ns", static_cast<std::int64_t>(trigger) - before_ns},
                      {"tid", 100},
                      {"kind", "alloc"},
                      {"name", name},
                      {"args", args},
                      {"ret", ret}}
                     .dump() +
                 "\n";
}

Verdict LabEvidence::verdict() {
    const std::string name = fmt::format("20261121T150405.{:03}Z-crash-x-100-9f3c2a", bundles_++);
    Files files{{"incident.json", record.dump()}, {"timeline.jsonl", timeline_}};
    if (!limits_.empty())
        files.emplace_back("process/limits", limits_);
    if (!kernel_log_.empty())
        files.emplace_back("host/kernel_log", kernel_log_);
    state_.add(name, files);
    const auto incident = Incident::parse(record.dump(), name);
    const auto dir = capture::IncidentsDir::open(state_.dir(), false);
    const auto bundle = dir->bundle(name);
    EXPECT_TRUE(incident);
    EXPECT_TRUE(bundle);
    std::optional<HeapFindings> findings;
    if (heap) {
        findings = find_heap(heap->heap(), *incident, image);
        add_names(*findings, analysis, image);
    }
    return judge(*incident, image, analysis, *bundle, findings ? &*findings : nullptr);
}

std::string LabEvidence::said() {
    std::string text;
    for (const Claim &claim : verdict().claims) {
        text += (text.empty() ? "" : "\n") + claim.text();
        EXPECT_FALSE(claim.facts.empty()) << claim.text();
    }
    return text;
}

} // namespace incident::postmortem::test
