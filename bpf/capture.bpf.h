/* SPDX-License-Identifier: GPL-2.0-only
 * Copies what dies with a process, in the dying thread's own context: its registers,
 * the stack page by page, the bytes its pointers point at, and — once a process — who it
 * is and which mappings those pointers lie in, so that a process that is gone before
 * user space has looked still has a right bundle. */
#pragma once

#include "bpf/address_space.bpf.h"
#include "bpf/returns.bpf.h"

struct capture { /* small, for it lies on the stack, of which a call chain has 512 bytes (MAX_BPF_STACK) */
    void *ctx;
    struct kernel_siginfo *info;
    __s32 number, delivered;
    __u32 group_exit_code, slot;
    __u16 share; /* of its user */
    __u8 pages, unsent;
    __u8 disposition, role;
    __u8 event;   /* EVENT_DEATH, EVENT_SIGNAL, EVENT_SNAPSHOT */
    __u8 foreign; /* not its own context: its user memory is not at hand */
};

#define STACK_SKIP_PAGES 16  /* below a stack that has overflowed: a frame larger than that is not looked beyond */
#define STACK_ABSENT_MAX 512 /* pages within the stack of who died; 0.4 ms if all are looked at in vain */
#define SIGABRT_NUMBER 6
#define SIGUSR1_NUMBER 10
#define SIGSEGV_NUMBER 11
#define SIGNAL_FRAME_MAX 16384 /* bytes from the end of a signal stack down to the frame: with AMX's state 11 KiB */
#define SIGNAL_FRAME_SP 168    /* rt_sigframe.uc.uc_mcontext.sp */
#define RT_FRAME32_SP 192      /* rt_sigframe_ia32.uc.uc_mcontext.sp */
#define RT_FRAME32_INFO 16     /* rt_sigframe_ia32.info, which its pinfo points at */
#define FRAME32_SP 36          /* sigframe_ia32.sc.sp */
#define CONTEXT32_CS 32        /* sigcontext_32.cs, from its sp */
#define VDSO32_MAX 16384       /* bytes: the image has one or two pages */
#define STACK_ABSENT_OTHERS 32 /* … of the other threads */
#define USER_LOW 4096ULL
#define USER_HIGH 0x00007ffffffff000ULL /* TASK_SIZE_MAX with 4-level paging */

static __always_inline struct pt_regs *user_regs(struct task_struct *task)
{
    return (struct pt_regs *)bpf_task_pt_regs(task);
}

#define USER32_CODE 0x23 /* __USER32_CS, arch/x86/include/asm/segment.h */

/* In 32-bit code: words on its stack are 4 bytes. */
static __always_inline int is_narrow(struct task_struct *task)
{
    return (BPF_CORE_READ(user_regs(task), cs) & 0xffff) == USER32_CODE;
}

/* The mapping the crash happened in: of the instruction pointer, or, after a jump to
 * nowhere, of the return address on top of the stack.  The address its file begins at. */
static __always_inline __u64 find_crash_mapping(struct task_struct *task, struct death_event *event,
                                                struct pt_regs *regs)
{
    __u64 address = BPF_CORE_READ(regs, ip);
    if (address < USER_LOW || address >= USER_HIGH)
        bpf_probe_read_user(&address, sizeof(address), (void *)BPF_CORE_READ(regs, sp));
    if (is_narrow(task))
        address = (__u32)address;
    struct vm_area_struct *vma = mapping_at(task, address);
    if (!vma)
        return 0;
    struct vma_record *record = &event->vma[0];
    record->start = BPF_CORE_READ(vma, vm_start);
    record->end = BPF_CORE_READ(vma, vm_end);
    record->page_offset = BPF_CORE_READ(vma, vm_pgoff);
    record->flags = BPF_CORE_READ(vma, vm_flags) & 0xf;
    record->inode = 0;
    record->device = 0;
    record->name[0] = 0;
    struct file *file = BPF_CORE_READ(vma, vm_file);
    if (file) {
        record->inode = BPF_CORE_READ(file, f_inode, i_ino);
        record->device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
        bpf_probe_read_kernel_str(record->name, VMA_NAME_LEN, BPF_CORE_READ(file, f_path.dentry, d_name.name));
    }
    event->vmas = 1;
    /* where file offset 0 lies, as segments of a module keep their distances */
    return record->inode ? record->start - record->page_offset * STACK_PAGE : 0;
}

