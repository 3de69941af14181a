// Every function of malloc's family, with what it gave: "function address bytes", "free address".
#include "heap.h"

#include <cerrno>
#include <csetjmp>
#include <malloc.h>
#include <new>

static void *gave(const char *function, void *p, std::size_t size)
{
    say("%s %p %zu", function, p, size);
    return p;
}

static void frees(void *p)
{
    say("free %p", p);
    free(p);
}

int family()
{
    wait_for_line();
    void *p = gave("malloc", malloc(101), 101);
    void *other = gave("malloc", malloc(102), 102); // in the way of the next
    p = gave("realloc", realloc(p, 5000), 5000);
    p = gave("realloc", realloc(p, 4990), 4990);
    frees(p);
    frees(other);
    frees(gave("calloc", calloc(3, 35), 105));
    frees(gave("realloc", realloc(nullptr, 106), 106));
    p = gave("malloc", malloc(107), 107);
    say("free %p", p);
    if (void *nothing = realloc(p, 0)) // mimalloc's; glibc's and jemalloc's own frees, and gives nothing
        frees(gave("realloc", nothing, 0));
    p = gave("reallocarray", reallocarray(nullptr, 4, 27), 108);
    frees(gave("reallocarray", reallocarray(p, 109, 2), 218));
    frees(gave("aligned_alloc", aligned_alloc(64, 128), 128));
    frees(gave("memalign", memalign(256, 111), 111));
    frees(gave("valloc", valloc(112), 112));
    if (posix_memalign(&p, 512, 114))
        return 3;
    frees(gave("posix_memalign", p, 114));
    char *object = new char;
    gave("new", object, 1);
    say("free %p", static_cast<void *>(object));
    delete object;
    char *array = new char[115];
    gave("new", array, 115);
    say("free %p", static_cast<void *>(array));
    delete[] array;
    char *quiet = new (std::nothrow) char[116];
    gave("new", quiet, 116);
    say("free %p", static_cast<void *>(quiet));
    delete[] quiet;
    struct alignas(128) Wide {
        char bytes[256];
    };
    Wide *wide = new Wide;
    gave("aligned-new", wide, 256);
    say("free %p", static_cast<void *>(wide));
    delete wide;
    frees(gave("malloc", strdup("nineteen characters"), 20)); // as libc itself calls it
    free(nullptr);
    gave("malloc", malloc(0), 0); // an allocation like any other
    gave("malloc", malloc(119), 119);
    wait_for_line("done");
    abort();
}

int failing()
{
    wait_for_line();
    volatile std::size_t far_too_much = PTRDIFF_MAX - 4096;
    void *p = gave("malloc", malloc(201), 201);
    int failed = 0;
    failed += malloc(far_too_much) == nullptr;
    failed += calloc(far_too_much, 16) == nullptr;
    failed += realloc(p, far_too_much) == nullptr; // p is as it was
    failed += reallocarray(p, far_too_much, 16) == nullptr;
    failed += aligned_alloc(64, far_too_much) == nullptr;
    void *q = p;
    failed += posix_memalign(&q, 3, 100) == EINVAL;
    failed += posix_memalign(&q, 64, far_too_much) == ENOMEM;
    say("failed %d", failed);
    wait_for_line("done");
    abort();
}

static jmp_buf out;
static void jump_out()
{
    longjmp(out, 1);
}

int jumping()
{
    wait_for_line();
    volatile std::size_t far_too_much = PTRDIFF_MAX - 4096;
    for (int i = 0; i < 100; ++i) {
        try {
            say("new %p", static_cast<void *>(new char[far_too_much]));
        } catch (const std::bad_alloc &) {
        }
        std::set_new_handler(jump_out);
        if (setjmp(out) == 0)
            say("new %p", static_cast<void *>(new char[far_too_much]));
        std::set_new_handler(nullptr);
        void *volatile kept = malloc(301); // after each: all is well
        (void)kept;
    }
    say("kept 100");
    wait_for_line("done");
    abort();
}
