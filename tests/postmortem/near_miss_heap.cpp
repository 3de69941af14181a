// What the recorded heap proves, and facts close to it.
#include "near_miss.h"

namespace incident::postmortem::test {

namespace {

using S = Sentence;

constexpr std::uint64_t block = 0x50000; // 64 bytes

void through(LabEvidence &f, std::uint64_t pointer, std::int64_t displacement = 0, const std::string &index = "") {
    f.registers().rdi = pointer;
    f.accesses("rdi", displacement, index);
    f.maperr(f.analysis.instruction->memory->address);
}

void freed(LabEvidence &f) {
    f.heap.emplace().malloc(1000, block, 64).free(4000, block);
    through(f, block, 16);
}

void alive(LabEvidence &f, std::int64_t displacement) {
    f.heap.emplace().malloc(1000, block, 64);
    through(f, block, displacement);
}

void indexed(LabEvidence &f, std::int64_t index) {
    f.heap.emplace().malloc(1000, block, 64);
    f.registers().rbx = static_cast<std::uint64_t>(index);
    through(f, block, 0, "rbx");
}

// What stands at offset 8 of what was freed is what the instruction goes through.
void followed(LabEvidence &f) {
    f.heap.emplace().malloc(1000, block, 64).free(4000, block);
    f.registers().rbx = block;
    f.word(block + 8, 0x123456789000);
    through(f, 0x123456789000);
}

void in_free(LabEvidence &f, const std::string &message) {
    f.aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:malloc_printerr", "libc.so.6:_int_free",
              "libc.so.6:free", "cleanup"},
             message);
}

void twice(LabEvidence &f) {
    f.heap.emplace().malloc(1000, block, 64).free(2000, block).free(9000, block, 5);
    in_free(f, "free(): double free detected in tcache 2");
}

void middle(LabEvidence &f) {
    f.heap.emplace().malloc(1000, block, 64).free(9000, block + 16, 5);
    in_free(f, "free(): invalid pointer");
}

void about_to(LabEvidence &f) {
    f.heap.emplace().malloc(1000, block, 64).free(9000, block, 5);
    in_free(f, "double free or corruption (out)");
}

const std::vector<NearMiss> not_freed = {
    {"given out again", [](LabEvidence &f) { f.heap->malloc(5000, block, 64, 7); }},
    {"one alive lies across it now", [](LabEvidence &f) { f.heap->malloc(5000, block - 16, 200, 7); }},
    {"freed after the fault",
     [](LabEvidence &f) { f.heap.emplace().malloc(1000, block, 64).free(LabEvidence::trigger + 5, block); }},
    {"one alive ends just below, past whose end it may have run",
     [](LabEvidence &f) { f.heap->malloc(5000, block - 64, 64, 7); }},
    {"the instruction has another operand, and it was that", [](LabEvidence &f) { f.maperr(0x900000000000 >> 8); }},
    {"a system call was under way: the siginfo was sent", [](LabEvidence &f) { f.registers().orig_rax = 297; }},
};

const std::vector<NearMiss> not_past = {
    {"freed", [](LabEvidence &f) { f.heap->free(4000, block); }},
    {"another one lies there",
     [](LabEvidence &f) { f.heap->malloc(2000, block + 64, 64).malloc(2000, block - 64, 64); }},
    {"the instruction has another operand, and it was that", [](LabEvidence &f) { f.maperr(0x123456000); }},
    {"in the last byte of it", [](LabEvidence &f) { alive(f, 63); }},
};

} // namespace

