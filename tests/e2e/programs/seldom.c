// seldom: is entered with a pointer that is good, replaces it by null in the part of it that is kept elsewhere
// (seldom.cold), goes on in the middle, and reads there.
__attribute__((noinline, noclone, cold)) int *other_one(void) {
    __asm__ volatile("");
    return 0;
}

__attribute__((noinline, noclone)) int read_it(int *good, int wanted) {
    if (__builtin_expect(!wanted, 0))
        good = other_one();
    return *good;
}

int main(int argc, char **argv) {
    (void)argv;
    return read_it(&argc, argc > 5);
}
