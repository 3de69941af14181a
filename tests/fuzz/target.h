// A fuzz target: a function that takes any bytes as a hostile process, file or peer would give them, and hands them to
// a parser of the product.  libFuzzer runs each as a program of its own (libfuzzer.cpp); the unit tests run all of them
// on the inputs that are checked in (crashes_test.cpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace incident::fuzz {

struct Target {
    std::string_view name;
    void (*run)(std::string_view input);
};

// All that are linked into this program.
std::vector<Target> &targets();

// Runs a target on one input, and ends the program if that takes longer than input_ms_max.
void run(const Target &target, std::string_view input);

// Processor time for one input, in a build with sanitizers.  A parser that needs more can be made to wait.
inline constexpr std::int64_t input_ms_max = 2000;
// Bytes of one input.  Larger files are more of the same; what limits the product has for them has tests of its own.
inline constexpr std::size_t input_max = 64u << 10;

// What must hold for any input.  The program ends if it does not.
void must(bool held, std::string_view what);
// A text that is shown: nothing in it acts on a terminal.
void must_be_harmless(std::string_view text, std::string_view what);

// Takes an input apart, from its front.  Everything is zero once the bytes are used up.
class Input {
public:
    explicit Input(std::string_view bytes) : rest_(bytes) {}
    template <typename Number> Number number() {
        Number value{};
        const std::string_view taken = bytes(sizeof value);
        taken.copy(reinterpret_cast<char *>(&value), taken.size());
        return value;
    }
    std::string_view bytes(std::size_t most);
    // A text with its length before it, in two bytes.
    std::string_view text() { return bytes(number<std::uint16_t>()); }
    std::string_view rest() { return bytes(rest_.size()); }
    bool empty() const { return rest_.empty(); }

private:
    std::string_view rest_;
};

// The parts of an input that consists of texts, which lines "%%" separate.
std::vector<std::string_view> parts_of(std::string_view input);

inline std::span<const std::uint8_t> bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t *>(text.data()), text.size()};
}

// FUZZ_TARGET(name) { … input … }
#define FUZZ_TARGET(name)                                                                                              \
    static void fuzz_##name(std::string_view input);                                                                   \
    [[maybe_unused]] static const auto &registered_##name =                                                            \
        ::incident::fuzz::targets().emplace_back(::incident::fuzz::Target{#name, fuzz_##name});                        \
    static void fuzz_##name(std::string_view input)

} // namespace incident::fuzz
