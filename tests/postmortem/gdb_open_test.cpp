// BUNDLE/gdb/open.gdb: the stored commands with nothing installed, from anywhere, on whatever is left.
#include "gdb_bundle.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace incident::postmortem::test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

namespace fs = std::filesystem;

namespace {

// Each run of spaces as one.
std::string squeezed(const std::string &text) {
    std::string out;
    for (const char c : text)
        if (c != ' ' || out.empty() || out.back() != ' ')
            out += c;
    return out;
}

} // namespace

class GdbOpen : public testing::Test {
protected:
    void SetUp() override {
        std::string why;
        auto made = GdbBundle::make(state, why);
        if (!made)
            GTEST_SKIP() << why;
        bundle = std::move(*made);
    }
    void join(const std::string &file, bool truncated = false) {
        bundle.incident["core"] = {{"join", "exact"}, {"file", file}, {"truncated", truncated}};
        bundle.write("incident.json", bundle.incident.dump());
    }
    State state;
    GdbBundle bundle;
};

TEST_F(GdbOpen, LoadsProgramCoreAndCommandsFromAnywhere) {
    for (const std::string &directory : {std::string("/"), bundle.path + "/gdb", state.dir().string()}) {
        const std::string said = bundle.open({"bt 1", "info files"}, directory);
        EXPECT_THAT(said,
                    HasSubstr("incident: using the bundle's mini.core (registers, stacks, what registers point at): "
                              "none: RLIMIT_CORE was 0\n"));
        EXPECT_THAT(said, HasSubstr("  core    " + bundle.path + "/mini.core (mini core)\n"));
        EXPECT_THAT(said, HasSubstr(fmt::format("  thread  1, tid {}, selected\n", bundle.tid(0))));
        EXPECT_THAT(said, HasSubstr("#0  use ("));
        EXPECT_THAT(said, HasSubstr("`" + bundle.victim + "', file type elf64-x86-64."));
    }
    EXPECT_FALSE(fs::exists(bundle.path + "/gdb/__pycache__")); // a bundle stays as it was written
}

// In a pid namespace the core has the ids the process knew itself, the bundle those of the host.
TEST_F(GdbOpen, KnowsTheThreadsOfAPidNamespaceByTheirStacks) {
    constexpr int outside = 1'000'000;
    const int inner = bundle.incident["process"]["pid"];
    bundle.incident["process"]["ns_pid"] = inner;
    bundle.incident["process"]["pid"] = inner + outside;
    bundle.incident["thread"]["tid"] = bundle.tid(0) + outside;
    for (Json &thread : bundle.threads)
        thread["tid"] = thread["tid"].get<int>() + outside;
    bundle.write("incident.json", bundle.incident.dump());
    bundle.write("threads.json", bundle.threads.dump());
    const std::string said = bundle.open({"incident threads"});
    EXPECT_THAT(said, HasSubstr(fmt::format("  thread  1, tid {}, selected\n", bundle.tid(0))));
    EXPECT_THAT(said, HasSubstr(fmt::format("* thread 1     victim[{}]", bundle.tid(0))));
    EXPECT_THAT(said, Not(HasSubstr("not in core")));
    // Where two have their stacks in one place neither is told by that.
    bundle.threads[1]["registers"]["rsp"] = bundle.threads[2]["registers"]["rsp"];
    bundle.write("threads.json", bundle.threads.dump());
    EXPECT_THAT(bundle.open({"incident threads"}), HasSubstr("  not in core"));
}

TEST_F(GdbOpen, SurvivesBeingMoved) {
    // Another place, with a name that needs quoting everywhere; the environment names another bundle.
    const std::string moved = state.dir().string() + "/it's a \"moved\" $bundle";
    fs::rename(bundle.path, moved);
    bundle.path = moved;
    setenv("INCIDENT_BUNDLE", "/nonexistent", 1);
    const std::string said = bundle.open({"bt 1", "incident summary"});
    unsetenv("INCIDENT_BUNDLE");
    EXPECT_THAT(said, HasSubstr("#0  use ("));
    EXPECT_THAT(said, HasSubstr("  core    " + moved + "/mini.core (mini core)\n"));
    EXPECT_THAT(said, HasSubstr("victim[" + std::to_string(bundle.tid(0)) + "] was killed by SIGSEGV"));
    EXPECT_THAT(output_of("cd " + quoted(moved) + " && gdb -nx -q -batch -ex 'source gdb/open.gdb' -ex 'bt 1'"),
                HasSubstr("#0  use ("));
}

