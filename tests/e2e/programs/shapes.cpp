// shapes KIND: as shapes.c, of what C++ alone can do.
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#define APART __attribute__((noinline))

volatile long zero, sink;

struct Base;
APART void call_it(Base *base);

struct Base {
    Base() { call_it(this); }
    virtual ~Base() = default;
    virtual void act() = 0;
};

struct Derived : Base {
    void act() override { sink = sink + 1; }
};

APART void call_it(Base *base) {
    base->act();
    sink = sink + 1;
}

APART long pure() {
    Derived made;
    made.act();
    return sink;
}

APART long throws() {
    if (zero == 0)
        throw std::runtime_error("the pool is empty");
    return sink;
}

APART long through_noexcept() noexcept {
    return throws() + 1;
}

APART long out_of_range() {
    std::vector<long> numbers(3);
    return numbers.at(static_cast<std::size_t>(7 + zero));
}

APART long joinable() {
    std::thread thread([] { pause(); });
    if (zero != 0)
        thread.join();
    return sink;
}

APART long null_string() {
    const char *volatile none = nullptr;
    return static_cast<long>(std::string(none).size());
}

struct Node {
    std::unique_ptr<Node> next;
    long value[4] = {};
    APART virtual long sum() const { return value[2] + (next ? next->sum() : 0); }
    virtual ~Node() = default;
};

APART long virtual_of_null() {
    const std::unique_ptr<Node> none;
    Node *volatile node = none.get();
    return node->sum() + 1;
}

APART long unwinds() {
    struct Guard {
        ~Guard() noexcept(false) { throw std::logic_error("in a destructor"); }
    } guard;
    return throws();
}

APART long rethrows() {
    if (zero == 0)
        std::rethrow_exception(std::make_exception_ptr(std::runtime_error("kept for later")));
    return sink;
}

struct {
    const char *name;
    long (*function)();
} const shapes[] = {{"pure", pure},
                    {"throws", throws},
                    {"noexcept", through_noexcept},
                    {"out-of-range", out_of_range},
                    {"joinable", joinable},
                    {"null-string", null_string},
                    {"virtual-of-null", virtual_of_null},
                    {"unwinds", unwinds},
                    {"rethrows", rethrows}};

APART long inner(const std::string &name) {
    for (const auto &shape : shapes)
        if (name == shape.name)
            return shape.function() + sink;
    return 0;
}

template <typename Name> APART long outer(const Name &name, long more) {
    return more > 0 ? outer(name, more - 1) + 1 : inner(name) + 2;
}

int main(int count, char **arguments) {
    std::setvbuf(stdout, nullptr, _IONBF, 0);
    std::puts("ready");
    char byte;
    if (count > 2 && read(0, &byte, 1) < 0)
        return 1;
    return static_cast<int>(outer(std::string(arguments[1]), 3)) & 1;
}
