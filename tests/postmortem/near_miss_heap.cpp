// What the recorded heap proves, and facts close to it.
#include "near_miss.h"

namespace incident::postmortem::test {

namespace {

using S = Sentence;

constexpr std::uint64_t block = 0x50000; // 64 bytes

void through(Facts &f, std::uint64_t pointer, std::int64_t displacement = 0, const std::string &index = "") {
    f.registers().rdi = pointer;
    f.accesses("rdi", displacement, index);
    f.maperr(f.analysis.instruction->memory->address);
}

void freed(Facts &f) {
    f.heap.emplace().malloc(1000, block, 64).free(4000, block);
    through(f, block, 16);
}

void alive(Facts &f, std::int64_t displacement) {
    f.heap.emplace().malloc(1000, block, 64);
    through(f, block, displacement);
}

void indexed(Facts &f, std::int64_t index) {
    f.heap.emplace().malloc(1000, block, 64);
    f.registers().rbx = static_cast<std::uint64_t>(index);
    through(f, block, 0, "rbx");
}

// What stands at offset 8 of what was freed is what the instruction goes through.
void followed(Facts &f) {
    f.heap.emplace().malloc(1000, block, 64).free(4000, block);
    f.registers().rbx = block;
    f.word(block + 8, 0x123456789000);
    through(f, 0x123456789000);
}

void in_free(Facts &f, const std::string &message) {
    f.aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:malloc_printerr", "libc.so.6:_int_free",
              "libc.so.6:free", "cleanup"},
             message);
}

void twice(Facts &f) {
    f.heap.emplace().malloc(1000, block, 64).free(2000, block).free(9000, block, 5);
    in_free(f, "free(): double free detected in tcache 2");
}

void middle(Facts &f) {
    f.heap.emplace().malloc(1000, block, 64).free(9000, block + 16, 5);
    in_free(f, "free(): invalid pointer");
}

void about_to(Facts &f) {
    f.heap.emplace().malloc(1000, block, 64).free(9000, block, 5);
    in_free(f, "double free or corruption (out)");
}

const std::vector<NearMiss> not_freed = {
    {"given out again", [](Facts &f) { f.heap->malloc(5000, block, 64, 7); }},
    {"one alive lies across it now", [](Facts &f) { f.heap->malloc(5000, block - 16, 200, 7); }},
    {"freed after the fault",
     [](Facts &f) { f.heap.emplace().malloc(1000, block, 64).free(Facts::trigger + 5, block); }},
    {"one alive ends just below, past whose end it may have run",
     [](Facts &f) { f.heap->malloc(5000, block - 64, 64, 7); }},
    {"the instruction has another operand, and it was that", [](Facts &f) { f.maperr(0x900000000000 >> 8); }},
    {"a system call was under way: the siginfo was sent", [](Facts &f) { f.registers().orig_rax = 297; }},
};

const std::vector<NearMiss> not_past = {
    {"freed", [](Facts &f) { f.heap->free(4000, block); }},
    {"another one lies there", [](Facts &f) { f.heap->malloc(2000, block + 64, 64).malloc(2000, block - 64, 64); }},
    {"the instruction has another operand, and it was that", [](Facts &f) { f.maperr(0x123456000); }},
    {"in the last byte of it", [](Facts &f) { alive(f, 63); }},
};

} // namespace

