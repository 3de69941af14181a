// Dies within a catch block, below functions whose returns a rule may probe: its own, through one of which an exception
// has just passed, and a C library's.
#include <stdexcept>

extern "C" void wait_until_probed(const void *function);
extern "C" int visit(int depth, int (*each)(int));

template <typename T> [[gnu::noinline]] T load(const volatile T *pointer) {
    return *pointer;
}

[[gnu::noinline]] int parse(int number) {
    if (number >= 0)
        throw std::runtime_error("not a number");
    return number;
}

namespace app {
struct Server {
    virtual ~Server() = default;
    virtual int answer(int number) { return parse(number) + 1; }
};
} // namespace app

[[gnu::noinline]] int handle(int number) {
    app::Server server;
    try {
        return server.answer(number) + 1;
    } catch (const std::exception &) {
        return load(reinterpret_cast<int *>(static_cast<long>(number))) + 1;
    }
}

[[gnu::noinline]] int request(int depth) {
    return visit(depth, handle) + 1;
}

int main(int count, char **) {
    if (count > 2)
        for (const auto function : {reinterpret_cast<const void *>(parse), reinterpret_cast<const void *>(handle),
                                    reinterpret_cast<const void *>(request), reinterpret_cast<const void *>(visit)})
            wait_until_probed(function);
    return request(2);
}
