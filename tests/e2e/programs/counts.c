// counts ID: opens tracepoint ID (of its "format" in tracefs) through perf, as `perf stat -e` does, renames itself
// three times, and prints how often the tracepoint was hit.
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct perf_event_attr attr = {.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr)};
    attr.config = strtoull(argv[argc - 1], NULL, 10);
    int event = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    if (event < 0) {
        perror("perf_event_open");
        return 1;
    }
    for (int i = 0; i < 3; i++)
        prctl(PR_SET_NAME, "renamed");
    unsigned long long count = 0;
    if (read(event, &count, sizeof(count)) != sizeof(count))
        return 1;
    printf("%llu\n", count);
}
