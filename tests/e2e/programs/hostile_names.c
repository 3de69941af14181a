/* Opens a path and connects to addresses that are meant for a terminal, or are none. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "\033]0;owned\a<script>\n/x"};
    open("/tmp/\033[31m\n\xff\xfe\"}", O_RDONLY);
    connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&address, sizeof(address));
    connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&address, 128);
    connect(socket(AF_INET, SOCK_STREAM, 0), (void *)1, 16);
    connect(-1, (void *)&address, 3);
    for (int i = 0; i < 100000; i++)
        lseek(i & 1, i, SEEK_CUR);
    *(volatile int *)0 = 1;
}
