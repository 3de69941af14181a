#include "core_victim.h"

#include "full_core.h"
#include "state.h"

#include <cstdlib>
#include <sys/wait.h>

namespace incident::postmortem::test {

namespace {

// Written to: counter, tls_value.  Small stacks: the full core has all of them.
const char *const victim_source = R"(
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>
int counter = 1;
const char constant[] = "constant";
__thread int tls_value = 5;
static pthread_barrier_t barrier;
__attribute__((noinline)) static int inner(int n, const char *what) {
    char text[64];
    snprintf(text, sizeof text, "%s %d", what, n);
    if (n > 0)
        return inner(n - 1, what) + text[3];
    pthread_barrier_wait(&barrier);
    return strcmp(what, "two") ? pause() : select(0, 0, 0, 0, 0);
}
static void *work(void *what) {
    tls_value = 77;
    inner(4, what);
    return 0;
}
__attribute__((noinline)) int boom(volatile char *where, int depth) {
    char text[32];
    snprintf(text, sizeof text, "%d", counter += depth);
    if (depth > 0)
        return boom(where, depth - 1) + text[0];
    return *where = 1;
}
int main(int count, char **arguments) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    pthread_t threads[2];
    pthread_barrier_init(&barrier, 0, 3);
    pthread_create(&threads[0], &small, work, "one");
    pthread_create(&threads[1], &small, work, "two");
    pthread_barrier_wait(&barrier);
    usleep(100000);
    return boom((char *)(long)(16 * count), 3);
}
)";

} // namespace

CoreVictim::CoreVictim(const std::string &flags) {
    char name[] = "/var/tmp/mini-core-XXXXXX"; // not /tmp: it may be in memory
    if (!::mkdtemp(name)) {
        problem_ = "no temporary directory";
        return;
    }
    dir_ = name;
    write_file(dir_ / "victim.c", victim_source);
    if (const Output made = run("gcc -g -O2 -fomit-frame-pointer -pthread " + flags + " -o victim victim.c");
        made.code != 0) {
        problem_ = made.err;
        return;
    }
    const Output stopped = run("gdb -q -batch -nx -ex 'set debuginfod enabled off' -ex 'set disable-randomization off' "
                               "-ex run -ex \"python open('maps', 'w').write(open('/proc/%d/maps' % "
                               "gdb.selected_inferior().pid).read())\" -ex 'gcore core' -ex kill ./victim");
    if (stopped.code != 0 || !std::filesystem::exists(core()))
        problem_ = "gdb cannot run a victim_source here: " + stopped.out + stopped.err;
}

CoreVictim::~CoreVictim() {
    if (!dir_.empty())
        std::filesystem::remove_all(dir_);
}

CrashImage CoreVictim::image() const {
    return image_of_core(read_file(core()), read_file(dir_ / "maps"));
}

Output CoreVictim::run(const std::string &command) const {
    const std::string all =
        "cd " + dir_.string() + " && unset DEBUGINFOD_URLS && { " + command + " ; } >out 2>err </dev/null";
    Output output;
    const int status = std::system(all.c_str());
    output.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    output.out = read_file(dir_ / "out");
    output.err = read_file(dir_ / "err");
    return output;
}

} // namespace incident::postmortem::test
