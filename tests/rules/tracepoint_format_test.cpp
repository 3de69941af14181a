// The `format` files of tracefs: real ones, and what could stand there.

#include "rules/filter/filter.h"
#include "tests/rules/fakes.h"

#include <gmock/gmock.h>

#include <cstring>
#include <random>

namespace incident::rules {
namespace {

using Kind = TracepointField::Kind;

TracepointFormat real(const std::string &category, const std::string &name) {
    return parse_tracepoint_format(fake_tracepoint_format(category, name).value_or(""));
}

// "int s4@24", "text 16@8", "at 4@8", "bytes 48@16"
std::string shown(const TracepointField &field) {
    const char *kinds[] = {"int", "text", "at", "bytes"};
    return field.name + " " + kinds[static_cast<int>(field.kind)] + " " + (field.is_signed ? "s" : "") +
           std::to_string(field.size) + "@" + std::to_string(field.offset);
}
std::vector<std::string> shown(const TracepointFormat &format) {
    std::vector<std::string> out;
    for (const TracepointField &field : format.fields)
        if (!field.name.starts_with("common_"))
            out.push_back(shown(field));
    return out;
}
std::string of_line(const std::string &line) {
    const TracepointFormat format = parse_tracepoint_format(line);
    return format.fields.empty() ? "" : shown(format.fields[0]);
}
std::string declared(const std::string &declaration, int size) {
    return of_line("\tfield:" + declaration + ";\toffset:8;\tsize:" + std::to_string(size) + ";\tsigned:0;");
}

TEST(TracepointFormat, RealFiles) {
    using testing::ElementsAre;
    const TracepointFormat sched_switch = real("sched", "sched_switch");
    EXPECT_EQ(sched_switch.size, 64u);
    ASSERT_EQ(sched_switch.fields.size(), 11u);
    EXPECT_EQ(shown(sched_switch.fields[0]), "common_type int 2@0");
    EXPECT_THAT(shown(sched_switch),
                ElementsAre("prev_comm text 16@8", "prev_pid int s4@24", "prev_prio int s4@28", "prev_state int s8@32",
                            "next_comm text 16@40", "next_pid int s4@56", "next_prio int s4@60"));
    EXPECT_THAT(shown(real("sched", "sched_process_exec")),
                ElementsAre("filename at 4@8", "pid int s4@12", "old_pid int s4@16"));
    EXPECT_THAT(shown(real("raw_syscalls", "sys_enter")), ElementsAre("id int s8@8", "args bytes 48@16"));
    EXPECT_THAT(shown(real("skb", "kfree_skb")), ElementsAre("skbaddr int 8@8", "location int 8@16", "rx_sk int 8@24",
                                                             "protocol int 2@32", "reason int 4@36"));
    EXPECT_THAT(shown(real("irq", "irq_handler_entry")), ElementsAre("irq int s4@8", "name at 4@12"));
    EXPECT_THAT(shown(real("ipi", "ipi_send_cpumask")),
                ElementsAre("cpumask bytes 4@8", "callsite int 8@16", "callback int 8@24"));
    EXPECT_THAT(shown(real("tcp", "tcp_retransmit_skb")), testing::Contains("saddr_v6 bytes 16@42"));
}

TEST(TracepointFormat, EveryFileHasItsFields) {
    std::size_t files = 0;
    for (const auto &entry : std::filesystem::directory_iterator(TEST_DATA "/tracepoints")) {
        const std::string text = read(entry.path());
        std::size_t lines = 0;
        for (std::size_t at = text.find("field:"); at != std::string::npos; at = text.find("field:", at + 1))
            ++lines;
        EXPECT_EQ(parse_tracepoint_format(text).fields.size(), lines) << entry.path();
        ++files;
    }
    EXPECT_GE(files, 10u);
}

TEST(TracepointFormat, Declarations) {
    EXPECT_EQ(declared("const char * name", 8), "name int 8@8");
    EXPECT_EQ(declared("const char *name", 8), "name int 8@8");
    EXPECT_EQ(declared("enum zone_type zone", 4), "zone int 4@8");
    EXPECT_EQ(declared("bool sync", 1), "sync int 1@8");
    EXPECT_EQ(declared("char c", 1), "c int 1@8");
    EXPECT_EQ(declared("dev_t dev", 4), "dev int 4@8");
    EXPECT_EQ(declared("struct sockaddr_in6 saddr", 28), "saddr bytes 28@8");
    EXPECT_EQ(declared("struct x pair", 8), "pair bytes 8@8");
    EXPECT_EQ(declared("struct x * pointer", 8), "pointer int 8@8");
    EXPECT_EQ(declared("__data_loc char[] name", 4), "name at 4@8");
    EXPECT_EQ(declared("__rel_loc char[] name", 4), "name at 4@8");
    EXPECT_EQ(declared("__data_loc u8[] buf", 4), "buf bytes 4@8");
    EXPECT_EQ(declared("__data_loc char[] name", 8), "name bytes 8@8") << "not what the kernel makes";
    EXPECT_EQ(declared("char comm[16]", 16), "comm text 16@8");
    EXPECT_EQ(declared("char comm[TASK_COMM_LEN]", 16), "comm text 16@8");
    EXPECT_EQ(declared("unsigned char mac[6]", 6), "mac bytes 6@8");
    EXPECT_EQ(declared("char buf[]", 0), "buf bytes 0@8");
    EXPECT_EQ(declared("u128 wide", 16), "wide bytes 16@8");
}

TEST(TracepointFormat, MalformedLinesAreLeftOut) {
    for (const char *line :
         {"", "field:", "\tfield:int x;", "\tfield:int x;\toffset:8;", "\tfield:int x;\toffset:8;\tsize:4;",
          "\tfield:int x;\toffset:;\tsize:4;\tsigned:0;", "\tfield:int x;\toffset:-8;\tsize:4;\tsigned:0;",
          "\tfield:int x;\toffset:8;\tsize:four;\tsigned:0;", "\tfield:int x;\tsize:4;\toffset:8;\tsigned:0;",
          "\tfield:int x;\toffset:99999999999;\tsize:4;\tsigned:0;",
          "\tfield:int x;\toffset:4294967295;\tsize:4294967295;\tsigned:0;",
          "\tfield:int x;\toffset:65535;\tsize:2;\tsigned:0;", "\tfield:;\toffset:8;\tsize:4;\tsigned:0;",
          "\tfield:int;\toffset:8;\tsize:4;\tsigned:0;", "\tfield:int 5;\toffset:8;\tsize:4;\tsigned:0;",
          "\tfield:];\toffset:8;\tsize:4;\tsigned:0;", "\tfield:[4];\toffset:8;\tsize:4;\tsigned:0;",
          "print fmt: \"field:int x;\toffset:8;\tsize:4;\tsigned:0;\""})
        EXPECT_EQ(of_line(line), "") << line;
    EXPECT_EQ(of_line("field:int x;offset:8;size:4;signed:1;\r"), "x int s4@8") << "blanks do not matter";
}

TEST(TracepointFormat, IsBounded) {
    std::string many;
    for (int i = 0; i < 10000; ++i)
        many += "\tfield:int x;\toffset:8;\tsize:4;\tsigned:0;\n";
    EXPECT_EQ(parse_tracepoint_format(many).fields.size(), 256u);
}

TEST(TracepointFormat, MutatedFilesNeverCrashAndNeverReachBeyondARecord) {
    const std::string good = fake_tracepoint_format("sched", "sched_process_exec").value_or("");
    ASSERT_FALSE(good.empty());
    for (std::uint32_t seed = 0; seed < 2000; ++seed) {
        std::mt19937 random(seed);
        std::string text = good;
        for (int i = 0; i < 8; ++i)
            text[random() % text.size()] = static_cast<char>(random() % 3 == 0 ? '0' + random() % 10 : random() % 256);
        const TracepointFormat format = parse_tracepoint_format(text);
        EXPECT_LE(format.size, 65536u);
        std::vector<std::uint8_t> record(random() % 64);
        for (std::uint8_t &byte : record)
            byte = static_cast<std::uint8_t>(random());
        for (const char c : describe_record(format, record))
            ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20);
    }
}

TEST(DescribeRecord, NamesEveryFieldButTheCommonOnes) {
    std::vector<std::uint8_t> record(64);
    std::memcpy(record.data() + 8, "postgres", 8);
    const std::int32_t pid = -1;
    std::memcpy(record.data() + 24, &pid, 4);
    record[32] = 2;
    std::memcpy(record.data() + 40, "a b\x1b[2J", 7);
    EXPECT_EQ(describe_record(real("sched", "sched_switch"), record),
              "prev_comm=postgres prev_pid=-1 prev_prio=0 prev_state=2 next_comm='a b\\x1b[2J' next_pid=0 next_prio=0");
    record.resize(30);
    EXPECT_EQ(describe_record(real("sched", "sched_switch"), record), "prev_comm=postgres prev_pid=-1");
    EXPECT_EQ(describe_record(real("sched", "sched_switch"), {}), "");
}

TEST(DescribeRecord, AddressesAndBytes) {
    std::vector<std::uint8_t> record(64, 0xab);
    EXPECT_EQ(describe_record(real("raw_syscalls", "sys_enter"), record),
              "id=-6076574518398440533 args=abababababababababababababababab...");
    EXPECT_THAT(describe_record(real("skb", "kfree_skb"), record),
                testing::StartsWith("skbaddr=0xabababababababab location=0xabababababababab"));
}

} // namespace
} // namespace incident::rules
