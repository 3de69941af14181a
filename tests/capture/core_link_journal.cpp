// CoreJournal against a journald of its own: an instance in a private mount namespace,
// which writes below a temporary directory and shares nothing with the host's.
#include "capture/core/core_link.h"
#include "capture/os/unique_fd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <systemd/sd-id128.h>

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

namespace incident::capture {
namespace {

using testing::HasSubstr;
using Fields = std::map<std::string, std::string>;

constexpr std::uint64_t SECOND = 1'000'000'000;
constexpr const char *JOURNALD = "/lib/systemd/systemd-journald";

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
}

std::string boot_id() {
    sd_id128_t id{};
    EXPECT_GE(::sd_id128_get_boot(&id), 0);
    char text[SD_ID128_STRING_MAX];
    return ::sd_id128_to_string(id, text);
}

template <typename Done> bool within(std::chrono::seconds limit, Done done) {
    for (const auto end = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < end;) {
        if (done())
            return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return done();
}

std::string auxv() {
    const std::uint64_t words[] = {AT_PAGESZ, 4096, AT_RANDOM, 0x7ffc3b01a5b9, AT_NULL, 0};
    return {reinterpret_cast<const char *>(words), sizeof words};
}

class CoreLinkJournal : public testing::Test {
protected:
    void SetUp() override {
        if (::geteuid() != 0)
            GTEST_SKIP() << "needs root, to run a journald in a mount namespace";
        if (::access(JOURNALD, X_OK) != 0 || ::access("/etc/machine-id", R_OK) != 0)
            GTEST_SKIP() << "no " << JOURNALD << " or no machine id";
        char path[] = "/tmp/incidentd-test-XXXXXX";
        root = ::mkdtemp(path);
        ::chmod(root.c_str(), 0755);
        for (const char *below : {"/run", "/log", "/log/journal", "/coredump"})
            std::filesystem::create_directory(root + below);
        os.coredump = root + "/coredump";
        // This program is the handler here, so that journald names it as that of the sender.
        os.proc = root + "/proc";
        os.systemd = root + "/no-systemd";
        std::filesystem::create_directories(os.proc + "/sys/kernel");
        std::ofstream(os.proc + "/sys/kernel/core_pattern")
            << "|" << std::filesystem::read_symlink("/proc/self/exe").string() << " %P %u\n";
        start_journald();
        if (HasFatalFailure() || IsSkipped())
            return;
        auto opened = CoreJournal::open(directory, os);
        ASSERT_TRUE(opened) << opened.error().what;
        journal.emplace(std::move(*opened));
    }

    void TearDown() override {
        journal.reset();
        if (journald > 0) {
            ::kill(journald, SIGKILL);
            ::waitpid(journald, nullptr, 0);
        }
        if (!root.empty())
            std::filesystem::remove_all(root);
    }

    void start_journald() {
        const std::string run = root + "/run", log = root + "/log";
        journald = ::fork();
        ASSERT_GE(journald, 0);
        if (journald == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
            ::dup2(null, 0);
            ::dup2(null, 1);
            ::dup2(null, 2);
            if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", "", MS_REC | MS_PRIVATE, "") != 0 ||
                ::mount(run.c_str(), "/run", "", MS_BIND, "") != 0 ||
                ::mount(log.c_str(), "/var/log", "", MS_BIND, "") != 0)
                ::_exit(77);
            ::execl(JOURNALD, JOURNALD, "test", nullptr);
            ::_exit(77);
        }
        socket_path = run + "/systemd/journal.test/socket";
        const bool up = within(std::chrono::seconds(10), [&] {
            for (const auto &entry : std::filesystem::directory_iterator(log + "/journal"))
                directory = entry.path();
            return !directory.empty() && std::filesystem::exists(directory + "/system.journal") &&
                   std::filesystem::exists(socket_path);
        });
        if (!up)
            GTEST_SKIP() << "no journald of our own came up (no mount namespaces here?)";
    }

    // In the native protocol; as another user where one is given.
    void send(const Fields &fields, uid_t uid = 0, int times = 1) const {
        std::string message;
        for (const auto &[name, value] : fields) {
            const std::uint64_t length = value.size();
            message += name + "\n" + std::string(reinterpret_cast<const char *>(&length), 8) + value + "\n";
        }
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            if (uid != 0 && ::setresuid(uid, uid, uid) != 0)
                ::_exit(1);
            const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            sockaddr_un address{};
            address.sun_family = AF_UNIX;
            std::strncpy(address.sun_path, socket_path.c_str(), sizeof address.sun_path - 1);
            ssize_t sent = 0;
            for (int i = 0; i < times; ++i)
                sent = ::sendto(fd, message.data(), message.size(), 0, reinterpret_cast<const sockaddr *>(&address),
                                sizeof address);
            // journald looks at the sender's /proc when it gets to it.
            ::usleep(100'000);
            ::_exit(sent == static_cast<ssize_t>(message.size()) ? 0 : 1);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_EQ(status, 0);
    }

    DeathIdentity death() const {
        DeathIdentity d;
        d.boot_id = boot_id();
        d.process.pid = 4'000'000; // beyond what is likely to be alive
        d.exe = "/usr/bin/app";
        d.signal = 11;
        d.time.ns = born;
        d.uid = 1000;
        d.auxv = auxv();
        return d;
    }

    Fields entry() const {
        return {{"MESSAGE_ID", "fc2e22bc6ee647b6b90729ab34a250b1"},
                {"MESSAGE", "Process 4000000 (app) of user 1000 dumped core.\n\nStack trace"},
                {"COREDUMP_PID", "4000000"},
                {"COREDUMP_UID", "1000"},
                {"COREDUMP_SIGNAL", "11"},
                {"COREDUMP_EXE", "/usr/bin/app"},
                {"COREDUMP_TIMESTAMP", std::to_string(born / SECOND * 1'000'000)},
                {"COREDUMP_PROC_AUXV", auxv()},
                {"COREDUMP_FILENAME", os.coredump + "/core.app.zst"}};
    }

    CoreLink find(const DeathIdentity &d) {
        auto link = journal->find(d);
        EXPECT_TRUE(link) << link.error().what;
        return link ? *link : CoreLink{};
    }
    // As soon as journald has stored it.
    CoreLink wait(const DeathIdentity &d) {
        CoreLink link;
        within(std::chrono::seconds(10), [&] {
            link = find(d);
            return link.join != Join::None || link.reason.find("nearest") != std::string::npos;
        });
        return link;
    }

    std::string root, directory, socket_path;
    OsRoots os;
    pid_t journald = -1;
    std::optional<CoreJournal> journal;
    const std::uint64_t born = now_ns();
};

TEST_F(CoreLinkJournal, SeesAnEntryThatComesLater) {
    CoreLink link = find(death());
    EXPECT_EQ(link.join, Join::None);
    EXPECT_EQ(link.reason, "no entry of systemd-coredump for pid 4000000 in this boot");
    EXPECT_TRUE(link.pending) << "it may still come";

    std::ofstream(os.coredump + "/core.app.zst") << "12345";
    send(entry());
    link = wait(death());
    EXPECT_EQ(link.join, Join::Exact);
    EXPECT_EQ(link.reason, "same boot, pid, auxiliary vector, signal and second; no other entry fits");
    EXPECT_EQ(link.file, os.coredump + "/core.app.zst");
    EXPECT_EQ(link.file_bytes, 5u);
    EXPECT_THAT(link.journal_cursor, HasSubstr("s="));
    EXPECT_FALSE(link.pending);
    EXPECT_FALSE(link.truncated);

    DeathIdentity other = death();
    other.boot_id = std::string(32, '1');
    EXPECT_EQ(find(other).join, Join::None);
    other = death();
    other.process.pid = 400000; // a prefix is not the pid
    EXPECT_EQ(find(other).join, Join::None);
    other.boot_id = "not hex";
    EXPECT_FALSE(journal->find(other));
}

// libsystemd passes over a file that it cannot open, and never comes back to it.
TEST_F(CoreLinkJournal, FilesThatCouldNotBeOpenedForAMomentAreOpenedLater) {
    send(entry());
    ASSERT_EQ(wait(death()).join, Join::Exact);
    const std::string file = directory + "/system.journal";
    if (::mount("/dev/null", file.c_str(), "", MS_BIND, "") != 0)
        GTEST_SKIP() << "nothing can be mounted here";
    auto opened = CoreJournal::open(directory, os);
    ASSERT_EQ(::umount(file.c_str()), 0);
    ASSERT_TRUE(opened) << opened.error().what;
    *journal = std::move(*opened);
    EXPECT_EQ(find(death()).join, Join::None) << "it was passed over";
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    ASSERT_TRUE(journal->refresh());
    EXPECT_EQ(find(death()).join, Join::Exact);
}

TEST_F(CoreLinkJournal, TellsAnEventLoop) {
    const int fd = journal->fd();
    pollfd poll{fd, POLLIN, 0};
    while (::poll(&poll, 1, 0) > 0) // what journald wrote at its start
        ASSERT_TRUE(journal->process());
    send(entry());
    EXPECT_EQ(::poll(&poll, 1, 10'000), 1);
    EXPECT_TRUE(journal->process());
    EXPECT_EQ(journal->fd(), fd);
}

TEST_F(CoreLinkJournal, SaysWhereTheCoreIsNot) {
    const auto with = [&](std::uint32_t pid, auto change) {
        Fields fields = entry();
        DeathIdentity d = death();
        d.process.pid = pid;
        fields["COREDUMP_PID"] = std::to_string(pid);
        change(fields);
        send(fields);
        CoreLink link = wait(d);
        EXPECT_EQ(link.join, Join::Exact);
        EXPECT_EQ(link.file_bytes, 0u);
        return link;
    };
    CoreLink link = with(4'000'001, [](auto &) {});
    EXPECT_THAT(link.reason, HasSubstr("; core file vacuumed since"));
    EXPECT_EQ(link.file, os.coredump + "/core.app.zst");
    link = with(4'000'002, [](auto &f) { f.erase("COREDUMP_FILENAME"); });
    EXPECT_THAT(link.reason, HasSubstr("; no core was stored"));
    EXPECT_EQ(link.file, "");
    link = with(4'000'003, [](auto &f) {
        f.erase("COREDUMP_FILENAME");
        f["COREDUMP"] = std::string(100'000, 'x');
    });
    EXPECT_THAT(link.reason, HasSubstr("; the core is inside the journal entry"));
    EXPECT_EQ(link.file, "");
    link = with(4'000'004, [](auto &f) { f["COREDUMP_TRUNCATED"] = "1"; });
    EXPECT_TRUE(link.truncated);
    EXPECT_THAT(link.reason, HasSubstr("; the core is truncated"));
    for (const std::string &file : {std::string("/etc/shadow"), os.coredump + "/../../etc/shadow", os.coredump + "/"}) {
        static std::uint32_t pid = 4'000'010;
        link = with(pid++, [&](auto &f) { f["COREDUMP_FILENAME"] = file; });
        EXPECT_EQ(link.file, "");
        EXPECT_THAT(link.reason, HasSubstr("; not to be opened: the core is said to be a file outside "));
    }
    std::filesystem::create_symlink("/etc/passwd", os.coredump + "/link");
    link = with(4'000'020, [&](auto &f) { f["COREDUMP_FILENAME"] = os.coredump + "/link"; });
    EXPECT_THAT(link.reason, HasSubstr("; not to be opened: the core file is a symbolic link"));
    EXPECT_EQ(link.file, "");
}

TEST_F(CoreLinkJournal, PassesOverWhatAUserWrote) {
    send(entry(), 12345);
    const CoreLink link = wait(death());
    EXPECT_EQ(link.join, Join::None);
    EXPECT_THAT(link.reason, HasSubstr("not written by systemd-coredump but by uid 12345"));
}

// The processes of that number that dumped core before are no news beside what a stranger wrote now.
TEST_F(CoreLinkJournal, PassesOverEarlierProcessesOfThatNumber) {
    DeathIdentity later = death();
    send(entry());
    ASSERT_EQ(wait(death()).join, Join::Exact);
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    later.time.ns = now_ns();
    EXPECT_EQ(find(later).rejected, "");
    send(entry(), 12345);
    EXPECT_THAT(wait(later).rejected, HasSubstr("not written by systemd-coredump but by uid 12345"));
}

// However many she sends: all that systemd-coredump wrote is looked at.
TEST_F(CoreLinkJournal, IsNotFloodedByAnotherUser) {
    send(entry());
    send(entry(), 12345, 300);
    send(entry(), 12345); // the last one is there when journald has looked at all
    ASSERT_EQ(wait(death()).join, Join::Exact);
    DeathIdentity other = death();
    other.process.pid = 4'000'001;
    Fields last = entry();
    last["COREDUMP_PID"] = "4000001";
    send(last);
    ASSERT_EQ(wait(other).join, Join::Exact);
    EXPECT_EQ(find(death()).join, Join::Exact);
}

TEST_F(CoreLinkJournal, WithoutAHandlerOfThatNameNothingIsTrusted) {
    std::ofstream(os.proc + "/sys/kernel/core_pattern") << "|/bin/false %P\n";
    send(entry());
    const CoreLink link = wait(death());
    EXPECT_EQ(link.join, Join::None);
    EXPECT_THAT(link.reason, HasSubstr("not written by systemd-coredump but by uid 0, /"));
    EXPECT_THAT(link.rejected, HasSubstr("uid 0, /"));
}

TEST_F(CoreLinkJournal, GarbageInFieldsIsNotTrusted) {
    Fields fields = entry();
    fields["COREDUMP_SIGNAL"] = "eleven";
    fields["COREDUMP_TIMESTAMP"] = "99999999999999999999999";
    fields["COREDUMP_UID"] = "-1";
    fields["COREDUMP_EXE"] = std::string("\xff\n\0x", 4);
    send(fields);
    const CoreLink link = wait(death());
    EXPECT_EQ(link.join, Join::Window);
    EXPECT_EQ(
        link.reason.substr(0, link.reason.find(';', 60)),
        "same boot, pid, auxiliary vector; not proven: the entry names no signal, the entry names no time of death");
}

TEST_F(CoreLinkJournal, AfterSomeTimeNothingIsPending) {
    DeathIdentity old = death();
    old.time.ns -= 3600 * SECOND;
    EXPECT_FALSE(find(old).pending);
}

TEST(CoreLinkOpen, OfNoDirectoryIsAnError) {
    const auto journal = CoreJournal::open("/nonexistent/journal");
    ASSERT_FALSE(journal);
    EXPECT_EQ(journal.error().what, "open the journal in /nonexistent/journal: No such file or directory");
}

// The real systemd-coredump, where somebody has started it; tests/e2e sees to that.
TEST(CoreLinkReal, JoinsARealCrash) {
    std::ifstream pattern_file("/proc/sys/kernel/core_pattern");
    std::string pattern;
    std::getline(pattern_file, pattern);
    if (pattern.find("/systemd-coredump ") == std::string::npos || !coredump_socket_listens() ||
        ::access("/run/systemd/journal/socket", W_OK) != 0)
        GTEST_SKIP() << "systemd-coredump does not listen, or no journald runs";
    auto journal = CoreJournal::open();
    ASSERT_TRUE(journal) << journal.error().what;

    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::execl("/bin/sleep", "sleep", "100", nullptr);
        ::_exit(127);
    }
    const std::string proc = "/proc/" + std::to_string(child);
    DeathIdentity death;
    ASSERT_TRUE(within(std::chrono::seconds(10), [&] {
        std::error_code error;
        death.exe = std::filesystem::read_symlink(proc + "/exe", error);
        return death.exe.ends_with("/sleep");
    }));
    std::ifstream vector(proc + "/auxv", std::ios::binary);
    death.auxv.assign(std::istreambuf_iterator<char>(vector), {});
    death.boot_id = boot_id();
    death.process.pid = static_cast<std::uint32_t>(child);
    death.signal = SIGSEGV;
    death.uid = ::getuid();
    death.time.ns = now_ns();
    ::kill(child, SIGSEGV);
    CoreLink link;
    EXPECT_TRUE(within(std::chrono::seconds(20), [&] {
        auto found = journal->find(death);
        EXPECT_TRUE(found) << found.error().what;
        link = found ? *found : CoreLink{};
        return link.join != Join::None || !link.pending;
    }));
    ::waitpid(child, nullptr, 0);
    EXPECT_EQ(link.join, Join::Exact) << link.reason;
    EXPECT_THAT(link.file, HasSubstr("core.sleep."));
    EXPECT_GT(link.file_bytes, 0u);
    // The same circumstances without the vector.
    death.auxv.clear();
    EXPECT_EQ(journal->find(death)->join, Join::Window);
    death.exe = "/bin/other";
    EXPECT_EQ(journal->find(death)->join, Join::None);
}

} // namespace
} // namespace incident::capture
