// Programs that do something with their heap: the usage below says what.
#include "heap.h"

static constexpr char usage[] = R"(heap WHAT:
  uaf read|write|reused BYTES  use what was freed: fault in it (large: unmapped), or through what is there now
  double-free                  free a pointer twice
  overrun chunk|page           write one byte behind an allocation: over the next one's header, or into nothing
  leak TOTAL                   allocate TOTAL times and forget each hundredth
  window BEFORE AFTER          allocate so often before a line of input, and so often after it
  stacks N                     allocate from N different call stacks, up to 1024
  account THREADS CALLS        random malloc, calloc, realloc, free; say what it should add up to
  reuse THREADS CALLS          malloc and free of one size, so that addresses come back at once
  threads THREADS EACH         threads that allocate, free half, and end
  fork COUNT                   a child frees half of what it inherited, allocates its own, aborts
  family                       each function of the family once, with its results
  failing                      allocations that fail, and a realloc that leaves all as it was
  jumping                      leave operator new by an exception and by longjmp
)";

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
    if (write(STDERR_FILENO, usage, sizeof usage - 1) < 0)
        return 3;
    return 2;
}
