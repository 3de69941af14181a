// incidentctl doctor: the programs the rules are about.
#include "doctor_lab.h"

#include "postmortem/doctor/elf_look.h"
#include "state.h"

#include <filesystem>

namespace incident::postmortem::test {

using namespace doctor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace {

const char *const named_rule = "[[rule]]\nname = \"app\"\non = \"signal\"\nmatch = { unit = [\"app.service\"] }\n";

std::string this_program() {
    return std::filesystem::read_symlink("/proc/self/exe").string();
}

} // namespace

TEST(DoctorPrograms, Matches) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_matches)), Is(Grade::Ok, "1 process is watched, none of them named"));
    lab.rule(named_rule);
    lab.add({.pid = 200, .unit = "other.service"});
    EXPECT_THAT(only(lab.look(check_matches)), Is(Grade::Ok, "1 process is watched, 1 of them named"));
    lab.rule("[[rule]]\nname = \"app\"\non = \"signal\"\nmatch = { unit = [\"ap.service\"], comm = [\"a*\"] }\n");
    EXPECT_THAT(
        only(lab.look(check_matches)),
        Is(Grade::Warn, "no process runs that rule app is about: unit ['ap.service'], comm ['a*']", "test.toml:1"));
}

TEST(DoctorPrograms, WhatCannotBeSeenIsUnknown) {
    Lab lab;
    lab.root_user = false;
    lab.rule("[[rule]]\nname = \"app\"\non = \"signal\"\nmatch = { exe = [\"/opt/app\"] }\n");
    lab.remove("/proc/100/exe");
    EXPECT_THAT(only(lab.look(check_matches)), Is(Grade::Unknown, "programs of 1 process", "run as root"));
    EXPECT_THAT(only(lab.look(check_debug_info)), Is(Grade::Unknown, "no watched program", "run as root"));
}

TEST(DoctorPrograms, KernelThreadsAndIncidentdAreNotWatched) {
    Lab lab;
    lab.write("/proc/100/status", "Name:\tkworker\nUid:\t0\t0\t0\t0\n");
    lab.add({.pid = 1, .comm = "incidentd"}); // the pid the daemon says is its own
    EXPECT_THAT(only(lab.look(check_matches)), Is(Grade::Warn, "no running process is watched"));
}

TEST(DoctorPrograms, Replaced) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_replaced)), Is(Grade::Ok, ""));
    lab.add({.exe = "/opt/app (deleted)"});
    lab.add({.pid = 101, .exe = "/opt/app (deleted)", .unit = "a\\x2db.service"});
    const Finding found = only(lab.look(check_replaced));
    EXPECT_THAT(found, Is(Grade::Warn, "/opt/app was removed or replaced while app[100], app[101] run it"));
    EXPECT_EQ(found.fix, "systemctl restart 'a\\x2db.service'\nsystemctl restart app.service");
    lab.remove("/proc/101");
    lab.add({.exe = "/memfd:app (deleted)"}); // never had a place
    EXPECT_THAT(only(lab.look(check_replaced)), Is(Grade::Ok, ""));
}

TEST(DoctorPrograms, ReplacedLibrary) {
    Lab lab;
    const auto maps = [](const std::string &flags, const std::string &path) {
        return "7f0000000000-7f0000001000 " + flags + " 00000000 08:01 12                         " + path + "\n";
    };
    lab.add({.maps = maps("r-xp", "/usr/lib/libssl.so.3 (deleted)")});
    EXPECT_THAT(only(lab.look(check_replaced)),
                Is(Grade::Warn, "/usr/lib/libssl.so.3 was removed or replaced while app[100]", "restart app.service"));
    for (const std::string &other : {maps("r-xp", "/usr/lib/libssl.so.3"), maps("rw-p", "/tmp/data (deleted)"),
                                     maps("r-xp", "/memfd:jit (deleted)")}) {
        lab.add({.maps = other});
        EXPECT_THAT(only(lab.look(check_replaced)), Is(Grade::Ok, "")) << other;
    }
}

TEST(DoctorPrograms, DebugInfoOfItsOwn) {
    Lab lab;
    lab.add({.exe = this_program()});
    EXPECT_THAT(only(lab.look(check_debug_info)), Is(Grade::Ok, "for all of 1 watched program"));
    EXPECT_THAT(only(lab.look(check_debuginfod)), Is(Grade::Ok, "nothing that was looked into needs it"));
}

TEST(DoctorPrograms, MissingDebugInfoNamesThePackage) {
    Lab lab;
    const std::string stripped = std::filesystem::canonical("/bin/true").string();
    lab.add({.exe = stripped});
    lab.dpkg = "coreutils: " + stripped + "\n";
    EXPECT_THAT(only(lab.look(check_debug_info)), Is(Grade::Warn, "none for 1 of 1 watched program: " + stripped,
                                                     "apt install coreutils-dbgsym   # needs"));
    EXPECT_THAT(only(lab.look(check_debuginfod)), Is(Grade::Note, "DEBUGINFOD_URLS is not set"));
    lab.debuginfod_urls = "https://example.org";
    EXPECT_THAT(only(lab.look(check_debuginfod)), Is(Grade::Ok, "https://example.org"));
}

TEST(DoctorPrograms, DebugFileIsFoundByBuildId) {
    Lab lab;
    const std::string stripped = std::filesystem::canonical("/bin/true").string();
    const auto without = look_at_elf_files({{.path = stripped, .places = {stripped}}}, lab.root().string());
    ASSERT_EQ(without.front().debug, "none");
    const std::string id = without.front().build_id;
    ASSERT_GE(id.size(), 8u);
    // Any file with that build-id is its debug file: here itself.
    const std::string debug = "/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug";
    lab.write(debug, read_file(stripped));
    const auto with = look_at_elf_files({{.path = stripped, .places = {stripped}}}, lab.root().string());
    EXPECT_EQ(with.front().debug, lab.root().string() + debug);
}

