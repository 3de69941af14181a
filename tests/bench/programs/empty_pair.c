// empty_pair [ENTRY RETURN]: a tp_btf program at the entry and at the return of every system call of the machine. Empty
// ones are the least that recording calls could cost; each letter of an argument is a helper that the program calls:
// t the current task, k the clock, j the jiffies; c looks into a map of one value for each CPU, which kernels
// since 6.10 do without a call; "-": there is no program. Says "ready" and holds them until its input ends.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>

enum { LETTERS_MAX = 8, INSTRUCTIONS_MAX = 7 * LETTERS_MAX + 2 };

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

// value = *lookup(map, &zero), as many instructions as are returned
static size_t look_up(struct bpf_insn *code, int map) {
    const struct bpf_insn instructions[] = {
        {.code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = BPF_REG_10, .off = -4},
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_10},
        {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_2, .imm = -4},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = BPF_REG_1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map},
        {0},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem},
    };
    memcpy(code, instructions, sizeof(instructions));
    return sizeof(instructions) / sizeof(instructions[0]);
}

static int attach(const char *tracepoint, const char *letters) {
    struct bpf_insn code[INSTRUCTIONS_MAX];
    size_t count = 0;
    if (!strcmp(letters, "-"))
        return 0;
    int map = strchr(letters, 'c') ? bpf_map_create(BPF_MAP_TYPE_PERCPU_ARRAY, "cpu", 4, 8, 1, NULL) : 0;
    if (map < 0)
        return map;
    for (size_t taken = 0; *letters && taken < LETTERS_MAX; ++letters, ++taken) {
        if (*letters == 'c')
            count += look_up(code + count, map);
        else
            code[count++] = (struct bpf_insn){.code = BPF_JMP | BPF_CALL, .imm = helper(*letters)};
    }
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