/* AT_PHDR (3) of the auxiliary vector: the program headers follow the ELF header on the
 * executable's first page. */
static __always_inline __u64 exe_head(struct death_event *event)
{
    if (event->auxv[0] >> 32) { /* pairs of 32-bit words (elf_addr_t, fs/binfmt_elf.c): a type is a small number */
        for (int i = 0; i < 23; i++)
            if ((__u32)event->auxv[i] == 3)
                return (event->auxv[i] >> 32) & ~(STACK_PAGE - 1ULL);
        return 0;
    }
    for (int i = 0; i < 46; i += 2)
        if (event->auxv[i] == 3)
            return event->auxv[i + 1] & ~(STACK_PAGE - 1ULL);
    return 0;
}

static __always_inline void copy_elf_head(struct elf_head *head, __u64 address)
{
    head->address = address;
    head->length = 0;
    if (address && !bpf_probe_read_user(head->bytes, ELF_HEAD_LEN, (void *)address))
        head->length = ELF_HEAD_LEN;
}

/* Sends the death_event (or, of a process that lives on, the same with fatal = 0). */
static __noinline int capture_process(struct task_struct *task, struct capture *capture)
{
    int room = capture->foreign ? leaves_room_for_deaths()
                                : admit(capture->share, sizeof(struct death_event),
                                        capture->event == EVENT_DEATH ? SHARE_DEATHS : SHARE_OTHERS);
    struct death_event *event = room ? bpf_ringbuf_reserve(&events, sizeof(*event), 0) : 0;
    if (!event) {
        count_loss(capture->event == EVENT_DEATH ? LOSS_DEATH_EVENT : LOSS_SNAPSHOT);
        return 0;
    }
    struct mm_struct *mm = BPF_CORE_READ(task, mm);
    struct task_struct *leader = BPF_CORE_READ(task, group_leader);
    struct task_struct *parent = BPF_CORE_READ(leader, real_parent);
    struct kernel_siginfo *info = capture->info;

    fill_header(&event->h, capture->event, task);
    event->number = capture->number;
    event->delivered = capture->delivered;
    event->fatal = capture->disposition == DISPOSITION_FATAL;
    event->disposition = capture->disposition;
    event->group_exit_code = capture->group_exit_code;
    event->code = 0;
    event->si_errno = 0;
    event->address = 0;
    event->has_siginfo = !capture->group_exit_code && (unsigned long)info > 1;
    if (event->has_siginfo) {
        event->code = BPF_CORE_READ(info, si_code);
        event->si_errno = BPF_CORE_READ(info, si_errno);
        event->address = (__u64)BPF_CORE_READ(info, _sifields._sigfault._addr);
        if (bpf_probe_read_kernel(event->siginfo, sizeof(struct kernel_siginfo), info))
            event->has_siginfo = 0;
    }

    copy_comm(event->comm, task);
    copy_comm(event->leader_comm, leader);
    event->uid = BPF_CORE_READ(task, cred, uid.val);
    event->gid = BPF_CORE_READ(task, cred, gid.val);
    event->euid = BPF_CORE_READ(task, cred, euid.val);
    event->loginuid = ~0u;
    if (bpf_core_field_exists(task->loginuid))
        event->loginuid = BPF_CORE_READ(task, loginuid.val);
    event->parent_tgid = BPF_CORE_READ(parent, tgid);
    event->parent_start_boot_ns = BPF_CORE_READ(parent, group_leader, start_boottime);
    copy_comm(event->parent_comm, leader_of(parent));
    event->threads = BPF_CORE_READ(task, signal, nr_threads);
    event->oom_score_adj_plus = BPF_CORE_READ(task, signal, oom_score_adj) + 1000;
    bpf_probe_read_kernel(event->limits, sizeof(event->limits), &task->signal->rlim);
    event->minor_faults = BPF_CORE_READ(task, min_flt) + BPF_CORE_READ(task, signal, min_flt);
    event->major_faults = BPF_CORE_READ(task, maj_flt) + BPF_CORE_READ(task, signal, maj_flt);

    struct nsproxy *namespaces = BPF_CORE_READ(task, nsproxy);
    struct pid *pid = BPF_CORE_READ(leader, thread_pid);
    __u32 level = BPF_CORE_READ(pid, level);
    struct upid upid = {};
    bpf_probe_read_kernel(&upid, sizeof(upid),
                          (void *)pid + bpf_core_field_offset(struct pid, numbers) + (level & 31) * sizeof(upid));
    event->ns_tgid = upid.nr;
    event->pid_ns = BPF_CORE_READ(upid.ns, ns.inum);
    event->mnt_ns = BPF_CORE_READ(namespaces, mnt_ns, ns.inum);
    event->net_ns = BPF_CORE_READ(namespaces, net_ns, ns.inum);
    event->cgroup_ns = BPF_CORE_READ(namespaces, cgroup_ns, ns.inum);
    event->user_ns = BPF_CORE_READ(task, cred, user_ns, ns.inum);

    event->dumpable = dumpable_of(mm);
    event->rss_file_pages = rss_counter(mm, 0);
    event->rss_anon_pages = rss_counter(mm, 1);
    event->swap_pages = rss_counter(mm, 2);
    event->rss_shmem_pages = rss_counter(mm, 3);
    event->total_vm_pages = BPF_CORE_READ(mm, total_vm);
    event->hiwater_rss_pages = BPF_CORE_READ(mm, hiwater_rss);
    event->hiwater_vm_pages = BPF_CORE_READ(mm, hiwater_vm);
    event->start_code = BPF_CORE_READ(mm, start_code);
    event->end_code = BPF_CORE_READ(mm, end_code);
    event->start_brk = BPF_CORE_READ(mm, start_brk);
    event->brk = BPF_CORE_READ(mm, brk);
    event->start_stack = BPF_CORE_READ(mm, start_stack);
    event->arg_start = BPF_CORE_READ(mm, arg_start);
    event->arg_end = BPF_CORE_READ(mm, arg_end);
    event->env_start = BPF_CORE_READ(mm, env_start);
    event->env_end = BPF_CORE_READ(mm, env_end);
    bpf_probe_read_kernel(event->auxv, sizeof(event->auxv), &mm->saved_auxv);

    __u64 length = event->arg_end - event->arg_start;
    event->args_cut = length > ARGS_LEN;
    barrier_var(length); /* the bound below must be on the very register the helper gets */
    if (length > ARGS_LEN)
        length = ARGS_LEN;
    event->args_length = 0;
    if (!capture->foreign && !bpf_probe_read_user(event->args, length, (void *)event->arg_start))
        event->args_length = length;

    exe_path(task, &event->exe);
    event->cgroup_id = cgroup_id_of(task);
    event->cgroup_parts = cgroup_names(task, event->cgroup, &event->cgroup_cut);

    /* not a copy of the registers on the stack: the frames of a call chain share 512 bytes
     * (MAX_BPF_STACK), and 6.1 refuses what 6.18 takes */
    event->vmas = 0;
    event->elf[0].address = 0;
    event->elf[0].length = 0;
    event->elf[1].address = 0;
    event->elf[1].length = 0;
    if (!capture->foreign) {
        copy_elf_head(&event->elf[0], find_crash_mapping(task, event, user_regs(task)));
        copy_elf_head(&event->elf[1], exe_head(event));
    }
    recheck_header(&event->h, task, mm);
    bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
    return 1;
}

