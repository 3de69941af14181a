// Sends what stands on its standard input to the journal in its native protocol, as any user may.
//
// forge PID: as soon as that process is being dumped or has ended; 0: at once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int has_died(const char *pid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%s/status", pid);
    FILE *status = fopen(path, "re");
    int died = status == NULL;
    while (status && fgets(line, sizeof line, status))
        died |= strncmp(line, "CoreDumping:\t1", 14) == 0 || strncmp(line, "State:\tZ", 8) == 0;
    if (status)
        fclose(status);
    return died;
}

int main(int argc, char **argv) {
    static char entry[1 << 16];
    const size_t size = fread(entry, 1, sizeof entry, stdin);
    const int to = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_un journal = {AF_UNIX, "/run/systemd/journal/socket"};
    if (argc != 2 || connect(to, (const struct sockaddr *)&journal, sizeof journal) != 0)
        return 1;
    puts("ready");
    fflush(stdout);
    while (strcmp(argv[1], "0") != 0 && !has_died(argv[1]))
        usleep(200);
    if (send(to, entry, size, 0) != (ssize_t)size)
        return 1;
    sleep(1); // journald looks at its sender's /proc when it gets to it
    return 0;
}
