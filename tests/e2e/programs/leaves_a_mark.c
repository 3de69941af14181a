// Leaves a file behind where it is run.
#include <fcntl.h>

int main(void) {
    return open("/tmp/mark", O_WRONLY | O_CREAT, 0600) < 0;
}
