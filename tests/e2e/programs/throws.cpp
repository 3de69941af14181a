// throws KIND: an exception nobody catches.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

struct Own : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Pool {
    int room[10];
    std::string name;
    [[gnu::noinline]] std::size_t length(int, int) const { return name.size(); }
};

[[gnu::noinline]] void deeper(const std::string &kind) {
    const std::string long_enough(40, '.');
    if (kind == "runtime")
        throw std::runtime_error("the pool is empty" + long_enough);
    if (kind == "own")
        throw Own("own words");
    if (kind == "number")
        throw 42;
    if (kind == "member") {
        Pool *volatile pool = nullptr;
        std::exit(static_cast<int>(pool->length(1, 2)));
    }
    if (kind == "rethrow")
        throw;
    std::terminate();
}

[[gnu::noinline]] void middle(const std::string &kind) {
    deeper(kind);
    asm volatile("");
}

int main(int, char **argv) {
    middle(argv[1]);
}
