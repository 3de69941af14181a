#include "capture/os/address.h"

#include "capture/os/maps.h"

#include <gtest/gtest.h>

#include <concepts>

namespace incident::capture {
namespace {

template <typename A, typename B>
concept Adds = requires(A a, B b) {
    a + b;
};
template <typename A, typename B>
concept Subtracts = requires(A a, B b) {
    a - b;
};
template <typename A, typename B>
concept Compares = requires(A a, B b) {
    a == b;
}
|| requires(A a, B b) {
    a < b;
};
template <typename Function, typename Argument>
concept Takes = requires(Function function, Argument argument) {
    function(argument);
};

using Number = std::uint64_t;

// What makes sense, and of which kind it is.
static_assert(std::same_as<decltype(LinkAddress() + LoadBias()), UserAddress>);
static_assert(std::same_as<decltype(UserAddress() - LoadBias()), LinkAddress>);
static_assert(std::same_as<decltype(UserAddress() - LinkAddress()), LoadBias>);
template <typename Kind>
constexpr bool counts_bytes =
    std::same_as<decltype(Kind() + Number()), Kind> &&std::same_as<decltype(Kind() - Number()), Kind>
        &&std::same_as<decltype(Kind() - Kind()), Number> &&std::totally_ordered<Kind>;
static_assert(counts_bytes<UserAddress> && counts_bytes<LinkAddress> && counts_bytes<FileOffset>);

// What would tell a lie does not compile.
template <typename One, typename Other>
constexpr bool apart = !std::convertible_to<One, Other> && !std::constructible_from<Other, One> &&
                       !std::assignable_from<Other &, One> && !Compares<One, Other> && !Adds<One, Other>;
static_assert(apart<UserAddress, LinkAddress> && apart<LinkAddress, UserAddress>);
static_assert(apart<UserAddress, FileOffset> && apart<FileOffset, UserAddress>);
static_assert(apart<LinkAddress, FileOffset> && apart<FileOffset, LinkAddress>);
static_assert(!Subtracts<LinkAddress, UserAddress> && !Subtracts<UserAddress, FileOffset> &&
              !Subtracts<FileOffset, UserAddress> && !Subtracts<LinkAddress, FileOffset> &&
              !Subtracts<FileOffset, LinkAddress>);
// A bias is added once, to what the file says, and taken away once, from what the process has.
static_assert(!Adds<UserAddress, LoadBias> && !Subtracts<LinkAddress, LoadBias> && !Adds<FileOffset, LoadBias> &&
              !Subtracts<FileOffset, LoadBias> && !Adds<LoadBias, LoadBias> && !Adds<LoadBias, Number>);
static_assert(!Adds<UserAddress, UserAddress> && !Adds<LinkAddress, LinkAddress> && !Adds<FileOffset, FileOffset>);

// A bare number says its kind where it becomes one, and stops being one only by name.
template <typename Kind>
constexpr bool explicit_only =
    std::constructible_from<Kind, Number> && !std::convertible_to<Number, Kind> && !std::convertible_to<Kind, Number> &&
    !std::assignable_from<Kind &, Number> && !Compares<Kind, Number> && !Takes<void (*)(Kind), Number>;
static_assert(explicit_only<UserAddress> && explicit_only<LinkAddress> && explicit_only<FileOffset> &&
              explicit_only<LoadBias>);

// No more than the number they are.
static_assert(sizeof(UserAddress) == sizeof(Number) && std::is_trivially_copyable_v<UserAddress> &&
              sizeof(LoadBias) == sizeof(Number) && std::is_trivially_copyable_v<LoadBias>);

TEST(Address, TheBiasLeadsFromTheFileToTheProcessAndBack) {
    const UserAddress start(0x7f0000001000);
    const LinkAddress linked(0x1000);
    const LoadBias bias = start - linked;
    EXPECT_EQ(bias, LoadBias(0x7f0000000000));
    EXPECT_EQ(linked + bias, start);
    EXPECT_EQ(start + 0x234 - bias, LinkAddress(0x1234));
}

TEST(Address, WrapsAroundInsteadOfMore) {
    constexpr Number most = ~Number{0};
    EXPECT_EQ(UserAddress(most) + 2, UserAddress(1));
    EXPECT_EQ(FileOffset() - 1, FileOffset(most));
    EXPECT_EQ(LinkAddress(1) - LinkAddress(2), most);
    EXPECT_EQ(LinkAddress(2) + LoadBias(most), UserAddress(1)); // of a file that is mapped below where it is linked
    EXPECT_EQ(UserAddress(1) - LinkAddress(2), LoadBias(most));
}

TEST(Address, AMappingSaysWhereInTheFileAnAddressIs) {
    const Maps maps = Maps::parse("7f0000401000-7f0000402000 r-xp 00003000 08:01 1234 /usr/bin/app\n");
    const UserAddress inside(0x7f0000401234);
    ASSERT_TRUE(maps.find(inside));
    EXPECT_EQ(maps.find(inside)->offset_of(inside), FileOffset(0x3234));
}

} // namespace
} // namespace incident::capture