static __always_inline void copy_window(struct memory_window *window, __u64 pointer, __u8 which)
{
    window->which = which;
    window->length = 0;
    window->address = pointer - WINDOW_LEN / 2;
    window->status = WINDOW_UNUSED;
    if (pointer < USER_LOW || pointer >= USER_HIGH)
        return;
    window->status = WINDOW_READ;
    window->length = WINDOW_LEN;
    if (!bpf_probe_read_user(window->bytes, WINDOW_LEN, (void *)window->address))
        return;
    window->status = WINDOW_PARTIAL; /* the page before, or the one after, is absent */
    window->length = WINDOW_LEN / 2;
    if (!bpf_probe_read_user(window->bytes, WINDOW_LEN / 2, (void *)window->address))
        return;
    window->address = pointer;
    if (!bpf_probe_read_user(window->bytes, WINDOW_LEN / 2, (void *)pointer))
        return;
    __u32 rest = STACK_PAGE - (pointer & (STACK_PAGE - 1)); /* up to the end of its page */
    if (rest < WINDOW_LEN / 2) {
        window->length = rest;
        if (!bpf_probe_read_user(window->bytes, rest, (void *)pointer))
            return;
    }
    window->length = 0;
    window->status = WINDOW_ABSENT;
}

#define TLS_FIRST 12 /* GDT_ENTRY_TLS_MIN */

