// incidentctl doctor: the journal, and systemd's configuration files as systemd reads them.
#include "doctor_lab.h"

namespace incident::postmortem::test {

using namespace doctor;
using testing::ElementsAre;

TEST(DoctorJournal, Running) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_journald)), Is(Grade::Ok, ""));
    lab.write("/proc/1/net/unix", "Num       RefCount Protocol Flags    Type St Inode Path\n");
    EXPECT_THAT(only(lab.look(check_journald)), Is(Grade::Bad, "nobody reads", "systemctl start systemd-journald"));
    lab.remove("/proc/1/net/unix");
    EXPECT_THAT(only(lab.look(check_journald)), Is(Grade::Unknown, ""));
}

TEST(DoctorJournal, Storage) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_journal_storage)), Is(Grade::Ok, "/var/log/journal"));
    lab.remove("/var/log/journal");
    EXPECT_THAT(only(lab.look(check_journal_storage)),
                Is(Grade::Warn, "Storage=auto (the default) and no /var/log/journal", "mkdir -p /var/log/journal"));
    lab.write("/etc/systemd/journald.conf", "[Journal]\nStorage=persistent\n");
    EXPECT_THAT(only(lab.look(check_journal_storage)), Is(Grade::Ok, ""));
    lab.write("/usr/lib/systemd/journald.conf.d/x.conf", "[Journal]\nStorage=volatile\n");
    EXPECT_THAT(only(lab.look(check_journal_storage)),
                Is(Grade::Warn, "Storage=volatile (/usr/lib/systemd/journald.conf.d/x.conf)", "Storage=persistent"));
    lab.write("/etc/systemd/journald.conf.d/x.conf", "[Journal]\nStorage=none\n");
    EXPECT_THAT(only(lab.look(check_journal_storage)), Is(Grade::Bad, "Storage=none (/etc/"));
}

TEST(DoctorJournal, RateLimit) {
    Lab lab;
    EXPECT_THAT(only(lab.look(check_journal_rate)), Is(Grade::Ok, "10000 messages of a service in 30s"));
    const auto set = [&](const std::string &text) { lab.write("/etc/systemd/journald.conf", "[Journal]\n" + text); };
    set("RateLimitBurst=20\n");
    EXPECT_THAT(only(lab.look(check_journal_rate)), Is(Grade::Warn, "20 messages", "RateLimitBurst=10000"));
    set("RateLimitBurst=20\nRateLimitIntervalSec=0\n");
    EXPECT_THAT(only(lab.look(check_journal_rate)), Is(Grade::Ok, "off"));
    set("RateLimitBurst=20\nRateLimitIntervalSec=0s\n");
    EXPECT_THAT(only(lab.look(check_journal_rate)), Is(Grade::Ok, "off"));
    set("RateLimitBurst=0\n");
    EXPECT_THAT(only(lab.look(check_journal_rate)), Is(Grade::Ok, "off"));
    set("RateLimitBurst=many\n");
    EXPECT_THAT(only(lab.look(check_journal_rate)), Is(Grade::Unknown, "many"));
}

TEST(DoctorSystemdConfig, LastAssignmentOfTheLastFileCounts) {
    Lab lab;
    lab.write("/etc/systemd/x.conf", "[A]\nk=main\nonly=main\n[B]\nk=other section\n");
    lab.write("/usr/lib/systemd/x.conf.d/20.conf", "[A]\nk=vendor 20\n");
    lab.write("/etc/systemd/x.conf.d/10.conf", "[A]\nk=etc 10\n");
    auto config = read_systemd_config(lab.root().string(), "x.conf");
    EXPECT_EQ(config.text("A.k", ""), "vendor 20"); // by name, not by directory
    EXPECT_EQ(config.text("A.only", ""), "main");
    EXPECT_EQ(config.text("B.k", ""), "other section");
    EXPECT_EQ(config.find("A.k")->file, "/usr/lib/systemd/x.conf.d/20.conf");
    lab.write("/run/systemd/x.conf.d/20.conf", "[A]\nk=run 20\n"); // hides the vendor's
    EXPECT_EQ(read_systemd_config(lab.root().string(), "x.conf").text("A.k", ""), "run 20");
    lab.link("/dev/null", "/etc/systemd/x.conf.d/20.conf"); // masks both
    EXPECT_EQ(read_systemd_config(lab.root().string(), "x.conf").text("A.k", ""), "etc 10");
    lab.write("/etc/systemd/x.conf.d/30.txt", "[A]\nk=no drop-in\n");
    lab.write("/etc/systemd/x.conf.d/40.conf", "[A]\nk=\n"); // back to the default
    EXPECT_EQ(read_systemd_config(lab.root().string(), "x.conf").text("A.k", "default"), "default");
}

TEST(DoctorSystemdConfig, Syntax) {
    Lab lab;
    lab.write("/etc/systemd/x.conf", "# [A]\n;k=0\n  [A]  \n a = 1 \r\nnot an assignment\nlong = one \\\n# comment\n"
                                     "  two\nlast=3");
    const auto config = read_systemd_config(lab.root().string(), "x.conf");
    EXPECT_EQ(config.text("A.a", ""), "1");
    EXPECT_EQ(config.text("A.long", ""), "one  two");
    EXPECT_EQ(config.text("A.last", ""), "3");
    EXPECT_EQ(config.settings.size(), 3u);
}

TEST(DoctorSystemdConfig, Sizes) {
    for (const auto &[text, bytes] :
         std::vector<std::pair<std::string, std::optional<std::uint64_t>>>{{"0", 0},
                                                                           {"4096", 4096},
                                                                           {"512B", 512},
                                                                           {"2G", 2ull << 30},
                                                                           {"1.5K", 1536},
                                                                           {" 767M ", 767ull << 20},
                                                                           {"infinity", ~0ull},
                                                                           {"99999E", ~0ull},
                                                                           {"", std::nullopt},
                                                                           {"G", std::nullopt},
                                                                           {"-1", std::nullopt},
                                                                           {"5X", std::nullopt},
                                                                           {"5GB", std::nullopt}})
        EXPECT_EQ(systemd_size(text), bytes) << text;
}

TEST(DoctorSystemdConfig, Spans) {
    for (const auto &[text, seconds] :
         std::vector<std::pair<std::string, std::optional<double>>>{{"0", 0},
                                                                    {"90", 90},
                                                                    {"3d", 259200},
                                                                    {"2 weeks", 1209600},
                                                                    {"1h30min", 5400},
                                                                    {"1h 30s", 3630},
                                                                    {"250ms", 0.25},
                                                                    {"", std::nullopt},
                                                                    {"-", std::nullopt},
                                                                    {"d", std::nullopt},
                                                                    {"3 fortnights", std::nullopt}})
        EXPECT_EQ(systemd_span_seconds(text), seconds) << text;
}

} // namespace incident::postmortem::test
