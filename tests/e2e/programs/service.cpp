// service MODE PORT: connects to a database, says so, and waits for a line; then crash, slow, or grow (until it is
// ended).
#include <arpa/inet.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

static int connected(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<unsigned short>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    const int database = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(database, reinterpret_cast<sockaddr *>(&address), sizeof(address)) != 0)
        _exit(1);
    return database;
}

int main(int, char **argv) {
    const std::string mode = argv[1];
    const int database = connected(atoi(argv[2]));
    printf("service: connected to the database\nservice: waiting for work\nready %d\n", getpid());
    fflush(stdout);
    getchar();
    if (send(database, "select 1", 8, 0) != 8)
        return 1;
    printf("service: about to %s\n", mode.c_str());
    fflush(stdout);
    if (mode == "crash")
        *static_cast<volatile int *>(nullptr) = 0;
    while (mode == "slow")
        usleep(900000);
    for (;;) {
        memset(malloc(1 << 20), 1, 1 << 20);
        usleep(2000);
    }
}