/* Of a 32-bit thread gs selects a descriptor of its own (set_thread_area(2)), and thread.gsbase is not its base.  gs
 * itself is saved when the thread leaves its CPU: before that the C library's first descriptor is taken. */
static __always_inline __u64 narrow_gs_base(struct task_struct *task, __u64 selector)
{
    __u64 descriptor = 0; /* struct desc_struct, arch/x86/include/asm/desc_defs.h */
    __u32 entry = selector ? (selector >> 3) - TLS_FIRST : 0;
    if (entry >= 3) /* GDT_ENTRY_TLS_ENTRIES */
        return 0;
    bpf_probe_read_kernel(&descriptor, sizeof(descriptor),
                          (void *)task + bpf_core_field_offset(struct task_struct, thread.tls_array) +
                              entry * sizeof(descriptor));
    return ((descriptor >> 16) & 0xffffff) | ((descriptor >> 56) << 24);
}

static __always_inline void copy_registers(struct user_registers *to, struct pt_regs *from, struct task_struct *task)
{
    to->r15 = from->r15;
    to->r14 = from->r14;
    to->r13 = from->r13;
    to->r12 = from->r12;
    to->bp = from->bp;
    to->bx = from->bx;
    to->r11 = from->r11;
    to->r10 = from->r10;
    to->r9 = from->r9;
    to->r8 = from->r8;
    to->ax = from->ax;
    to->cx = from->cx;
    to->dx = from->dx;
    to->si = from->si;
    to->di = from->di;
    to->orig_ax = from->orig_ax;
    to->ip = from->ip;
    to->cs = from->cs & 0xffff; /* with FRED the upper bits hold event data */
    to->flags = from->flags;
    to->sp = from->sp;
    to->ss = from->ss & 0xffff;
    to->fs_base = BPF_CORE_READ(task, thread.fsbase);
    to->gs_base = BPF_CORE_READ(task, thread.gsbase);
    to->ds = BPF_CORE_READ(task, thread.ds);
    to->es = BPF_CORE_READ(task, thread.es);
    to->fs = BPF_CORE_READ(task, thread.fsindex);
    to->gs = BPF_CORE_READ(task, thread.gsindex);
    if (to->cs == USER32_CODE)
        to->gs_base = narrow_gs_base(task, to->gs);
}