TEST_F(GdbOpen, TheJoinedCoreIsTakenIfGdbCanReadIt) {
    join(bundle.core);
    EXPECT_THAT(bundle.open({"bt 1"}), AllOf(HasSubstr("  core    " + bundle.core + " (exact join)\n"),
                                             HasSubstr("#0  use ("), Not(HasSubstr("mini"))));
    join(bundle.core, true);
    EXPECT_THAT(bundle.open({}),
                HasSubstr("incident: the core is truncated: some memory is missing; the bundle's own has its "
                          "registers and stacks: core-file " +
                          bundle.path + "/mini.core\n"));
    write_file(state.dir() / "core.zst", "\x28\xb5\x2f\xfd compressed");
    join((state.dir() / "core.zst").string());
    EXPECT_THAT(bundle.open({"bt 1"}), AllOf(HasSubstr("the full core is compressed; 'incidentctl gdb " +
                                                       fs::path(bundle.path).filename().string() + "' opens it"),
                                             HasSubstr("#0  use (")));
    join("/nonexistent/core");
    EXPECT_THAT(bundle.open({"bt 1"}), AllOf(HasSubstr(": the full core is not here\n"), HasSubstr("#0  use (")));
    write_file(state.dir() / "bad", "\x7f"
                                    "ELF but no more");
    join((state.dir() / "bad").string());
    EXPECT_THAT(bundle.open({"bt 1"}), AllOf(HasSubstr("incident: cannot open " + (state.dir() / "bad").string()),
                                             HasSubstr("the full core cannot be opened\n"), HasSubstr("#0  use (")));
}

// A bundle may come from anywhere, and so may what it says of its core.
TEST_F(GdbOpen, AFileThatOthersMayHaveMadeIsNotTaken) {
    const std::string core = bundle.core, refused = " is not opened: others than root and you may have made it\n";
    const auto is_refused = [&](const std::string &file) {
        join(file);
        EXPECT_THAT(bundle.open({"bt 1"}), AllOf(HasSubstr("incident: " + file + refused), HasSubstr("#0  use ("),
                                                 HasSubstr("  core    " + bundle.path + "/mini.core (mini core)\n")));
    };
    fs::permissions(core, fs::perms::others_write, fs::perm_options::add);
    is_refused(core);
    fs::permissions(core, fs::perms::others_write, fs::perm_options::remove);
    fs::create_symlink(core, state.dir() / "link");
    is_refused((state.dir() / "link").string());
    fs::create_hard_link(core, state.dir() / "hard");
    is_refused((state.dir() / "hard").string());
    fs::remove(state.dir() / "hard");
    fs::create_directory(state.dir() / "shared");
    fs::permissions(state.dir() / "shared", fs::perms::all);
    fs::copy_file(core, state.dir() / "shared/core");
    is_refused((state.dir() / "shared/core").string());
    fs::create_directory(state.dir() / "shared/own"); // whose name others may give to a directory of theirs
    fs::copy_file(core, state.dir() / "shared/own/core");
    is_refused((state.dir() / "shared/own/core").string());
    if (geteuid() == 0) {
        ASSERT_EQ(chown(core.c_str(), 12345, 12345), 0);
        is_refused(core);
    }
}

TEST_F(GdbOpen, WithoutACoreTheCommandsWork) {
    fs::remove(bundle.path + "/mini.core");
    const std::string said =
        bundle.open({"incident timeline", "incident explain $rip", "print $_incident(\"last_syscall.name\")",
                     "incident threads", "incident explain 0x10"});
    EXPECT_THAT(
        said,
        HasSubstr("incident: no core to open: neither the full core (none: RLIMIT_CORE was 0) nor a mini.core\n"));
    EXPECT_THAT(said, HasSubstr("  thread  none: there is no core\n"));
    EXPECT_THAT(said, HasSubstr("--- SIGSEGV delivered"));
    EXPECT_THAT(said, HasSubstr(fmt::format("{}  $rip, as the bundle has it\n",
                                            bundle.threads[0]["registers"]["rip"].get<std::string>())));
    EXPECT_THAT(said, HasSubstr("rip of tid " + std::to_string(bundle.tid(0)) + " is this address"));
    EXPECT_THAT(said, HasSubstr("$1 = \"openat\""));
    EXPECT_THAT(said, HasSubstr("at offset 16 (0x10) of a null pointer"));
    EXPECT_THAT(said, Not(HasSubstr("Traceback")));
}

