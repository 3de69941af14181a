// bare_uprobes PID PATH OFFSET[r]…: an empty BPF program at each place of that file in that process; "r": where the
// function there returns.  Says "ready" and holds them until its input ends.
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int event_type(void) {
    int type = -1;
    FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
    if (!file || fscanf(file, "%d", &type) != 1)
        perror("uprobe/type");
    if (file)
        fclose(file);
    return type;
}

int main(int argc, char **argv) {
    const struct bpf_insn empty[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    int program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "empty", "GPL", empty, 2, NULL), type = event_type();
    if (program < 0 || type < 0 || argc < 4) {
        perror("bare_uprobes");
        return 1;
    }
    for (int i = 3; i < argc; ++i) {
        char *rest;
        struct perf_event_attr attr = {.type = type, .size = sizeof attr, .sample_period = 1, .wakeup_events = 1};
        attr.uprobe_path = (unsigned long)argv[2];
        attr.probe_offset = strtoul(argv[i], &rest, 0);
        attr.config = *rest == 'r'; // of the return: /sys/bus/event_source/devices/uprobe/format/retprobe
        int event = syscall(SYS_perf_event_open, &attr, atoi(argv[1]), -1, -1, PERF_FLAG_FD_CLOEXEC);
        if (event < 0 || bpf_link_create(program, event, BPF_PERF_EVENT, NULL) < 0) {
            perror(argv[i]);
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
}