TEST(DoctorPrograms, NamedProgramsAreLookedIntoWithTheirLibraries) {
    Lab lab;
    const std::string library = std::filesystem::canonical("/lib64/ld-linux-x86-64.so.2").string();
    const std::string maps =
        "7f0000000000-7f0000001000 r-xp 00000000 08:01 12                         " + library + "\n";
    lab.link(library, "/mapped");
    lab.add({.exe = this_program(), .maps = maps});
    lab.add({.pid = 101, .exe = "/bin/true", .unit = "other.service"});
    // Where the file is opened: the mapping itself.
    lab.write("/proc/100/map_files/none", "");
    lab.link(library, "/proc/100/map_files/7f0000000000-7f0000001000");
    lab.rule(named_rule);
    EXPECT_THAT(lab.look(check_debug_info), ElementsAre(Is(Grade::Ok, "for all of 1 watched program"),
                                                        Is(Grade::Warn, "none for 1 of 1 library: " + library)));
    lab.remove("/proc/100/map_files");
    EXPECT_THAT(lab.look(check_debug_info),
                ElementsAre(Is(Grade::Ok, ""), Is(Grade::Unknown, "1 of 1 library could not be looked into")));
}

TEST(DoctorPrograms, UnwindTablesAndFramePointers) {
    Lab lab;
    lab.add({.exe = this_program()}); // -O0 keeps frame pointers
    EXPECT_THAT(only(lab.look(check_unwind_tables)), Is(Grade::Ok, "the one file has .eh_frame"));
    EXPECT_THAT(lab.look(check_frame_pointers), IsEmpty());
    lab.add({.pid = 101, .exe = "/bin/true"});
    EXPECT_THAT(only(lab.look(check_frame_pointers)), Is(Grade::Note, "1 program keep none: "));
}

TEST(DoctorPrograms, WhatIsNoElfIsUnknown) {
    Lab lab;
    lab.write("/opt/script", "#!/bin/sh\n");
    lab.add({.exe = lab.root().string() + "/opt/script"});
    EXPECT_THAT(only(lab.look(check_debug_info)), Is(Grade::Unknown, "(it is not ELF)"));
    EXPECT_THAT(lab.look(check_unwind_tables), IsEmpty());
}

TEST(DoctorPrograms, FileWithoutUnwindTables) {
    Lab lab;
    // A program, its .eh_frame renamed.
    std::string bytes = read_file("/bin/true");
    for (std::size_t at = 0; (at = bytes.find(std::string(".eh_frame\0", 10), at)) != bytes.npos; ++at)
        bytes[at + 1] = 'x';
    lab.write("/opt/bare", bytes);
    lab.add({.exe = lab.root().string() + "/opt/bare"});
    EXPECT_THAT(only(lab.look(check_unwind_tables)), Is(Grade::Warn, "have no .eh_frame", "-fasynchronous"));
}

TEST(DoctorPrograms, HostileFilesCostThemselvesOnly) {
    Lab lab;
    const std::string good = this_program();
    std::string head = read_file("/bin/true").substr(0, 4096); // section headers lie far beyond
    lab.write("/cut", head);
    for (std::size_t i = 64; i < head.size(); i += 3)
        head[i] = static_cast<char>(i * 37);
    lab.write("/garbage", head);
    const std::string root = lab.root().string();
    const auto reports = look_at_elf_files({{.path = "a", .places = {root + "/cut"}},
                                            {.path = "b", .places = {root + "/garbage"}},
                                            {.path = "c", .places = {root + "/none", good}},
                                            {.path = "d", .places = {root + "/none"}}},
                                           root);
    ASSERT_EQ(reports.size(), 4u);
    EXPECT_FALSE(reports[0].unwind_tables);
    EXPECT_FALSE(reports[1].unwind_tables);
    EXPECT_EQ(reports[2].problem, "");
    EXPECT_EQ(reports[2].debug, "in the file");
    EXPECT_GT(reports[2].frame_pointers * 2, reports[2].functions);
    EXPECT_EQ(reports[3].problem, "it cannot be opened");
}

TEST(DoctorPrograms, MoreFilesThanOneChildTakes) {
    const std::string good = this_program();
    std::vector<ElfInput> files;
    for (int i = 0; i < 150; ++i)
        files.push_back({.path = std::to_string(i), .places = {i == 70 ? "/dev/null" : good}});
    const auto reports = look_at_elf_files(files, "/nowhere");
    ASSERT_EQ(reports.size(), 150u);
    for (int i = 0; i < 150; ++i)
        EXPECT_EQ(reports[static_cast<std::size_t>(i)].problem, i == 70 ? "it cannot be opened" : "") << i;
}

TEST(DoctorTools, Gdb) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_gdb)), Is(Grade::Ok, "13.1"));
    lab.gdb = "GNU gdb (Debian 13.1-3) 13.1\n";
    EXPECT_THAT(only(lab.look(check_gdb)), Is(Grade::Warn, "without Python", "apt install gdb"));
    lab.write("/usr/bin/dnf", "");
    EXPECT_THAT(only(lab.look(check_gdb)), Is(Grade::Warn, "without Python", "dnf install gdb"));
    lab.write("/usr/bin/apt", "");
    lab.gdb = "";
    EXPECT_THAT(only(lab.look(check_gdb)), Is(Grade::Warn, "not installed", "apt install gdb"));
}

} // namespace incident::postmortem::test
