// The classic ones.  Functions that a test looks for in call stacks are SITEs.
#include "heap.h"

#include <malloc.h>

struct Node {
    Node *next;
    long value;
};

SITE void *allocate_it(std::size_t size)
{
    void *p = malloc(size);
    KEEP_FRAME();
    return p;
}

SITE void free_it(void *p)
{
    free(p);
    KEEP_FRAME();
}

SITE void *reuse_it(std::size_t size)
{
    void *p = malloc(size);
    KEEP_FRAME();
    return p;
}

SITE long read_it(volatile Node *node)
{
    return node->value;
}

SITE void write_it(volatile Node *node)
{
    node->value = 1;
}

// `node` lives on in a register: through what it points at, not at it, does the fault happen.
SITE long follow_it(volatile Node *node)
{
    return node->next->value + node->value;
}

int use_after_free(const char *how, std::size_t size)
{
    wait_for_line();
    auto *node = static_cast<Node *>(allocate_it(size));
    std::memset(node, 0, size);
    say("allocated %p %zu", static_cast<void *>(node), size);
    free_it(node);
    if (std::strcmp(how, "reused") == 0) {
        auto *other = static_cast<std::uintptr_t *>(reuse_it(size));
        say("reused %p %zu", static_cast<void *>(other), size);
        *other = 16; // an address where nothing is
        wait_for_line("done");
        follow_it(node);
    }
    wait_for_line("done");
    if (std::strcmp(how, "write") == 0)
        write_it(node);
    else
        read_it(node);
    abort(); // this allocator keeps what is freed mapped: a register or the stack still has the pointer
}

SITE void free_again(void *p)
{
    free(p);
    KEEP_FRAME();
}

int double_free()
{
    wait_for_line();
    void *p = allocate_it(40);
    say("allocated %p 40", p);
    free_it(p);
    wait_for_line("done");
    free_again(p);
    abort(); // this allocator has not noticed
}

SITE void write_behind(volatile char *p, std::size_t size)
{
    p[size] = 0;
}

int overrun(const char *how)
{
    wait_for_line();
    if (std::strcmp(how, "chunk") == 0) {
        auto *p = static_cast<char *>(allocate_it(24)); // the next byte is the next chunk's size
        void *next = allocate_it(24);
        say("allocated %p 24", static_cast<void *>(p));
        say("next %p 24", next);
        wait_for_line("done");
        write_behind(p, 24);
        free_it(next);
        abort();
    }
    const std::size_t size = (1 << 20) - 24; // with glibc's header to the end of a page, but for 8 bytes
    void *above = allocate_it(size);
    auto *p = static_cast<char *>(allocate_it(size)); // mapped below it
    const std::size_t usable = malloc_usable_size(p);
    say("allocated %p %zu", static_cast<void *>(p), size);
    say("usable %zu", usable);
    free_it(above);
    wait_for_line("done");
    write_behind(p, usable);
    abort();
}

SITE void *keep_it(std::size_t size)
{
    void *p = malloc(size);
    KEEP_FRAME();
    return p;
}

SITE void *leak_it(std::size_t size)
{
    void *p = malloc(size);
    KEEP_FRAME();
    return p;
}

int leak(long total)
{
    static void *recent[1024]; // in use at any time
    wait_for_line();
    long leaked = 0, leaked_bytes = 0;
    for (long i = 0; i < total; ++i) {
        const std::size_t size = 16 + i * 37 % 2000;
        if (i % 100 == 99) {
            leak_it(size);
            ++leaked;
            leaked_bytes += static_cast<long>(size);
            continue;
        }
        void *&place = recent[i % 1024];
        free(place);
        place = keep_it(size);
    }
    say("leaked %ld %ld", leaked, leaked_bytes);
    wait_for_line("done");
    abort();
}

SITE void *before_it()
{
    void *p = malloc(100);
    KEEP_FRAME();
    return p;
}

SITE void *after_it()
{
    void *p = malloc(200);
    KEEP_FRAME();
    return p;
}

int window(long before, long after)
{
    wait_for_line();
    for (long i = 0; i < before; ++i)
        before_it();
    wait_for_line("between");
    for (long i = 0; i < after; ++i)
        after_it();
    wait_for_line("done");
    abort();
}

SITE void turn_right(unsigned way, int left);

// Allocates at the end of a way of left and right turns: each way is a call stack of its own.
SITE void turn_left(unsigned way, int left)
{
    if (left == 0)
        keep_it(90);
    else
        (way & 1 ? turn_right : turn_left)(way >> 1, left - 1);
    KEEP_FRAME();
}

SITE void turn_right(unsigned way, int left)
{
    if (left == 0)
        keep_it(91);
    else
        (way & 1 ? turn_right : turn_left)(way >> 1, left - 1);
    KEEP_FRAME();
}

int stacks(long ways)
{
    wait_for_line();
    for (long i = 0; i < ways; ++i)
        turn_left(static_cast<unsigned>(i), 10);
    wait_for_line("done");
    abort();
}
