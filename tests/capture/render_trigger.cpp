// Headlines: what the function is called, however it was written in the rule.
#include "render_fixture.h"

#include "capture/render/render_trigger.h"

#include <gtest/gtest.h>

namespace incident::capture {
namespace {

std::string headline(const std::string &probe) {
    test::Made made;
    LatencyTrigger latency;
    latency.probe = probe;
    latency.elapsed_ns = 300'000'000;
    made.input.trigger = latency;
    return trigger_sentence(made.context());
}

TEST(Headline, NamesTheFunction) {
    const std::pair<const char *, const char *> cases[] = {
        {"uprobe:/bin/app:work", "work"},
        {"uprobe:/bin/app:work+0x1f", "work+0x1f"},
        {"uprobe:libz.so.1:deflate", "deflate"},
        {"uprobe:/bin/app:mycrate::handle::h6d239337de68b4ef", "mycrate::handle"},
        {"uprobe:/bin/app:_ZN7mycrate6handle17h6d239337de68b4efE", "mycrate::handle"},
        {"uprobe:/bin/app:_RNvXs_Cs1234_7mycrateNtB4_3FooNtB4_3Bar1f", "<mycrate::Foo as mycrate::Bar>::f"},
        {"uprobe:/bin/app:ns::put(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > "
         "const&)",
         "ns::put"},
        {"uprobe:/bin/app:db::Table::operator+(db::Row const&, int)", "db::Table::operator+"},
        {"uprobe:/bin/app:ns::A::operator+", "ns::A::operator+"},
        {"uprobe:/bin/app:ns::A::operator()(int) const", "ns::A::operator()"},
        {"uprobe:/bin/app:main.(*T).f", "main.(*T).f"},
        {"usdt:/bin/postgres:postgresql:query__start", "query__start"},
    };
    for (const auto &[probe, name] : cases)
        EXPECT_EQ(headline(probe), std::string("was 300 ms in ") + name) << probe;
}

} // namespace
} // namespace incident::capture
