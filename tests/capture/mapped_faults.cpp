#include "capture/os/mapped_faults.h"
#include "capture/os/unique_fd.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace incident::capture {
namespace {

// Two pages of a file that ends with the first.
class CutFile {
public:
    CutFile() : page(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
        char path[] = "/tmp/incidentd-test-XXXXXX";
        const UniqueFd file(::mkstemp(path));
        ::unlink(path);
        EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(page)), 0);
        EXPECT_EQ(::pwrite(file.get(), "x", 1, 0), 1);
        at = static_cast<volatile char *>(::mmap(nullptr, 2 * page, PROT_READ, MAP_SHARED, file.get(), 0));
    }
    ~CutFile() { ::munmap(const_cast<char *>(at), 2 * page); }
    CutFile(const CutFile &) = delete;
    CutFile &operator=(const CutFile &) = delete;

    std::size_t page;
    volatile char *at;
};

TEST(MappedFaults, ReadAsZeros) {
    const CutFile file;
    const MappedFaults outer;
    {
        const MappedFaults faults;
        EXPECT_EQ(file.at[0], 'x');
        EXPECT_FALSE(faults.met());
        EXPECT_EQ(file.at[file.page + 17], 0);
        EXPECT_TRUE(faults.met());
    }
    const MappedFaults later;
    EXPECT_FALSE(later.met());
    EXPECT_TRUE(outer.met());
}

TEST(MappedFaultsDeath, EndTheProcessElsewhere) {
    const CutFile file;
    { const MappedFaults faults; }
    EXPECT_DEATH((void)file.at[file.page], "");
}

TEST(MappedFaultsDeath, ASignalThatIsSentEndsIt) {
    const MappedFaults faults;
    EXPECT_DEATH(::raise(SIGBUS), "");
}

} // namespace
} // namespace incident::capture