static __always_inline void copy_usage(struct thread_event *event, struct task_struct *task)
{
    event->minor_faults = BPF_CORE_READ(task, min_flt);
    event->major_faults = BPF_CORE_READ(task, maj_flt);
    event->user_ns = BPF_CORE_READ(task, utime);
    event->system_ns = BPF_CORE_READ(task, stime);
    event->nvcsw = BPF_CORE_READ(task, nvcsw);
    event->nivcsw = BPF_CORE_READ(task, nivcsw);
}

/* Where much dies at once the ring buffer fills before the daemon comes to read it.  Once a user's deaths have
 * FILLING_FACTOR times what is left, her next ones go without what an incident can do without, and beyond
 * SIBLING_FACTOR times without siblings, which send no stack before: so the first to die leave room for the registers
 * of others. */
#define STACK_PAGES_FILLING 2

static __always_inline __u32 kind_of(const struct capture *capture)
{
    return capture->role == ROLE_CRASHED || capture->role == ROLE_SIBLING ? SHARE_DEATHS : SHARE_OTHERS;
}

/* Sends the returns_event of a thread that has probed functions in its call chain; of others there is nothing to say.
 * Before its thread_event, so that the reader knows when that comes. */
static __noinline int capture_returns(struct task_struct *task, __u32 share, __u32 kind)
{
    struct return_instance *instance = innermost_return(task);
    if (!instance)
        return 0;
    struct returns_event *event =
        admit(share, sizeof(*event), kind) ? bpf_ringbuf_reserve(&events, sizeof(*event), 0) : 0;
    if (!event) {
        count_loss(LOSS_RETURNS);
        return 0;
    }
    fill_header(&event->h, EVENT_RETURNS, task);
    event->trampoline = return_trampoline(task);
    __u32 count = 0;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < PENDING_RETURNS; i++) {
        if (!instance)
            break;
        event->pending[i].place = BPF_CORE_READ(instance, stack);
        event->pending[i].return_address = BPF_CORE_READ(instance, orig_ret_vaddr);
        instance = BPF_CORE_READ(instance, next);
        count = i + 1;
    }
    event->count = count;
    event->cut = instance != 0;
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return 0;
}

/* The pages of a thread's stack that are present.  Found before its thread_event, and not within that: the frames of a
 * call chain share 512 bytes.  A CPU's and not the thread's: who runs in between, where programs can be preempted,
 * takes it over (owner), and the one that was preempted sends no stack. */
struct stack_pages {
    __u64 owner; /* its task_struct */
    __u64 from;
    __u32 count, absent, absent_max, most;
    __u32 own;                   /* the first of the interrupted stack: see thread_event */
    __u64 restorer, frame;       /* of a signal stack: where the signal's frame is searched, and what it begins with */
    __u64 interrupted;           /* … the stack pointer in it; 0: none */
    __u64 page[STACK_PAGES_MAX]; /* the address of each */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct stack_pages);
} stack_pages __weak SEC(".maps");

static __always_inline struct stack_pages *pages_of_stack(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&stack_pages, &zero);
}

static long note_page(__u32 i, void *unused)
{
    struct stack_pages *found = pages_of_stack();
    if (!found)
        return 1;
    __u64 count = found->count, page = found->from + i * STACK_PAGE;
    if (count >= STACK_PAGES_MAX || count >= found->most)
        return 1;
    char probe;
    if (bpf_probe_read_user(&probe, 1, (void *)page))
        return ++found->absent > found->absent_max;
    barrier_var(count);
    found->page[count & (STACK_PAGES_MAX - 1)] = page;
    found->count = count + 1;
    return 0;
}

