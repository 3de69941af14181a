// An empty tp_btf program at the entry and at the return of every system call of the machine: the least that recording
// them could cost.  Says "ready" and holds them until its input ends.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <stdio.h>

static int attach(const char *tracepoint) {
    const struct bpf_insn empty[] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_RAW_TP);
    int type = libbpf_find_vmlinux_btf_id(tracepoint, BPF_TRACE_RAW_TP);
    if (type < 0)
        return type;
    options.attach_btf_id = type;
    int program = bpf_prog_load(BPF_PROG_TYPE_TRACING, "empty", "GPL", empty, 2, &options);
    return program < 0 ? program : bpf_raw_tracepoint_open(NULL, program);
}

int main(void) {
    if (attach("sys_enter") < 0 || attach("sys_exit") < 0) {
        perror("empty_pair");
        return 1;
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
}