TEST_F(GdbOpen, AProgramThatHasChangedIsNotLoaded) {
    bundle.incident["process"]["build_id"] = "112233";
    bundle.write("incident.json", bundle.incident.dump());
    const std::string said = bundle.open({"info files"});
    EXPECT_THAT(said, HasSubstr("incident: " + bundle.victim + " has changed (build-id "));
    EXPECT_THAT(said, HasSubstr(", it was 112233): not loaded; gdb looks for it by its build-id\n"));
    bundle.incident["process"]["exe"] = "/nonexistent/victim";
    bundle.write("incident.json", bundle.incident.dump());
    EXPECT_THAT(bundle.open({}),
                HasSubstr("incident: /nonexistent/victim is not here; gdb looks for it by its build-id\n"));
    const std::string pipe = (state.dir() / "pipe").string();
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0); // would be waited for
    bundle.incident["process"]["exe"] = pipe;
    bundle.write("incident.json", bundle.incident.dump());
    EXPECT_THAT(bundle.open({}), HasSubstr("incident: " + pipe + " is not here"));
}

TEST_F(GdbOpen, WhatIsLoadedAlreadyStays) {
    const std::string said = output_of("gdb -nx -q -batch " + bundle.victim + " " + bundle.core + " -x " + bundle.path +
                                       "/gdb/open.gdb -ex 'bt 1'");
    EXPECT_THAT(said, HasSubstr("  core    as you loaded it\n"));
    EXPECT_THAT(said, HasSubstr("#0  use ("));
    // The commands alone.
    EXPECT_THAT(output_of("gdb -nx -q -batch " + bundle.victim + " " + bundle.core + " -x " + bundle.path +
                          "/gdb/incident.py -ex 'incident summary'"),
                HasSubstr("was killed by SIGSEGV"));
}

TEST_F(GdbOpen, MarksOfThreadAndFrame) {
    const auto said = bundle.ask({"incident timeline", "up", "incident timeline all -kind signal", "thread 2",
                                  "incident timeline 2", "frame function reader", "incident timeline -kind syscall",
                                  "thread 3", "incident timeline 3", "incident timeline -n 1"});
    const auto line = [&](const char *marks, std::size_t thread, const char *text) {
        return fmt::format("{} {} victim {}", marks, bundle.tid(thread), text);
    };
    const auto timeline = [&](const char *arguments) {
        return squeezed(said.at(fmt::format("incident timeline{}", arguments)));
    };
    EXPECT_THAT(timeline(""), HasSubstr(line("*>", 0, "+0 ns --- SIGSEGV delivered")));
    EXPECT_THAT(timeline(""), HasSubstr(line("*", 0, "-4.000 µs openat(")));
    EXPECT_THAT(timeline(""), HasSubstr(line("\n", 1, "-600.0 µs read(")));
    EXPECT_THAT(timeline(" all -kind signal"), StartsWith(line("*", 0, "+0 ns"))) << "frame 1 is another function's";
    // Thread 2 waits in read(), in frame 0 or inlined there, thread 3 in pause().
    EXPECT_THAT(timeline(" 2"), StartsWith(line("*>", 1, "-600.0 µs read(3, 0x1000, 1) = ? <in flight>")));
    EXPECT_THAT(timeline(" -kind syscall"), HasSubstr(line("*", 1, "-600.0 µs read("))) << "not its caller";
    EXPECT_THAT(timeline(" 3"), StartsWith(line("*>", 2, "-500.0 µs pause() = ? <in flight>")));
    EXPECT_THAT(timeline(" -n 1"), StartsWith(line("", 0, "+0 ns --- SIGSEGV")));
}

TEST_F(GdbOpen, ACallThatTheRegistersContradictIsNotMarked) {
    bundle.threads[1]["syscall"]["nr"] = 1; // it says write, the thread is in read
    bundle.write("threads.json", bundle.threads.dump());
    EXPECT_THAT(bundle.open({"thread 2", "incident timeline 2"}), AllOf(HasSubstr("read(3, "), Not(HasSubstr("*>"))));
}

