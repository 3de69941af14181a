// renamer NAME: takes NAME's first 15 bytes, whatever they are, as its comm and dies.
#include "die.h"

#include <sys/prctl.h>

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    prctl(PR_SET_NAME, argv[1], 0, 0, 0);
    write_through_null();
}