/* From this page on, up to the end of its mapping. */
static __noinline int note_pages(struct task_struct *task, __u64 from, __u32 absent_max)
{
    struct stack_pages *found = pages_of_stack();
    if (!found)
        return 0;
    found->from = from;
    found->absent = 0;
    found->absent_max = 0;
    __u32 steps = STACK_PAGES_MAX;
    struct vm_area_struct *vma = mapping_at(task, from);
    if (vma) {
        __u64 pages = (BPF_CORE_READ(vma, vm_end) - from) / STACK_PAGE;
        found->absent_max = absent_max;
        steps = STACK_ABSENT_MAX + STACK_PAGES_MAX;
        if (pages < steps)
            steps = pages;
    }
    bpf_loop(steps, note_page, (void *)0, 0);
    return 0;
}

/* Of a 32-bit thread: a frame begins with where in the vdso its handler returns to.  So does, where it was in a system
 * call, what the frame has of its instruction pointer, but behind that there is no code segment in its place. */
static long look_for_frame32(__u32 i, void *unused)
{
    struct stack_pages *found = pages_of_stack();
    if (!found)
        return 1;
    __u64 at = found->frame - 16;
    __u32 words[3] = {}, sp = 0, cs = 0; /* pretcode, sig, and of an rt_sigframe pinfo */
    found->frame = at;
    if (bpf_probe_read_user(words, sizeof(words), (void *)at) || words[0] - found->restorer >= VDSO32_MAX)
        return 0;
    at += words[2] == (__u32)at + RT_FRAME32_INFO ? RT_FRAME32_SP : FRAME32_SP;
    bpf_probe_read_user(&sp, sizeof(sp), (void *)at);
    bpf_probe_read_user(&cs, sizeof(cs), (void *)(at + CONTEXT32_CS));
    if ((cs & 0xffff) != USER32_CODE)
        return 0;
    found->interrupted = sp;
    return 1;
}

static long look_for_frame(__u32 i, void *unused)
{
    struct stack_pages *found = pages_of_stack();
    if (!found)
        return 1;
    __u64 at = found->frame - 16, word = 0;
    found->frame = at;
    if (bpf_probe_read_user(&word, sizeof(word), (void *)at) || word != found->restorer)
        return 0;
    bpf_probe_read_user(&found->interrupted, sizeof(found->interrupted), (void *)(at + SIGNAL_FRAME_SP));
    return 1;
}

/* Of a thread on its signal stack (sigaltstack(2)): the pages of the stack that the handler has interrupted.  The
 * kernel has put the frame below the processor's state, whose size differs, at the stack's end (get_sigframe(),
 * arch/x86/kernel/signal.c): at 8 more than a multiple of 16, beginning with the address the handler returns to. */
static __noinline int find_interrupted(struct task_struct *task)
{
    struct stack_pages *found = pages_of_stack();
    if (!found)
        return 0;
    found->owner = (__u64)task;
    found->interrupted = 0;
    __u64 sp = BPF_CORE_READ(user_regs(task), sp), low = BPF_CORE_READ(task, sas_ss_sp);
    __u64 high = low + BPF_CORE_READ(task, sas_ss_size);
    if (sp <= low || sp >= high)
        return 0;
    if (is_narrow(task)) { /* at 4 less than a multiple of 16 */
        found->restorer = (__u64)BPF_CORE_READ(task, mm, context.vdso);
        found->frame = (high & ~15ULL) - 4;
        if (found->restorer)
            bpf_loop(SIGNAL_FRAME_MAX / 16, look_for_frame32, (void *)0, 0);
        return 0;
    }
    /* The C library has one for all signals; of those that have handlers it is known. */
    found->restorer = (__u64)BPF_CORE_READ(task, sighand, action[SIGSEGV_NUMBER - 1].sa.sa_restorer);
    if (!found->restorer)
        found->restorer = (__u64)BPF_CORE_READ(task, sighand, action[SIGABRT_NUMBER - 1].sa.sa_restorer);
    if (!found->restorer)
        found->restorer = (__u64)BPF_CORE_READ(task, sighand, action[SIGUSR1_NUMBER - 1].sa.sa_restorer);
    if (!found->restorer)
        return 0;
    found->frame = (high & ~15ULL) + 8;
    bpf_loop(SIGNAL_FRAME_MAX / 16, look_for_frame, (void *)0, 0);
    return 0;
}

