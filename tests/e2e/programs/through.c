/* Dies ("crash") or waits ("hold") below functions whose returns a rule may probe: nested, recursive, one that ends by
 * a jump to another, and one that was left by longjmp().  "probed" as second argument: begins once they are; "told" as
 * third: and once it has got a byte. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline))

void wait_until_probed(const void *function);

static jmp_buf back;
volatile int seen;
void *volatile kept;

FUNCTION int bug(volatile int *pointer) {
    return *pointer + 1;
}

FUNCTION int escape(int depth) {
    if (depth >= 0)
        longjmp(back, 1);
    return seen;
}

FUNCTION int handle(int depth) {
    kept = malloc(777);
    if (!setjmp(back))
        seen = escape(depth);
    seen = bug((int *)(long)depth);
    return seen + 1;
}

FUNCTION int forward(int depth) {
    return handle(depth);
}

FUNCTION int descend(int depth) {
    int result = depth ? descend(depth - 1) : forward(0);
    seen = result;
    return result + 1;
}

FUNCTION int serve(int depth) {
    seen = descend(depth);
    return seen + 1;
}

FUNCTION int hold(int depth) {
    char byte;
    int result = depth ? hold(depth - 1) : (int)read(0, &byte, 1);
    seen = result;
    return result + 1;
}

FUNCTION void *work(void *name) {
    pthread_setname_np(pthread_self(), name);
    seen = hold(2);
    return name;
}

int main(int count, char **argument) {
    if (count > 2) {
        const void *functions[] = {escape, handle, forward, descend, serve, hold, work};
        for (int i = 0; i < 7; i++)
            wait_until_probed(functions[i]);
    }
    char byte;
    if (count > 3 && read(0, &byte, 1) != 1)
        return 3;
    if (!strcmp(argument[1], "crash"))
        return serve(3);
    pthread_t first, second;
    pthread_create(&first, 0, work, "first");
    pthread_create(&second, 0, work, "second");
    return hold(1);
}
