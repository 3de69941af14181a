/* Three threads that wait, some frames deep each. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

/* One file twice, with memory that is no file's in between. */
static void map_around(void) {
    int file = open("/proc/self/exe", O_RDONLY);
    char *pages = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mmap(pages, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
    mmap(pages + 2 * 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 4096);
    close(file);
}

__attribute__((noinline)) void inner_wait(int seconds) {
    sleep(seconds);
    __asm__ volatile("");
}

__attribute__((noinline)) void outer_wait(int seconds) {
    inner_wait(seconds + 1);
    __asm__ volatile("");
}

static void *waiter(void *unused) {
    outer_wait(1000);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    map_around();
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, waiter, 0);
    pthread_join(threads[0], 0);
    return 0;
}