/* Finds the present pages from below the red zone up to the end of the stack's mapping.  A page is there or it is not:
 * one in a frame's buffer that was never written is not, and the callers' frames lie beyond it. */
static __noinline int find_stack(struct task_struct *task, struct capture *capture)
{
    struct stack_pages *found = pages_of_stack();
    if (!found)
        return 0;
    __u32 absent_max = capture->role == ROLE_CRASHED ? STACK_ABSENT_MAX : STACK_ABSENT_OTHERS;
    __u64 sp = (BPF_CORE_READ(user_regs(task), sp) - 128) & ~(STACK_PAGE - 1ULL), stack = sp;
    found->count = 0;
    found->own = STACK_PAGES_MAX;
    found->most = found->interrupted ? (stack_pages_max + 1) / 2 : STACK_PAGES_MAX; /* both stacks have their part */
    if (is_worker(task))
        return 0;
    /* of a stack that has overflowed sp is below what there is of it */
    for (int i = 0; i < STACK_SKIP_PAGES; i++) {
        char probe;
        if (!bpf_probe_read_user(&probe, 1, (void *)stack))
            goto there;
        stack += STACK_PAGE;
    }
    stack = sp;
there:
    note_pages(task, stack, absent_max);
    if (!found->interrupted)
        return 0;
    found->own = found->count;
    found->most = STACK_PAGES_MAX;
    return note_pages(task, (found->interrupted - 128) & ~(STACK_PAGE - 1ULL), absent_max);
}

/* How much of the thread's stack is sent: as much as is present, wanted, and within its user's share; 0: not even its
 * registers are. */
static __noinline int choose_stack(struct task_struct *task, struct capture *capture)
{
    struct stack_pages *found = pages_of_stack();
    __u32 pages = found && found->owner == (__u64)task ? found->count : 0;
    __u32 kind = kind_of(capture), most = stack_pages_max;
    if (pages > most)
        pages = most;
    capture->unsent = 0;
    if ((capture->role == ROLE_SIBLING || most > STACK_PAGES_FILLING) && holds_much(capture->share, FILLING_FACTOR))
        most = capture->role == ROLE_SIBLING ? 0 : STACK_PAGES_FILLING;
    if (pages > most) {
        capture->unsent = 1;
        pages = most;
    }
    if (pages && !admit(capture->share, sizeof(struct thread_event) + pages * STACK_PAGE, kind)) {
        capture->unsent = 1;
        pages = 0;
    }
    capture->pages = pages;
    if (capture->unsent)
        count_loss(LOSS_THREAD_STACK);
    /* The registers of who died go with its death_event, which had to be within the share. */
    if (pages || capture->role == ROLE_CRASHED || admit(capture->share, sizeof(struct thread_event), kind))
        return 1;
    count_loss(LOSS_THREAD_EVENT);
    return 0;
}

