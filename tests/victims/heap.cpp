// Programs that do something with their heap:
//   heap uaf read|write|reused BYTES  uses what it has freed: faults in it (large: unmapped), or through what is there
//   now heap double-free                  frees a pointer twice heap overrun chunk|page           writes one byte
//   behind an allocation: over the next one's header, or into nothing heap leak TOTAL                   allocates TOTAL
//   times and forgets each hundredth heap window BEFORE AFTER          allocates so often before a line of its input,
//   and so often after it heap stacks N                     allocates from N different call stacks, up to 1024 heap
//   account THREADS CALLS        random malloc, calloc, realloc, free; says what it should add up to heap reuse THREADS
//   CALLS          malloc and free of one size, so that addresses come back at once heap threads THREADS EACH threads
//   that allocate, free half, and end heap fork COUNT                   a child frees half of what it inherited,
//   allocates its own, aborts heap family                       each function of the family once, with its results heap
//   failing                      allocations that fail, and a realloc that leaves all as it was heap jumping leaves
//   operator new by an exception and by longjmp
#include "heap.h"

int main(int argc, char **argv)
{
    const auto is = [&](const char *name) { return argc > 1 && std::strcmp(argv[1], name) == 0; };
    const auto number = [&](int i, long otherwise) { return argc > i ? std::atol(argv[i]) : otherwise; };
    if (is("uaf") && argc > 2)
        return use_after_free(argv[2], number(3, 1 << 20));
    if (is("double-free"))
        return double_free();
    if (is("overrun") && argc > 2)
        return overrun(argv[2]);
    if (is("leak"))
        return leak(number(2, 1000000));
    if (is("window"))
        return window(number(2, 1000), number(3, 100));
    if (is("stacks"))
        return stacks(number(2, 100));
    if (is("account"))
        return account(static_cast<int>(number(2, 4)), number(3, 20000));
    if (is("reuse"))
        return reuse(static_cast<int>(number(2, 2)), number(3, 50000));
    if (is("threads"))
        return dying_threads(static_cast<int>(number(2, 8)), number(3, 100));
    if (is("fork"))
        return inherited(number(2, 1000));
    if (is("family"))
        return family();
    if (is("failing"))
        return failing();
    if (is("jumping"))
        return jumping();
    return 2;
}
