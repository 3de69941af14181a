// empty_pair [ENTRY RETURN]: a tp_btf program at the entry and at the return of every system call of the machine.  Empty
// ones are the least that recording calls could cost; each letter of an argument is a helper that the program calls:
// t the current task, k the clock, j the jiffies; "-": there is no program.
// Says "ready" and holds them until its input ends.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>

enum { LETTERS_MAX = 8 };

static int helper(char letter) {
    switch (letter) {
    case 't':
        return BPF_FUNC_get_current_task_btf;
    case 'k':
        return BPF_FUNC_ktime_get_ns;
    case 'j':
        return BPF_FUNC_jiffies64;
    }
    return 0;
}

static int attach(const char *tracepoint, const char *letters) {
    struct bpf_insn code[LETTERS_MAX + 2];
    size_t count = 0;
    if (!strcmp(letters, "-"))
        return 0;
    for (; *letters && count < LETTERS_MAX; ++letters)
        code[count++] = (struct bpf_insn){.code = BPF_JMP | BPF_CALL, .imm = helper(*letters)};
    code[count++] = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0};
    code[count++] = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
    LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_RAW_TP);
    int type = libbpf_find_vmlinux_btf_id(tracepoint, BPF_TRACE_RAW_TP);
    if (type < 0)
        return type;
    options.attach_btf_id = type;
    int program = bpf_prog_load(BPF_PROG_TYPE_TRACING, "empty", "GPL", code, count, &options);
    return program < 0 ? program : bpf_raw_tracepoint_open(NULL, program);
}

int main(int argc, char **argv) {
    if (attach("sys_enter", argc == 3 ? argv[1] : "") < 0 || attach("sys_exit", argc == 3 ? argv[2] : "") < 0) {
        perror("empty_pair");
        return 1;
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
}