std::vector<SentenceCase> heap_cases() {
    return {
        {S::used_after_free, freed, not_freed},
        {S::used_after_free_near,
         [](LabEvidence &f) {
             f.heap.emplace().malloc(1000, block, 64).free(4000, block);
             through(f, block, 4096);
         },
         {{"what is touched lies in it", [](LabEvidence &f) { through(f, block, 16); }},
          {"given out again", [](LabEvidence &f) { f.heap->malloc(5000, block, 64, 7); }},
          {"the instruction has another operand, and it was that", [](LabEvidence &f) { f.maperr(0x123456000); }}}},
        {S::freed_pointer_followed,
         followed,
         {{"nothing at hand points there", [](LabEvidence &f) { f.registers().rbx = 0; }},
          {"given out again", [](LabEvidence &f) { f.heap->malloc(5000, block, 64, 7); }},
          {"another value stands there", [](LabEvidence &f) { through(f, 0x123456788000); }},
          {"where free() does not write: it may have been copied before",
           [](LabEvidence &f) {
               f.image.memory = {};
               f.word(block + 24, 0x123456789000);
           }},
          {"another allocator's free() need not write there",
           [](LabEvidence &f) {
               f.heap->snapshot.functions = {{"free", "/usr/lib/libjemalloc.so.2", "", true}};
           }}}},
        {S::overrun, [](LabEvidence &f) { alive(f, 72); },
         [] {
             auto near_misses = not_past;
             near_misses.push_back(
                 {"with an index, which may lead to where it was meant to", [](LabEvidence &f) { indexed(f, 72); }});
             near_misses.push_back({"before its start", [](LabEvidence &f) { alive(f, -8); }});
             return near_misses;
         }()},
        {S::underrun, [](LabEvidence &f) { alive(f, -8); },
         [] {
             auto near_misses = not_past;
             near_misses.push_back({"with an index", [](LabEvidence &f) { indexed(f, -8); }});
             near_misses.push_back({"past its end", [](LabEvidence &f) { alive(f, 72); }});
             return near_misses;
         }()},
        {S::reached_past, [](LabEvidence &f) { indexed(f, 72); }, not_past},
        {S::reached_before, [](LabEvidence &f) { indexed(f, -8); }, not_past},
        {S::freed_twice,
         twice,
         {{"allocated in between",
           [](LabEvidence &f) {
               f.heap.emplace().malloc(1000, block, 64).free(2000, block).malloc(3000, block, 64).free(9000, block, 5);
           }},
          {"another one",
           [](LabEvidence &f) {
               f.heap.emplace().malloc(1000, block, 64).free(2000, block).free(9000, block + 4096, 5);
           }},
          {"the second came afterwards",
           [](LabEvidence &f) {
               f.heap.emplace().malloc(1000, block, 64).free(2000, block).free(LabEvidence::trigger + 5, block, 5);
           }}}},
        {S::unless_unrecorded,
         [](LabEvidence &f) {
             twice(f);
             f.heap->snapshot.unfinished = 3;
         },
         {{"all calls have left their record", [](LabEvidence &f) { f.heap->snapshot.unfinished = 0; }},
          {"allocated in between, which is recorded",
           [](LabEvidence &f) {
               f.heap.emplace().malloc(1000, block, 64).free(2000, block).malloc(3000, block, 64).free(9000, block, 5);
               f.heap->snapshot.unfinished = 3;
           }}}},
        {S::freed_in_the_middle,
         middle,
         {{"its start", [](LabEvidence &f) { f.heap.emplace().malloc(1000, block, 64).free(9000, block, 5); }},
          {"past its end", [](LabEvidence &f) { f.heap.emplace().malloc(1000, block, 64).free(9000, block + 64, 5); }},
          {"calls were not recorded: one may have allocated there",
           [](LabEvidence &f) { f.heap->snapshot.unfinished = 1; }},
          {"one of the functions is not probed",
           [](LabEvidence &f) {
               f.heap->snapshot.functions = {{"aligned_alloc", "/lib/x", "no symbol", false}};
           }}}},
        {S::about_to_free,
         about_to,
         {{"it is in malloc(): that free() is an older one",
           [](LabEvidence &f) {
               f.aborts({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:malloc_printerr", "libc.so.6:_int_malloc",
                         "libc.so.6:malloc", "cleanup"},
                        "malloc(): corrupted top size");
           }},
          {"it is in realloc(), whose record comes when it returns",
           [](LabEvidence &f) {
               f.frames({"libc.so.6:raise", "libc.so.6:abort", "libc.so.6:malloc_printerr", "libc.so.6:_int_free",
                         "libc.so.6:realloc", "cleanup"});
           }},
          {"calls were not recorded: this one may be among them",
           [](LabEvidence &f) { f.heap->snapshot.unfinished = 1; }},
          {"another thread's free()",
           [](LabEvidence &f) { f.heap.emplace().malloc(1000, block, 64).free(9000, block, 5, 101); }}}},
    };
}

} // namespace incident::postmortem::test
