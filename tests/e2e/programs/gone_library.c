// A library whose work is to die.
static volatile int depth;

__attribute__((noinline)) static void library_inner(int *nowhere) {
    *nowhere = 1;
    depth++;
}

void library_work(int *nowhere) {
    library_inner(nowhere);
    depth++;
}