/* Sends the thread_event; where the ring buffer has no room for the stack, without it. */
static __noinline int send_thread(struct task_struct *task, struct capture *capture, struct thread_slot *thread)
{
    __u64 begin = bpf_ktime_get_ns();
    __u32 pages = capture->pages, unsent = capture->unsent;
    struct pt_regs regs = {};
    if (!is_worker(task))
        bpf_probe_read_kernel(&regs, sizeof(regs), user_regs(task));

    struct bpf_dynptr dynptr;
    long error = bpf_ringbuf_reserve_dynptr(&events, sizeof(struct thread_event) + pages * STACK_PAGE, 0, &dynptr);
    if (error && pages) {
        bpf_ringbuf_discard_dynptr(&dynptr, 0);
        count_loss(LOSS_THREAD_STACK);
        unsent = 1;
        pages = 0;
        error = bpf_ringbuf_reserve_dynptr(&events, sizeof(struct thread_event), 0, &dynptr);
    }
    struct thread_event *event = bpf_dynptr_data(&dynptr, 0, sizeof(struct thread_event));
    if (error || !event) {
        bpf_ringbuf_discard_dynptr(&dynptr, 0);
        count_loss(LOSS_THREAD_EVENT);
        return 0;
    }
    fill_header(&event->h, EVENT_THREAD, task);
    event->role = capture->role;
    event->delivered = capture->delivered;
    event->slot = capture->slot;
    event->is_worker = is_worker(task);
    event->generation = thread ? thread->generation : 0;
    copy_comm(event->comm, task);
    copy_registers(&event->regs, &regs, task);
    copy_usage(event, task);

    long kernel = bpf_get_stack(capture->ctx, event->kernel_stack, sizeof(event->kernel_stack), 0);
    event->kernel_frames = kernel > 0 ? (__u32)kernel / sizeof(event->kernel_stack[0]) : 0;
    event->kernel_stack_error = kernel < 0 ? kernel : 0;

    copy_window(&event->window[0], regs.r15, 0);
    copy_window(&event->window[1], regs.r14, 1);
    copy_window(&event->window[2], regs.r13, 2);
    copy_window(&event->window[3], regs.r12, 3);
    copy_window(&event->window[4], regs.bp, 4);
    copy_window(&event->window[5], regs.bx, 5);
    copy_window(&event->window[6], regs.r11, 6);
    copy_window(&event->window[7], regs.r10, 7);
    copy_window(&event->window[8], regs.r9, 8);
    copy_window(&event->window[9], regs.r8, 9);
    copy_window(&event->window[10], regs.ax, 10);
    copy_window(&event->window[11], regs.cx, 11);
    copy_window(&event->window[12], regs.dx, 12);
    copy_window(&event->window[13], regs.si, 13);
    copy_window(&event->window[14], regs.di, 14);
    copy_window(&event->window[15], regs.sp, 19);
    copy_window(&event->window[16], regs.ip, 16);

    __u32 copied = 0;
    struct stack_pages *found = pages_of_stack();
    event->stack_own = STACK_PAGES_MAX;
    if (found) {
        event->stack_own = found->own;
        __builtin_memcpy(event->stack_page, found->page, sizeof(event->stack_page));
    }
    if (pages && (!found || found->owner != (__u64)task)) {
        count_loss(LOSS_THREAD_STACK);
        unsent = 1;
        pages = 0;
    }
    for (int i = 0; i < STACK_PAGES_MAX; i++) {
        if (i >= pages)
            break;
        void *page = bpf_dynptr_data(&dynptr, sizeof(struct thread_event) + i * STACK_PAGE, STACK_PAGE);
        if (!page || bpf_probe_read_user(page, STACK_PAGE, (void *)event->stack_page[i]))
            break;
        copied += STACK_PAGE;
    }
    event->stack_address = event->stack_page[0];
    event->stack_length = copied;
    event->stack_wanted = stack_pages_max * STACK_PAGE;
    event->stack_unsent = unsent;
    event->state = 0;
    event->capture_ns = bpf_ktime_get_ns() - begin;
    bpf_ringbuf_submit_dynptr(&dynptr, BPF_RB_NO_WAKEUP);
    return 1;
}

/* One after the other, not one within the other: the frames of a call chain share 512 bytes (MAX_BPF_STACK). */
static __always_inline int capture_thread(struct task_struct *task, struct capture *capture, struct thread_slot *thread)
{
    capture_returns(task, capture->share, kind_of(capture));
    find_interrupted(task);
    find_stack(task, capture);
    return choose_stack(task, capture) && send_thread(task, capture, thread);
}
