// named: for each byte of standard input calls the slow function that begins with it.  Their names have commas,
// brackets and blanks, and of one gcc keeps a copy only (.constprop: its second argument is always the same).
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <vector>

volatile int sink;

[[gnu::noinline, gnu::noclone]] int store(std::vector<std::string> const &what) {
    usleep(100000);
    return static_cast<int>(what.size());
}

[[gnu::noinline, gnu::noclone]] int keep(std::vector<std::string> const &what) {
    usleep(100000);
    return static_cast<int>(what.size()) + 1;
}

[[gnu::noinline, gnu::noclone]] int fetch(std::string const &what) {
    usleep(100000);
    return static_cast<int>(what.size());
}

[[gnu::noinline]] static int walk(int times, int how) {
    for (int i = 0; i < times; ++i)
        sink = sink + how;
    usleep(100000);
    return sink * how;
}

int main() {
    char c;
    while (read(0, &c, 1) == 1) {
        if (c == 's')
            sink = store({"one", "two"});
        else if (c == 'k')
            sink = keep({"one", "two", "three"});
        else if (c == 'f')
            sink = fetch("three");
        else
            sink = walk(sink & 7, 7) + walk(sink & 15, 7);
    }
}