std::vector<SentenceCase> heap_cases() {
    return {
        {S::used_after_free, freed, not_freed},
        {S::used_after_free_near,
         [](Facts &f) {
             f.heap.emplace().malloc(1000, block, 64).free(4000, block);
             through(f, block, 4096);
         },
         {{"what is touched lies in it", [](Facts &f) { through(f, block, 16); }},
          {"given out again", [](Facts &f) { f.heap->malloc(5000, block, 64, 7); }},
          {"the instruction has another operand, and it was that", [](Facts &f) { f.maperr(0x123456000); }}}},
        {S::freed_pointer_followed,
         followed,
         {{"nothing at hand points there", [](Facts &f) { f.registers().rbx = 0; }},
          {"given out again", [](Facts &f) { f.heap->malloc(5000, block, 64, 7); }},
          {"another value stands there", [](Facts &f) { through(f, 0x123456788000); }},
          {"where free() does not write: it may have been copied before",
           [](Facts &f) {
               f.image.memory = {};
               f.word(block + 24, 0x123456789000);
           }},
          {"another allocator's free() need not write there",
           [](Facts &f) {
               f.heap->snapshot.functions = {{"free", "/usr/lib/libjemalloc.so.2", "", true}};
           }}}},
        {S::overrun, [](Facts &f) { alive(f, 72); },
         [] {
             auto near_misses = not_past;
             near_misses.push_back(
                 {"with an index, which may lead to where it was meant to", [](Facts &f) { indexed(f, 72); }});
             near_misses.push_back({"before its start", [](Facts &f) { alive(f, -8); }});
             return near_misses;
         }()},
        {S::underrun, [](Facts &f) { alive(f, -8); },
         [] {
             auto near_misses = not_past;
             near_misses.push_back({"with an index", [](Facts &f) { indexed(f, -8); }});
             near_misses.push_back({"past its end", [](Facts &f) { alive(f, 72); }});
             return near_misses;
         }()},
        {S::reached_past, [](Facts &f) { indexed(f, 72); }, not_past},
        {S::reached_before, [](Facts &f) { indexed(f, -8); }, not_past},
        {S::freed_twice,
         twice,
         {{"allocated in between",
           [](Facts &f) {
               f.heap.emplace().malloc(1000, block, 64).free(2000, block).malloc(3000, block, 64).free(9000, block, 5);
           }},
          {"another one",
           [](Facts &f) { f.heap.emplace().malloc(1000, block, 64).free(2000, block).free(9000, block + 4096, 5); }},
          {"the second came afterwards",
           [](Facts &f) {
               f.heap.emplace().malloc(1000, block, 64).free(2000, block).free(Facts::trigger + 5, block, 5);
           }}}},
        {S::unless_unrecorded,
         [](Facts &f) {
             twice(f);
             f.heap->snapshot.unfinished = 3;
         },
         {{"all calls have left their record", [](Facts &f) { f.heap->snapshot.unfinished = 0; }},
          {"allocated in between, which is recorded",
           [](Facts &f) {
               f.heap.emplace().malloc(1000, block, 64).free(2000, block).malloc(3000, block, 64).free(9000, block, 5);
               f.heap->snapshot.unfinished = 3;
           }}}},
        {S::freed_in_the_middle,
         middle,
         {{"its start", [](Facts &f) { f.heap.emplace().malloc(1000, block, 64).free(9000, block, 5); }},
          {"past its end", [](Facts &f) { f.heap.emplace().malloc(1000, block, 64).free(9000, block + 64, 5); }},
          {"calls were not recorded: one may have allocated there", [](Facts &f) { f.heap->snapshot.unfinished = 1; }},
          {"one of the functions is not probed",
           [](Facts &f) {
               f.heap->snapshot.functions = {{"aligned_alloc", "/lib/x", "no symbol", false}};
           }}}},
        {S::about_to_free,
         about_to,
         {{"it is in malloc(): that free() is an older one",
           [](Facts &f) {
               f.aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:malloc_printerr", "libc.so.6:_int_malloc",
                         "libc.so.6:malloc", "cleanup"},
                        "malloc(): corrupted top size");
           }},
          {"it is in realloc(), whose record comes when it returns",
           [](Facts &f) {
               f.frames({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:malloc_printerr", "libc.so.6:_int_free",
                         "libc.so.6:realloc", "cleanup"});
           }},
          {"calls were not recorded: this one may be among them", [](Facts &f) { f.heap->snapshot.unfinished = 1; }},
          {"another thread's free()",
           [](Facts &f) { f.heap.emplace().malloc(1000, block, 64).free(9000, block, 5, 101); }}}},
    };
}

} // namespace incident::postmortem::test
