// Names of functions, nice and nasty.
#include "capture/decode/symbol_name.h"

#include <gtest/gtest.h>

#include <string>

namespace incident::capture {
namespace {

TEST(SymbolName, BothLanguagesAreDemangled) {
    EXPECT_EQ(demangled("_ZN2ns1fEi"), "ns::f(int)");
    EXPECT_EQ(demangled("_Z4worki.isra.0.cold"), "work(int) [clone .isra.0] [clone .cold]");
    EXPECT_EQ(demangled("_ZN7mycrate6handle17h6d239337de68b4efE"), "mycrate::handle");
    EXPECT_EQ(demangled("_ZN7mycrate6handle17h6d239337de68b4efE.llvm.1234567"), "mycrate::handle");
    EXPECT_EQ(demangled("_ZN7mycrate4main28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE"),
              "mycrate::main::{{closure}}");
    EXPECT_EQ(demangled("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
    EXPECT_EQ(demangled("_RNvXs_Cs1234_7mycrateNtB4_3FooNtB4_3Bar1f"), "<mycrate::Foo as mycrate::Bar>::f");
    EXPECT_EQ(demangled("_RINvNtC3std3mem8align_ofdE"), "std::mem::align_of::<f64>");
    for (const char *none : {"main", "", "_Z", "_R", "_Zgarbage", "main.(*T).f", "_ZN7mycrate6handle17h6d239"})
        EXPECT_EQ(demangled(none), "") << none;
    EXPECT_EQ(demangled_type("St9exception"), "std::exception");
}

struct Parts {
    const char *text, *name, *parameters, *qualifiers;
};

TEST(SymbolName, ADemangledNameIsTakenApart) {
    const Parts cases[] = {
        {"f", "f", "", ""},
        {"f()", "f", "()", ""},
        {"ns::C::f(int) const", "ns::C::f", "(int)", " const"},
        {"void ns::f<int>(std::allocator<char> > const&)", "ns::f<int>", "(std::allocator<char> > const&)", ""},
        {"std::vector<int, std::allocator<int> >::push_back(int const&)",
         "std::vector<int, std::allocator<int> >::push_back", "(int const&)", ""},
        {"unsigned long f<&(ns::g(int))>(int)", "f<&(ns::g(int))>", "(int)", ""},
        {"A<(B)1>::f(decltype ((a)<(b)))", "A<(B)1>::f", "(decltype ((a)<(b)))", ""},
        {"foo[abi:cxx11](int)", "foo[abi:cxx11]", "(int)", ""},
        {"A::~A()", "A::~A", "()", ""},
        // operators, whose signs are no brackets
        {"A::operator()(int) &&", "A::operator()", "(int)", " &&"},
        {"A::operator[](int)", "A::operator[]", "(int)", ""},
        {"bool A::operator< <int>(int)", "A::operator< <int>", "(int)", ""},
        {"std::ostream& operator<< <char>(std::ostream&, char const*)", "operator<< <char>",
         "(std::ostream&, char const*)", ""},
        {"A::operator->() const", "A::operator->", "()", " const"},
        {"A::operator<=>(A const&) const", "A::operator<=>", "(A const&)", " const"},
        {"A::operator bool() const", "A::operator bool", "()", " const"},
        {"A::operator std::map<int, int>() const", "A::operator std::map<int, int>", "()", " const"},
        {"A::operator int (*)()()", "A::operator int (*)()", "()", ""},
        {"operator new(unsigned long)", "operator new", "(unsigned long)", ""},
        {"A::operator delete[](void*)", "A::operator delete[]", "(void*)", ""},
        {"long operator\"\" _ms(unsigned long long)", "operator\"\" _ms", "(unsigned long long)", ""},
        {"operators(int)", "operators", "(int)", ""},
        // scopes with parentheses or spaces of their own
        {"(anonymous namespace)::hidden(int)", "(anonymous namespace)::hidden", "(int)", ""},
        {"int (anonymous namespace)::hidden<int>(int)", "(anonymous namespace)::hidden<int>", "(int)", ""},
        {"(anonymous namespace)::hidden", "(anonymous namespace)::hidden", "", ""},
        {"main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()", "(int)", " const"},
        {"main::{lambda(int (*)(char))#2}::operator()(int (*)(char)) const",
         "main::{lambda(int (*)(char))#2}::operator()", "(int (*)(char))", " const"},
        {"f(int) const::L::m(char) const", "f(int) const::L::m", "(char)", " const"},
        // what returns pointers to functions and the like
        {"void (*g<int>())(int)", "g<int>", "()", ""},
        {"int (&h(char))[3]", "h", "(char)", ""},
        {"int (A::*f())[3]", "f", "()", ""},
        {"int (*(*k(int))(char))(long)", "k", "(int)", ""},
        {"f(int (*)(char), void (*)())", "f", "(int (*)(char), void (*)())", ""},
        // Rust
        {"<mycrate::Foo as mycrate::Bar>::f", "<mycrate::Foo as mycrate::Bar>::f", "", ""},
        {"<fn(i32) -> u8 as mycrate::Bar>::f", "<fn(i32) -> u8 as mycrate::Bar>::f", "", ""},
        {"core::ptr::drop_in_place::<alloc::string::String>", "core::ptr::drop_in_place::<alloc::string::String>", "",
         ""},
        {"mycrate::main::{{closure}}", "mycrate::main::{{closure}}", "", ""},
        // Go
        {"main.(*T).f", "main.(*T).f", "", ""},
        {"github.com/x/y.(*T[go.shape.int_0]).m.func1", "github.com/x/y.(*T[go.shape.int_0]).m.func1", "", ""},
        // none
        {"", "", "", ""},
        {"f(", "f(", "", ""},
        {")f(", ")f(", "", ""},
        {"typeinfo for std::exception", "typeinfo for std::exception", "", ""},
    };
    for (const auto &[text, name, parameters, qualifiers] : cases) {
        const auto parts = function_name_parts(text);
        EXPECT_EQ(parts.name, name) << text;
        EXPECT_EQ(parts.parameters, parameters) << text;
        EXPECT_EQ(parts.qualifiers, qualifiers) << text;
    }
    EXPECT_EQ(function_name_parts("work(int) [clone .isra.0] [clone .cold]").name, "work");
}

TEST(SymbolName, OneWrittenByAPersonIsShortened) {
    EXPECT_EQ(short_function_name("mycrate::handle::h6d239337de68b4ef"), "mycrate::handle");
    EXPECT_EQ(short_function_name("_ZN7mycrate6handle17h6d239337de68b4efE"), "mycrate::handle");
    EXPECT_EQ(short_function_name("void ns::put<char>(std::allocator<char> > const&)"), "ns::put<char>");
    EXPECT_EQ(short_function_name("main.(*T).f"), "main.(*T).f");
    EXPECT_EQ(short_function_name("exec_simple_query"), "exec_simple_query");
    EXPECT_EQ(without_rust_hash("a::h0123456789abcdeX"), "a::h0123456789abcdeX");
    EXPECT_EQ(without_rust_hash("::h0123456789abcdef"), "::h0123456789abcdef");
}

TEST(SymbolName, CopiesAndPieces) {
    using enum CloneName::Kind;
    const struct {
        const char *symbol;
        CloneName::Kind kind;
        const char *stem;
    } cases[] = {
        {"f", Itself, "f"},
        {"f.isra.0", Entry, "f"},
        {"f.constprop.12", Entry, "f"},
        {"f.isra.0.constprop.1", Entry, "f"},
        {"f.part.0", Part, "f"},
        {"f.cold", Part, "f"},
        {"f.cold.3", Part, "f"},
        {"f.isra.0.cold", Part, "f"},
        {"f.part.0.constprop.0", Part, "f"},
        {"f.lto_priv.0", Itself, "f"},
        {"f.lto_priv.0.isra.0", Entry, "f"},
        {"_ZN1AC2Ev.constprop.0", Entry, "_ZN1AC2Ev"},
        {"main.init.0", Itself, "main.init.0"}, // Go's
        {"main.isra", Itself, "main.isra"},
        {"f.", Itself, "f."},
        {".cold", Itself, ".cold"},
        {"", Itself, ""},
    };
    for (const auto &[symbol, kind, stem] : cases) {
        const auto clone = clone_name(symbol);
        EXPECT_EQ(clone.kind, kind) << symbol;
        EXPECT_EQ(clone.stem, stem) << symbol;
        EXPECT_EQ(std::string(clone.stem) + std::string(clone.suffix), symbol);
    }
}

// Substitutions and back references that stand for twice what they refer to, again and again: what some hundred
// bytes say would fill any memory, and printing it would never end.
TEST(SymbolName, WhatExplodesIsLeftAsItIs) {
    std::string cpp = "_Z1f1AIiiE";
    for (int i = 0; i < 30; ++i) {
        const std::string before = std::string("S") + "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i] + "_";
        cpp += "S_I" + before + before + "E";
    }
    const auto base62 = [](std::size_t value) {
        std::string digits;
        for (--value; digits.empty() || value; value /= 62)
            digits.insert(digits.begin(), "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[value % 62]);
        return digits + "_";
    };
    // the same with identifiers beyond ASCII, which the library keeps in memory of its own
    for (const std::string first : {"TmmE", "TNvC1au6gdel_5qamE"}) {
        std::string rust = "INvC1a1b";
        std::size_t before = rust.size();
        rust += first;
        for (int i = 0; i < 60; ++i) {
            const std::string back = "B" + base62(before);
            before = rust.size();
            rust += "T" + back + back + "E";
        }
        rust = "_R" + rust + "E";
        EXPECT_EQ(demangled(rust), "");
        EXPECT_EQ(function_name(rust), rust);
    }
    EXPECT_EQ(demangled(cpp), "");
    for (const std::string &deep : {"_Z1f" + std::string(4000, 'P') + "i", "_Z" + std::string(4000, 'P') + "i",
                                    std::string("_RNv") + std::string(4000, 'N')})
        EXPECT_LE(demangled(deep).size(), demangled_max);
    EXPECT_EQ(demangled("_Z1f" + std::string(mangled_max, 'P') + "i"), "");
    // a long name is no hostile one
    std::string nested;
    for (int i = 0; i < 300; ++i)
        nested += "3abc";
    EXPECT_EQ(function_name("_ZN" + nested + "Ev").size(), 300u * 5 - 2);
}

} // namespace
} // namespace incident::capture
