// Go's table of functions, made by hand in each layout that is known, and what is wrong with one.
#include "postmortem/unwind/go_table.h"

#include "postmortem/unwind/debug_files.h"
#include "postmortem/unwind/debug_info.h"
#include "postmortem/unwind/go_file.h"
#include "postmortem/unwind/symbols.h"
#include "unwind_lab.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>

namespace incident::postmortem::test {

namespace {

constexpr std::uint64_t text = 0x401000;

class Bytes {
public:
    std::string all;
    template <typename Number> std::size_t put(Number number) {
        const std::size_t at = all.size();
        all.append(reinterpret_cast<const char *>(&number), sizeof number);
        return at;
    }
    template <typename Number> void set(std::size_t at, Number number) {
        std::memcpy(all.data() + at, &number, sizeof number);
    }
    std::size_t string(std::string_view text) {
        const std::size_t at = all.size();
        all += text;
        all += '\0';
        return at;
    }
};

// Values of instructions: {value, bytes of code}, as cmd/link writes them.
std::string values(std::vector<std::pair<std::int32_t, std::uint32_t>> steps) {
    std::string out;
    const auto varint = [&](std::uint32_t number) {
        for (; number >= 0x80; number >>= 7)
            out += static_cast<char>(number | 0x80);
        out += static_cast<char>(number);
    };
    std::int32_t before = -1;
    for (const auto &[value, length] : steps) {
        const std::int32_t difference = value - before;
        varint((static_cast<std::uint32_t>(difference) << 1) ^ static_cast<std::uint32_t>(difference >> 31));
        varint(length);
        before = value;
    }
    return out += '\0';
}

struct Made {
    std::string table, trees;
};

// main.first is 0x40 bytes: from 0x10 to 0x20 main.inner is in it, in which main.innermost is from 0x18 on; then comes
// main.main, whose table of inlined calls is not there, and runtime.goexit, which has no caller.
Made made(std::uint32_t magic) {
    const bool old = magic == 0xfffffffa, parented = magic == 0xfffffff0, lines = magic == 0xfffffff1;
    Bytes b, trees;
    b.put(magic);
    b.put<std::uint16_t>(0);
    b.put<std::uint8_t>(1);
    b.put<std::uint8_t>(8);
    b.put<std::uint64_t>(3); // functions
    b.put<std::uint64_t>(2); // files
    if (!old)
        b.put(text);
    const std::size_t parts = b.all.size();
    for (int i = 0; i < 5; ++i)
        b.put<std::uint64_t>(0);
    auto begin = [&, number = 0]() mutable { b.set<std::uint64_t>(parts + 8 * number++, b.all.size()); };
    const std::size_t names = b.all.size();
    begin();
    const auto first = b.string("main.first"), inner = b.string("main.inner"), innermost = b.string("main.innermost"),
               main = b.string("main.main"), goexit = b.string("runtime.goexit");
    begin();
    const std::size_t units = b.all.size();
    b.put<std::uint32_t>(0);
    b.put<std::uint32_t>(0);
    begin();
    const std::size_t files = b.all.size();
    b.string("/src/one.go");
    b.set<std::uint32_t>(units + 4, b.all.size() - files);
    b.string("/src/two.go");
    begin();
    const std::size_t of_values = b.all.size();
    b.put<std::uint8_t>(0);
    const auto add = [&](std::vector<std::pair<std::int32_t, std::uint32_t>> steps) {
        const std::size_t at = b.all.size() - of_values;
        b.all += values(std::move(steps));
        return static_cast<std::uint32_t>(at);
    };
    const auto depths = add({{0, 4}, {0x28, 0x38}, {0, 4}}), in_files = add({{0, 0x10}, {1, 0x10}, {0, 0x20}}),
               in_lines = add({{10, 0x8}, {11, 0x8}, {70, 0x8}, {90, 0x8}, {12, 0x20}}),
               inlined = add({{-1, 0x10}, {0, 0x8}, {1, 0x8}, {-1, 0x20}});
    while (b.all.size() % 8)
        b.all += '\0';
    begin();
    const std::size_t table = b.all.size();
    const std::uint64_t entries[] = {0, 0x40, 0x80, 0xc0};
    for (int i = 0; i < 4; ++i) {
        old ? b.put<std::uint64_t>(text + entries[i]) : b.put<std::uint32_t>(entries[i]);
        if (i < 3)
            old ? b.put<std::uint64_t>(0) : b.put<std::uint32_t>(0);
    }
    const std::size_t functions[] = {first, main, goexit};
    for (int i = 0; i < 3; ++i) {
        while (b.all.size() % 8)
            b.all += '\0';
        const std::size_t offset = b.all.size() - table;
        old ? b.set<std::uint64_t>(table + 16 * i + 8, offset) : b.set<std::uint32_t>(table + 8 * i + 4, offset);
        old ? b.put<std::uint64_t>(text + entries[i]) : b.put<std::uint32_t>(entries[i]);
        b.put<std::uint32_t>(functions[i] - names);
        b.put<std::uint32_t>(0);
        b.put<std::uint32_t>(0);
        b.put<std::uint32_t>(depths);
        b.put<std::uint32_t>(in_files);
        b.put<std::uint32_t>(in_lines);
        b.put<std::uint32_t>(3); // tables of values
        b.put<std::uint32_t>(0); // unit
        if (lines)
            b.put<std::int32_t>(9);
        b.put<std::uint8_t>(0);
        b.put<std::uint8_t>(i == 2 && !old ? 1 : 0);
        b.put<std::uint8_t>(0);
        b.put<std::uint8_t>(4); // tables of data
        b.put<std::uint32_t>(0);
        b.put<std::uint32_t>(0);
        b.put<std::uint32_t>(inlined);
        for (int data = 0; data < 3; ++data)
            b.put<std::uint32_t>(~0U);
        b.put<std::uint32_t>(i == 0 ? 0 : ~0U);
    }
    const auto call = [&](std::size_t name, std::uint32_t parent_pc) {
        trees.put<std::uint32_t>(0);
        if (parented) {
            trees.put<std::uint32_t>(0);
            trees.put<std::uint32_t>(0);
        }
        trees.put<std::uint32_t>(name - names);
        trees.put<std::uint32_t>(parent_pc);
        if (!parented)
            trees.put<std::uint32_t>(1);
    };
    call(inner, 0x8);      // called where line 11 is
    call(innermost, 0x10); // called where line 70 is
    return {b.all, trees.all};
}

std::string shown(const GoTable &table, std::uint64_t address) {
    const auto function = table.function_at(LinkAddress(address));
    if (!function)
        return "";
    std::string text;
    for (const GoTable::Place &place : table.places(*function, LinkAddress(address)))
        text += std::string(place.inlined ? "+" : "") + std::string(place.name) + " " + std::string(place.file) + ":" +
                std::to_string(place.line) + "; ";
    return text;
}

} // namespace

TEST(GoTable, TellsNamesAndLinesOfEachLayout) {
    for (const std::uint32_t magic : {0xfffffffaU, 0xfffffff0U, 0xfffffff1U}) {
        const Made bytes = made(magic);
        const auto table = GoTable::parse(bytes.table);
        ASSERT_TRUE(table) << magic;
        EXPECT_EQ(shown(*table, text), "main.first /src/one.go:10; ") << magic;
        EXPECT_EQ(shown(*table, text + 0x3f), "main.first /src/one.go:12; ") << magic;
        EXPECT_EQ(shown(*table, text + 0x40), "main.main /src/one.go:10; ") << magic;
        EXPECT_EQ(shown(*table, text - 1), "") << magic;
        EXPECT_EQ(shown(*table, text + 0xc0), "") << magic;
        const auto goexit = table->function_at(LinkAddress(text + 0x81)),
                   first = table->function_at(LinkAddress(text + 0x3));
        ASSERT_TRUE(goexit && first);
        EXPECT_TRUE(goexit->outermost);
        EXPECT_FALSE(first->outermost);
        EXPECT_EQ(table->frame_size(*first, LinkAddress(text + 0x3)), 0u);
        EXPECT_EQ(table->frame_size(*first, LinkAddress(text + 0x4)), 0x28u);
        EXPECT_EQ(table->frame_size(*first, LinkAddress(text + 0x3c)), 0u);
    }
}

TEST(GoTable, TellsWhatIsInlinedWhereItsTreeIsThere) {
    for (const std::uint32_t magic : {0xfffffff0U, 0xfffffff1U}) {
        const Made bytes = made(magic);
        auto table = GoTable::parse(bytes.table);
        ASSERT_TRUE(table);
        table->set_trees(bytes.trees);
        EXPECT_EQ(shown(*table, text + 0x10), "+main.inner /src/two.go:70; main.first /src/one.go:11; ");
        EXPECT_EQ(shown(*table, text + 0x18),
                  "+main.innermost /src/two.go:90; +main.inner /src/two.go:70; main.first /src/one.go:11; ");
        // The line at that instruction is the inlined function's: without the tree it is nobody's.
        EXPECT_EQ(shown(*table, text + 0x50), "main.main :0; ");
        table->set_trees({});
        EXPECT_EQ(shown(*table, text + 0x18), "main.first :0; ");
        table->set_trees(std::span(bytes.trees).first(bytes.trees.size() - 1));
        EXPECT_EQ(shown(*table, text + 0x18), "main.first :0; ");
    }
}

TEST(GoTable, RefusesWhatItDoesNotKnow) {
    EXPECT_FALSE(GoTable::parse({}));
    const std::string whole = made(0xfffffff1).table;
    for (const std::size_t byte : {0, 1, 4, 7}) {
        std::string other = whole;
        other[byte] = static_cast<char>(other[byte] + 1);
        if (byte == 0)
            other[byte] = static_cast<char>(0xfb); // Go 1.2
        EXPECT_FALSE(GoTable::parse(other)) << byte;
    }
    EXPECT_FALSE(GoTable::parse(std::span(whole).first(40)));
}

// A function's record that says another beginning than the index is none.
TEST(GoTable, NamesNothingByARecordOfAnother) {
    std::string bytes = made(0xfffffff1).table;
    const auto function = GoTable::parse(bytes)->function_at(LinkAddress(text + 0x40));
    ASSERT_TRUE(function);
    bytes[function->record - 4] = 0x41;
    EXPECT_FALSE(GoTable::parse(bytes)->function_at(LinkAddress(text + 0x50)));
    EXPECT_TRUE(GoTable::parse(bytes)->function_at(LinkAddress(text)));
}

TEST(GoTable, HostileBytesAreHarmless) {
    std::mt19937 random(11);
    std::size_t named = 0;
    for (const std::uint32_t magic : {0xfffffffaU, 0xfffffff0U, 0xfffffff1U}) {
        const Made bytes = made(magic);
        for (int round = 0; round < 3000; ++round) {
            std::string table = bytes.table, trees = bytes.trees;
            for (int change = 0; change < 1 + round % 4; ++change)
                table[8 + random() % (table.size() - 8)] = static_cast<char>(random());
            trees[random() % trees.size()] = static_cast<char>(random());
            table.resize(table.size() - (round % 3 == 0 ? random() % table.size() : 0));
            const std::vector<char> exact(table.begin(), table.end()); // of which a sanitizer knows the end
            auto parsed = GoTable::parse(exact);
            if (!parsed)
                continue;
            parsed->set_trees(trees);
            for (std::uint64_t at = 0; at < 0xc0; at += 4)
                if (const auto function = parsed->function_at(LinkAddress(text + at))) {
                    named += parsed->places(*function, LinkAddress(text + at)).size();
                    EXPECT_LE(parsed->places(*function, LinkAddress(text + at)).size(), GoTable::inlined_max + 1);
                    parsed->frame_size(*function, LinkAddress(text + at));
                }
        }
    }
    EXPECT_GT(named, 0u);
}

// What a stripped program says of itself is what DWARF says of the same program.
TEST(GoTable, SaysOfAProgramWhatItsDebugInformationSays) {
    UnwindLab lab;
    if (lab.shell("PATH=/usr/bin:/bin command -v go >/dev/null") != 0)
        GTEST_SKIP() << "no go";
    std::ofstream(lab.dir() / "p.go") << R"(package main

import ("fmt"; "os")

type shape struct { width, height int }

func (s *shape) area() int { return s.width * s.height }
func twice(s *shape) int { return s.area() + s.area() }

//go:noinline
func sum(of []int, at int) int {
	total := 0
	for _, one := range of {
		total += twice(&shape{one, of[at]})
	}
	return total
}

func main() { fmt.Println(sum([]int{len(os.Args), 2}, len(os.Args))) }
)";
    const std::string build =
        "cd " + lab.dir().string() + " && PATH=/usr/bin:/bin GOCACHE=" + lab.dir().string() + "/cache GO111MODULE=off ";
    for (const std::string mode : {"-buildmode=exe", "-buildmode=pie"}) {
        ASSERT_EQ(lab.shell(build + "go build " + mode + " -o whole p.go && " + build + "go build " + mode +
                            " '-ldflags=-s -w' -o stripped p.go"),
                  0);
        const int whole = ::open((lab.dir() / "whole").c_str(), O_RDONLY | O_CLOEXEC),
                  stripped = ::open((lab.dir() / "stripped").c_str(), O_RDONLY | O_CLOEXEC);
        elf_version(EV_CURRENT);
        ElfHandle elf(elf_begin(whole, ELF_C_READ_MMAP, nullptr)), other(elf_begin(stripped, ELF_C_READ_MMAP, nullptr));
        std::vector<std::string> notes;
        DebugInfo debug(elf.get(), find_debug_file(elf.get(), DebugSearch{"", "", -1, -1, {}}, notes), "", notes);
        const auto table = go_table_of(other.get());
        ASSERT_TRUE(table);
        Symbols symbols;
        symbols.add(elf.get());
        symbols.sort();
        std::size_t compared = 0, inlined = 0, other_line = 0;
        std::string differences;
        const auto text = symbols.address_of("runtime.text"), end = symbols.address_of("runtime.etext");
        ASSERT_TRUE(text && end);
        EXPECT_EQ(table->text(), *text);
        for (LinkAddress at = *text; at < *end; at = at + 7) {
            const auto function = table->function_at(at);
            const auto &dwarf = debug.places(at);
            if (!function || dwarf.empty() || dwarf.front().line == 0)
                continue;
            std::string here, there, lines, other_lines;
            for (const GoTable::Place &place : table->places(*function, at)) {
                here += std::string(place.name) + "\n";
                lines += std::string(place.file) + ":" + std::to_string(place.line) + "\n";
            }
            if (lines.find("<autogenerated>") != std::string::npos)
                continue; // DWARF gives it a directory, and writes out types in names
            for (const Place &place : dwarf) {
                there += place.name + "\n";
                other_lines += place.file + ":" + std::to_string(place.line) + "\n";
            }
            ++compared;
            inlined += dwarf.size() - 1;
            other_line += lines != other_lines;
            if (here != there && differences.size() < 4000)
                differences += std::to_string(at.value) + "\n" + here + "--\n" + there;
        }
        std::cout << compared << " addresses, " << inlined << " inlined calls, " << other_line << " other lines\n";
        EXPECT_GT(compared, 1000u);
        EXPECT_GT(inlined, 100u);
        EXPECT_EQ(differences, "");
        // Go 1.19's line table and its DWARF differ in 3 of 70,000 addresses.
        EXPECT_LE(other_line, compared / 10000);
        ::close(whole);
        ::close(stripped);
    }
}

} // namespace incident::postmortem::test
