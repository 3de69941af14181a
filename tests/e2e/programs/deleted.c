// A library that is deleted before it dies, two frames deep, without any frame pointers.
static int *volatile nothing;

__attribute__((noinline, noclone)) int inner(int *where) {
    return where[3];
}

int enter(void) {
    return inner(nothing) + 1;
}