TEST_F(GdbOpen, TimelineIsThatOfIncidentctl) {
    const std::string name = fs::path(bundle.path).filename().string();
    std::istringstream theirs(state.run({"timeline", name}).out);
    const std::string ours = bundle.open({"incident timeline -n 1000"});
    unsigned lines = 0;
    for (std::string line; std::getline(theirs, line); ++lines) {
        // The time and what follows; the columns before differ by the marks.
        const std::string text = line.substr(line.find_first_of("+-"));
        EXPECT_THAT(ours, HasSubstr("  " + text + "\n"));
    }
    EXPECT_EQ(lines, 6u);
}

TEST_F(GdbOpen, ValuesInExpressions) {
    const auto said =
        bundle.ask({R"(print $_incident("signal.name"))", R"(print $_incident("signal.number") + 1)",
                    R"(print $_incident("signal.address"))", R"(print $_incident("signal.fatal"))",
                    R"(print $_isvoid($_incident("process.unit")))", R"(print $_incident("last_syscall.error"))",
                    R"(print $_incident("threads[1].syscall.args[2]"))", "thread 2",
                    R"(print $_incident("last_syscall.name"))", R"(print $_incident("thread.tid"))",
                    R"(print $_incident("happened_in.tid"))", R"(print $_incident("thread.registers.rsp") == $sp)",
                    R"(if $_incident("last_syscall.nr") == 0
echo in read
end)"});
    const auto value = [&](const char *path) { return said.at(fmt::format("print $_incident(\"{}\")", path)); };
    EXPECT_THAT(value("signal.name"), HasSubstr("= \"SIGSEGV\"\n"));
    EXPECT_THAT(said.at(R"(print $_incident("signal.number") + 1)"), HasSubstr("= 12\n"));
    EXPECT_THAT(value("signal.address"), HasSubstr("= 8\n"));
    EXPECT_THAT(value("signal.fatal"), HasSubstr("= 1\n"));
    EXPECT_THAT(said.at(R"(print $_isvoid($_incident("process.unit")))"), HasSubstr("= 1\n"));
    EXPECT_THAT(value("last_syscall.error"), HasSubstr("= \"ENOENT\"\n"));
    EXPECT_THAT(value("threads[1].syscall.args[2]"), HasSubstr("= 1\n"));
    EXPECT_THAT(value("last_syscall.name"), HasSubstr("= \"read\"\n"));
    EXPECT_THAT(value("thread.tid"), HasSubstr(fmt::format("= {}\n", bundle.tid(1))));
    EXPECT_THAT(value("happened_in.tid"), HasSubstr(fmt::format("= {}\n", bundle.tid(0))));
    EXPECT_THAT(said.at(R"(print $_incident("thread.registers.rsp") == $sp)"), HasSubstr("= 1\n"));
}

TEST_F(GdbOpen, ValuesThatAreNotThere) {
    const std::string said = bundle.open({R"(print $_incident("signal.nope"))", R"(print $_incident("signal"))",
                                          R"(print $_incident("threads[7].tid"))", R"(print $_incident("a..b"))",
                                          R"(print $_incident("threads.tid"))", R"(print $_incident(5))",
                                          R"(print $_incident(""))", R"(print $_incident("signal.name.x"))"});
    for (const char *error :
         {"no \"signal.nope\": \"signal\" has number, name, code, code_name, address, fatal\n",
          "\"signal\" is no single value: it has number, name, code, code_name, address, fatal\n",
          "no \"threads[7].tid\": \"threads\" has [0] to [2]\n", "\"a..b\" is no path such as \"signal.code_name\"",
          "no \"threads.tid\": \"threads\" has [0] to [2]\n", "$_incident takes a text: $_incident(\"signal.name\")\n",
          "\"\" is no path", "no \"signal.name.x\": \"signal.name\" is a value\n"})
        EXPECT_THAT(said, HasSubstr(error));
    EXPECT_THAT(said, Not(HasSubstr("Traceback")));
}

TEST_F(GdbOpen, ListsValues) {
    const auto said = bundle.ask({"incident values signal", "incident values threads[2].syscall", "incident values"});
    EXPECT_EQ(said.at("incident values signal"), "signal.number = 11\nsignal.name = \"SIGSEGV\"\nsignal.code = 1\n"
                                                 "signal.code_name = \"SEGV_MAPERR\"\nsignal.address = 0x8\n"
                                                 "signal.fatal = true\n");
    EXPECT_THAT(said.at("incident values threads[2].syscall"), HasSubstr("threads[2].syscall.name = \"pause\"\n"));
    EXPECT_THAT(said.at("incident values"),
                AllOf(HasSubstr("process.unit = null\n"), HasSubstr("last_syscall.args[0] = \"AT_FDCWD\"\n"),
                      HasSubstr("threads  3, see \"incident values threads\"\n")));
}

TEST_F(GdbOpen, CompletionAndHelp) {
    const auto said = bundle.ask(
        {"complete incident ex", "complete incident f", "complete incident timeline ", "complete incident timeline -k",
         "complete incident timeline -kind s", "complete incident timeline -n 5 -", "complete incident timeline a",
         "complete incident explain $rs", "complete incident values sig", "complete incident values signal.c",
         "complete incident values threads[1].sys", "help incident", "help incident timeline", "help incident explain",
         "help function _incident"});
    const auto completed = [&](const std::string &line) { return said.at("complete " + line); };
    EXPECT_EQ(completed("incident ex"), "incident explain\n");
    EXPECT_EQ(completed("incident f"), "incident fds\nincident files\n");
    EXPECT_EQ(completed("incident timeline "), "incident timeline -kind\nincident timeline -n\nincident timeline 1\n"
                                               "incident timeline 2\nincident timeline 3\nincident timeline all\n");
    EXPECT_EQ(completed("incident timeline -k"), "incident timeline -kind\n");
    EXPECT_EQ(completed("incident timeline -kind s"),
              "incident timeline -kind signal\nincident timeline -kind syscall\n");
    EXPECT_EQ(completed("incident timeline -n 5 -"), "incident timeline -n 5 -kind\nincident timeline -n 5 -n\n");
    EXPECT_EQ(completed("incident timeline a"), "incident timeline all\n");
    EXPECT_EQ(completed("incident explain $rs"), "incident explain $rsi\nincident explain $rsp\n");
    EXPECT_EQ(completed("incident values sig"), "incident values signal\n");
    EXPECT_EQ(completed("incident values signal.c"), "incident values signal.code\nincident values signal.code_name\n");
    EXPECT_EQ(completed("incident values threads[1].sys"), "incident values threads[1].syscall\n");
    const std::string &help = said.at("help incident");
    for (const char *name :
         {"summary", "timeline", "threads", "explain", "files", "fds", "memory", "signals", "quality", "values"}) {
        EXPECT_THAT(help, HasSubstr(std::string("\nincident ") + name + " -- ")) << "gdb's own list";
    }
    EXPECT_THAT(said.at("help incident timeline"),
                AllOf(HasSubstr("Usage: incident timeline [THREAD|all] [-n N] [-kind KIND]"),
                      HasSubstr("  >   it belongs to the frame")));
    EXPECT_THAT(said.at("help incident explain"), HasSubstr("the faulting address"));
    EXPECT_THAT(said.at("help function _incident"), HasSubstr("last_syscall.name"));
}

TEST_F(GdbOpen, DescriptorsAndMemory) {
    Json incident = bundle.incident;
    incident["memory"]["samples"] = {{{"t_ns", 500000000}, {"rss", 1u << 20}}};
    bundle.write("incident.json", incident.dump());
    bundle.write("process/fds", "{\"fd\":3,\"target\":\"/etc/x\",\"pos\":17,\"flags\":\"02102001\"}\n");
    const auto said = bundle.ask({"incident fds", "incident memory", "incident files"});
    EXPECT_EQ(said.at("incident fds"), "     3  /etc/x  at 17  write|O_APPEND|O_CLOEXEC\n");
    EXPECT_THAT(said.at("incident memory"),
                AllOf(HasSubstr("  resident  total 1.0 MiB\n"), HasSubstr("    limits  stack size"),
                      HasSubstr("   sampled     -500.0 ms  1.0 MiB\n"), HasSubstr(" the largest:\n"),
                      HasSubstr("  recorded  no call that changed mappings\n")));
    EXPECT_THAT(said.at("incident files"), HasSubstr("openat(AT_FDCWD, \"/etc/victim.conf\", O_RDONLY) = -1 ENOENT"));
}

// Whatever happens to a file of the bundle, meanwhile or before: gdb goes on, and Python never shows its insides.
TEST_F(GdbOpen, MissingAndCorruptFiles) {
    const std::vector<std::string> everything{"incident summary",
                                              "incident timeline",
                                              "incident timeline 2",
                                              "incident threads",
                                              "incident explain",
                                              "incident explain $sp",
                                              "incident explain main",
                                              "incident explain halved+524288+8",
                                              "incident files",
                                              "incident fds",
                                              "incident memory",
                                              "incident signals",
                                              "incident quality",
                                              "incident values",
                                              "print $_incident(\"signal.name\")",
                                              "complete incident timeline -kind ",
                                              "complete incident values "};
    const std::vector<std::string> contents{
        "",
        "{",
        "null\n",
        "[]\n",
        "\"text\"\n",
        "{}\n",
        std::string(100000, '['),
        "{\"t_ns\":" + std::string(1000000, '9') + "}",
        "\xff\xfe{\"kind\":\xff}\n",
        std::string(1 << 16, '\0'),
        R"({"signal":{"name":"SIGSEGV","code":1,"address":NaN}})",
        R"({"signal":{"name":"SIGSEGV","code":1,"address":"0x8"},"thread":[],"process":7,"memory":{"layout":5},"core":[]})",
        R"([{"tid":[],"syscall":[],"registers":{"rsp":"x"}},{"tid":1e300,"syscall":{"args":7,"name":{}}}])",
        R"({"t_ns":-1e300,"tid":"x","kind":"syscall","name":"mmap","args":{},"ret":{},"error":null,"memory":[]})",
        R"({"kind":"syscall","name":"munmap","args":["-0x7fffffffffffffff","-5"],"ret":-9223372036854775808,"error":null})"};
    const std::string kept = (state.dir() / "kept").string(), variant = (state.dir() / "variant").string();
    for (const char *name :
         {"incident.json", "threads.json", "timeline.jsonl", "process/maps", "process/fds", "process/limits"}) {
        const std::string file = quoted(bundle.path + "/" + name);
        fs::copy_file(bundle.path + "/" + name, kept, fs::copy_options::overwrite_existing);
        std::vector<std::string> commands;
        const auto each = [&](const std::string &change) {
            commands.push_back("shell rm -f " + file + "; " + change);
            commands.insert(commands.end(), everything.begin(), everything.end());
        };
        each("true");
        each("mkfifo " + file);
        each("mkdir " + file);
        commands.push_back("shell rmdir " + file);
        each("ln -s /etc/passwd " + file);
        each("head -c 300 " + quoted(kept) + " > " + file);
        for (std::size_t i = 0; i < contents.size(); ++i) {
            write_file(variant + std::to_string(i), contents[i]);
            each("cp " + quoted(variant + std::to_string(i)) + " " + file);
        }
        commands.push_back("echo still here\\n");
        const std::string said = bundle.open(commands);
        EXPECT_THAT(said, HasSubstr("still here")) << name;
        // Found at load as well.
        const std::string loaded = bundle.open(everything);
        fs::remove(bundle.path + "/" + name);
        const std::string missing = bundle.open(everything);
        for (const std::string &text : {said, loaded, missing})
            for (const char *bad : {"Traceback", "Python Exception", "Error occurred in Python"}) {
                const std::size_t at = text.find(bad);
                EXPECT_EQ(at, std::string::npos) << name << ": " << text.substr(at < 1000 ? 0 : at - 1000, 2000);
            }
        fs::copy_file(kept, bundle.path + "/" + name);
    }
}

TEST_F(GdbOpen, HostileTextIsEscaped) {
    const std::string evil = "\x1b]0;pwned\x07\x1b[2J\xc2\x9b"
                             "31m\r\nfake\x7f\xe2\x80\xae"
                             "evil";
    Json incident = bundle.incident, threads = bundle.threads;
    incident["summary"] = incident["rule"] = incident["process"]["unit"] = evil;
    incident["process"]["exe"] = "/tmp/" + evil;
    incident["core"] = {{"join", "exact"}, {"file", "/tmp/" + evil}, {"reason", evil}};
    incident[evil] = evil;
    threads[0]["comm"] = threads[0]["missing"] = threads[1]["syscall"]["name"] = evil;
    bundle.write("incident.json", incident.dump());
    bundle.write("threads.json", threads.dump());
    Json event = {{"t_ns", 1}, {"tid", bundle.tid(0)}, {"kind", evil}, {"name", evil}, {"path", evil}, {"comm", evil}};
    Json call = {{"t_ns", 2},   {"tid", bundle.tid(0)}, {"kind", "syscall"}, {"name", "mmap"}, {"args", {evil, "4096"}},
                 {"ret", 4096}, {"error", nullptr}};
    bundle.write("timeline.jsonl", event.dump() + "\n" + call.dump() + "\n");
    bundle.write("process/fds", Json{{"fd", 3}, {"target", evil}, {"flags", evil}}.dump() + "\n");
    bundle.write("process/maps", "1000-2000 rw-p 00000000 00:00 0 /" + evil.substr(0, 12) + "\n");
    const std::string said =
        bundle.open({"incident summary", "incident timeline", "incident threads", "incident files", "incident fds",
                     "incident memory", "incident signals", "incident quality", "incident values",
                     "incident explain 0x1010", "incident explain", "incident explain 0x1010",
                     "print $_incident(\"process.unit\")", "output $_incident(\"summary\")",
                     "complete incident timeline -kind ", "complete incident values ", "print $_incident(\"nope\")"});
    for (const char *bad : {"\x1b", "\x07", "\xc2\x9b", "\xe2\x80\xae", "\x7f", "\r", "Traceback", "Python Exception"})
        EXPECT_THAT(said, Not(HasSubstr(bad)));
    EXPECT_THAT(said, HasSubstr("\\x1b]0;pwned\\x07\\x1b[2J"));
}

// A terminal of 10 lines: gdb's own paging, and what ends it.
TEST_F(GdbOpen, LongOutputIsPagedAndCanBeLeft) {
    std::string events;
    for (int i = 0; i < 200; ++i)
        events += bundle.read("timeline.jsonl");
    bundle.write("timeline.jsonl", events);
    const std::string script = bundle.path + "/gdb/open.gdb";
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child == 0) {
        setenv("TERM", "xterm", 1);
        execlp("gdb", "gdb", "-nx", "-q", "-iex", "set debuginfod enabled off", "-iex", "set pagination off", "-x",
               script.c_str(), nullptr);
        _exit(127);
    }
    ASSERT_GT(child, 0);
    std::string said;
    const auto until = [&](const std::string &expected) { // what a terminal shows, or nothing for a minute
        said.clear();
        for (pollfd ready{terminal, POLLIN, 0};
             said.find(expected) == std::string::npos && poll(&ready, 1, 60000) > 0;) {
            char buffer[4096];
            const ssize_t got = read(terminal, buffer, sizeof buffer);
            if (got <= 0)
                break;
            said.append(buffer, static_cast<std::size_t>(got));
        }
        EXPECT_THAT(said, HasSubstr(expected));
        EXPECT_THAT(said, Not(HasSubstr("Traceback")));
        EXPECT_THAT(said, Not(HasSubstr("Python Exception")));
    };
    const auto type = [&](const std::string &keys) {
        ASSERT_EQ(write(terminal, keys.data(), keys.size()), ssize_t(keys.size()));
    };
    until("(gdb) ");
    EXPECT_THAT(said, HasSubstr("\x1b[1m")); // colours, as gdb's own
    type("set height 10\nset pagination on\nset style enabled off\necho ready\\n\n");
    until("ready\r\n"); // not the echo of what was typed
    for (const char *leave : {"q\n", "\x03"}) {
        type("incident timeline -n 1000\n");
        until("--Type <RET> for more");
        EXPECT_THAT(said, Not(HasSubstr("\x1b[33m"))); // styling is off
        type("\n");
        until("--Type <RET> for more");
        type(leave);
        until("Quit");
        type("echo after\\n\n");
        until("after\r\n");
    }
    type("quit\n");
    close(terminal);
    int status = 0;
    waitpid(child, &status, 0);
}

} // namespace incident::postmortem::test
