/* dead_mount DIRECTORY: a file system there (FUSE) that answers for names and sizes, and never a read: what a network
 * file system is whose server is gone.  It has one file, "file".  Ends, and lets all readers go, when its input ends;
 * where that has a byte, reads fail from then on.
 *
 * dead_mount DIRECTORY PROGRAM: "file" is that program, and what is less than a page is read.  Who executes it gets as
 * far as the kernel reads ELF headers, and hangs where the program's first page is needed: at the end of its data,
 * which the kernel fills with zeros (fs/binfmt_elf.c).
 *
 * dead_mount --map FILE UID: as that user, maps the file's code and dies by SIGSEGV. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FILE_NODE = 2, FILE_BYTES = 1 << 20, PAGE_BYTES = 4096 };

static int program = -1, failing;
static uint64_t waiting[64]; /* reads, by FUSE's number for them; at its end 0 */
static uint64_t file_bytes = FILE_BYTES;

static void need(int done, const char *what) {
    if (!done) {
        perror(what);
        exit(1);
    }
}

static struct fuse_attr attributes(uint64_t node) {
    struct fuse_attr attr = {.ino = node, .nlink = 1, .blksize = 4096};
    attr.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0755;
    attr.size = node == FUSE_ROOT_ID ? 0 : file_bytes;
    return attr;
}

static void reply(int fuse, uint64_t unique, int error, const void *body, size_t length) {
    struct fuse_out_header head = {.len = sizeof head + length, .error = error, .unique = unique};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)body, length}};
    if (writev(fuse, parts, length ? 2 : 1) < 0 && errno != ENOENT)
        perror("reply");
}

static void leave_waiting(int fuse, uint64_t read) {
    if (failing)
        return reply(fuse, read, -EIO, NULL, 0);
    for (int i = 0; i < 64; i++)
        if (!waiting[i]) {
            waiting[i] = read;
            return;
        }
}

static void fail_all(int fuse) {
    failing = 1;
    for (int i = 0; i < 64 && waiting[i]; i++)
        reply(fuse, waiting[i], -EIO, NULL, 0);
}

static void read_header(int fuse, const struct fuse_in_header *in, const struct fuse_read_in *asked) {
    char bytes[PAGE_BYTES];
    if (program < 0 || asked->size >= sizeof bytes)
        return leave_waiting(fuse, in->unique);
    const ssize_t got = pread(program, bytes, asked->size, asked->offset);
    need(got >= 0, "read");
    reply(fuse, in->unique, 0, bytes, got);
}

static void answer(int fuse, const struct fuse_in_header *in, const void *body) {
    const uint64_t forever = 1 << 30;
    switch (in->opcode) {
    case FUSE_INIT: {
        const struct fuse_init_in *asked = body;
        struct fuse_init_out out = {.major = 7, .minor = asked->minor < 31 ? asked->minor : 31, .max_write = 4096};
        reply(fuse, in->unique, 0, &out, sizeof out);
        return;
    }
    case FUSE_LOOKUP: {
        struct fuse_entry_out out = {.nodeid = FILE_NODE, .entry_valid = forever, .attr_valid = forever};
        out.attr = attributes(FILE_NODE);
        if (strcmp(body, "file") == 0)
            reply(fuse, in->unique, 0, &out, sizeof out);
        else
            reply(fuse, in->unique, -ENOENT, NULL, 0);
        return;
    }
    case FUSE_GETATTR: {
        struct fuse_attr_out out = {.attr_valid = forever, .attr = attributes(in->nodeid)};
        reply(fuse, in->unique, 0, &out, sizeof out);
        return;
    }
    case FUSE_OPEN:
    case FUSE_OPENDIR: {
        /* Else whoever opens it next waits for the page that is being read. */
        struct fuse_open_out out = {.fh = 1, .open_flags = FOPEN_KEEP_CACHE};
        if (program >= 0)
            out.open_flags = FOPEN_DIRECT_IO; /* the headers are asked for as they are, not by pages */
        reply(fuse, in->unique, 0, &out, sizeof out);
        return;
    }
    case FUSE_READ:
        read_header(fuse, in, body);
        return;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        return; /* want no answer */
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_ACCESS:
        reply(fuse, in->unique, 0, NULL, 0);
        return;
    default:
        reply(fuse, in->unique, -ENOSYS, NULL, 0);
    }
}

static int serve(const char *directory) {
    static char request[1 << 17];
    char options[128];
    int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    need(fuse >= 0, "/dev/fuse");
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse);
    need(mount("dead", directory, "fuse", MS_NODEV, options) == 0, "mount");
    puts("ready");
    fflush(stdout);
    struct pollfd from[] = {{fuse, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    char byte;
    while (poll(from, 2, -1) > 0) {
        if (from[1].revents && read(STDIN_FILENO, &byte, 1) != 1)
            break;
        if (from[1].revents)
            fail_all(fuse);
        const ssize_t got = from[0].revents ? read(fuse, request, sizeof request) : 0;
        if (got >= (ssize_t)sizeof(struct fuse_in_header))
            answer(fuse, (struct fuse_in_header *)request, request + sizeof(struct fuse_in_header));
        else if (got < 0 && errno == ENODEV)
            break; /* unmounted */
    }
    umount2(directory, MNT_DETACH);
    return 0;
}

static int die_with(const char *file, uid_t uid) {
    const struct rlimit no_core = {1, 1}; /* its first page would be read for it */
    need(setrlimit(RLIMIT_CORE, &no_core) == 0, "setrlimit");
    int fd = open(file, O_RDONLY);
    need(fd >= 0, file);
    need(setgroups(0, NULL) == 0 && setgid(uid) == 0 && setuid(uid) == 0, "setuid");
    need(mmap(NULL, FILE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED, "mmap");
    return *(volatile int *)0;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "--map") == 0)
        return die_with(argv[2], atoi(argv[3]));
    struct stat status;
    if (argc == 3) {
        program = open(argv[2], O_RDONLY | O_CLOEXEC);
        need(program >= 0 && fstat(program, &status) == 0, argv[2]);
        file_bytes = status.st_size;
    }
    return argc == 2 || argc == 3 ? serve(argv[1]) : 2;
}
