// The program of one target: libFuzzer calls it with one input after the other.
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    incident::fuzz::run(incident::fuzz::targets().front(), {reinterpret_cast<const char *>(data), size});
    return 0;
}
