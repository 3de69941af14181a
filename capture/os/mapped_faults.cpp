#include "capture/os/mapped_faults.h"

#include <csignal>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace incident::capture {

namespace {

thread_local volatile int guarded = 0;
thread_local volatile std::uint64_t faults = 0;
struct sigaction other_action; // that SIGBUS had before

// What it calls may be called in a signal handler (signal-safety(7)); mmap() is not named there, and is a system call
// and nothing else.
void on_sigbus(int signal, siginfo_t *info, void *) {
    if (guarded > 0 && info->si_code == BUS_ADRERR) {
        const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
        char *const at =
            static_cast<char *>(info->si_addr) - (reinterpret_cast<std::uintptr_t>(info->si_addr) & (page - 1));
        if (::mmap(at, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at) {
            faults = faults + 1;
            return;
        }
    }
    ::sigaction(signal, &other_action, nullptr);
    if (info->si_code <= 0) // sent, so that it does not come again by itself
        ::raise(signal);
}

} // namespace

MappedFaults::MappedFaults() {
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action {};
        action.sa_sigaction = on_sigbus;
        action.sa_flags = SA_SIGINFO;
        ::sigaction(SIGBUS, &action, &other_action);
    });
    before_ = faults;
    guarded = guarded + 1;
}

MappedFaults::~MappedFaults() {
    guarded = guarded - 1;
}

bool MappedFaults::met() const {
    return faults != before_;
}

} // namespace incident::capture
