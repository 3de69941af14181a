// Addresses that could not be read or written, and facts close to them.
#include "near_miss.h"

namespace incident::postmortem::test {

namespace {

using S = Sentence;

void null_at(LabEvidence &f, std::int64_t offset) {
    f.accesses("rax", offset);
    f.maperr(static_cast<std::uint64_t>(offset));
}

void wild(LabEvidence &f, std::uint64_t address) {
    f.registers().rax = address;
    f.accesses("rax", 0);
    f.maperr(address);
}

void unmapped_before(LabEvidence &f) {
    wild(f, 0x70001000);
    f.call_line(900, "mmap", {"0", "8192", "PROT_READ", "MAP_PRIVATE", "-1", "0"}, 0x70000000);
    f.call_line(500, "munmap", {"0x70001000", "4096"}, 0);
}

void writes_constant(LabEvidence &f) {
    f.registers().rax = 0x403010;
    f.accesses("rax", 0, "", true);
    f.accerr(0x403010);
}

void guarded(LabEvidence &f) {
    f.maps("00500000-00501000 ---p 00000000 00:00 0\n");
    f.registers().rax = 0x500010;
    f.accesses("rax", 0);
    f.accerr(0x500010);
}

void beyond_file(LabEvidence &f) {
    f.maps("00500000-00502000 rw-s 00000000 08:01 9 /tmp/data\n");
    f.fault(SIGBUS, BUS_ADRERR, "BUS_ADRERR", 0x501000);
}

void impossible(LabEvidence &f, std::uint64_t address) {
    f.registers().rax = address;
    f.accesses("rax", 0);
    f.fault(SIGSEGV, SI_KERNEL, "SI_KERNEL", 0);
}

void aligned_move(LabEvidence &f, std::uint64_t address) {
    impossible(f, address);
    f.analysis.instruction->text = "movaps (%rax),%xmm0";
    f.analysis.instruction->memory->bytes = 16;
}

} // namespace

std::vector<SentenceCase> access_cases() {
    return {
        {S::null_dereference,
         [](LabEvidence &f) { null_at(f, 0); },
         {{"the address is a constant in the instruction", [](LabEvidence &f) { f.accesses("", 0); }},
          {"thread-local storage", [](LabEvidence &f) { f.analysis.instruction->memory->segment = "fs"; }},
          {"a system call was under way: the siginfo was sent", [](LabEvidence &f) { f.registers().orig_rax = 297; }},
          {"the instruction is of somewhere else", [](LabEvidence &f) { ++f.analysis.instruction->address; }}}},
        {S::null_offset,
         [](LabEvidence &f) { null_at(f, 0x148); },
         {{"the address is a constant in the instruction", [](LabEvidence &f) { f.accesses("", 0x148); }},
          {"an index: which of the two is the pointer?", [](LabEvidence &f) { f.accesses("rax", 0x148, "rbx"); }},
          {"the register holds the address, and not 0",
           [](LabEvidence &f) {
               f.registers().rax = 0x148;
               f.accesses("rax", 0);
           }},
          {"the fault was elsewhere", [](LabEvidence &f) { f.maperr(0x200); }}}},
        {S::low_address,
         [](LabEvidence &f) { wild(f, 8); },
         {{"just above", [](LabEvidence &f) { wild(f, 65536); }},
          {"through a null pointer", [](LabEvidence &f) { null_at(f, 8); }},
          {"something is mapped there", [](LabEvidence &f) { f.accerr(8); }}}},
        {S::null_argument,
         [](LabEvidence &f) {
             null_at(f, 8);
             f.argument("item", 0);
         },
         {{"of another function", [](LabEvidence &f) { f.analysis.argument_frame = 1; }},
          {"one of two that are null", [](LabEvidence &f) { f.argument("other", 0); }},
          {"not null", [](LabEvidence &f) { f.analysis.arguments[0].value = 1; }},
          {"its value is not known", [](LabEvidence &f) { f.analysis.arguments[0].value.reset(); }},
          {"no pointer", [](LabEvidence &f) { f.analysis.arguments[0].is_pointer = false; }}}},
        {S::entered_with_null,
         [](LabEvidence &f) {
             null_at(f, 8);
             f.analysis.instruction->base_untouched = true;
         },
         {{"the function has written to the register since",
           [](LabEvidence &f) { f.analysis.instruction->base_untouched = false; }},
          {"the code is of a function inlined there",
           [](LabEvidence &f) { f.analysis.threads[0].frames[0].inlined = true; }},
          {"it holds something else",
           [](LabEvidence &f) {
               wild(f, 8);
               f.analysis.instruction->base_untouched = true;
           }}}},
        {S::impossible_address,
         [](LabEvidence &f) { impossible(f, 0x4142434445464748); },
         {{"it is possible: a general protection fault for another reason",
           [](LabEvidence &f) { impossible(f, 0x404000); }},
          {"the last address of user space", [](LabEvidence &f) { impossible(f, 0x00007fffffffffff); }},
          {"five levels of page tables, and an access that may have to be aligned",
           [](LabEvidence &f) {
               impossible(f, 0x0001000000000008);
               f.analysis.instruction->memory->bytes = 16;
           }},
          {"the operand's address is only computed",
           [](LabEvidence &f) { f.analysis.instruction->memory->read = false; }}}},
        {S::misaligned,
         [](LabEvidence &f) { aligned_move(f, 0x404008); },
         {{"it is aligned", [](LabEvidence &f) { aligned_move(f, 0x404010); }},
          {"an instruction that needs no alignment",
           [](LabEvidence &f) { f.analysis.instruction->text = "movups (%rax),%xmm0"; }},
          {"eight bytes", [](LabEvidence &f) { f.analysis.instruction->memory->bytes = 8; }},
          {"an impossible address is what the processor minds first",
           [](LabEvidence &f) { aligned_move(f, 0x4142434445464748); }},
          {"a page fault, which comes of no alignment", [](LabEvidence &f) { f.maperr(0x404008); }},
          {"its address is only computed", [](LabEvidence &f) { f.analysis.instruction->memory->read = false; }}}},
        {S::nothing_mapped,
         [](LabEvidence &f) { wild(f, 0x123456789000); },
         {{"mapped one page to there",
           [](LabEvidence &f) { f.maps("123456789000-12345678a000 rw-p 00000000 00:00 0\n"); }},
          {"maps were not captured whole", [](LabEvidence &f) { f.image.maps_whole = false; }},
          {"the instruction touches the page before", [](LabEvidence &f) { f.accesses("rax", -4096); }},
          {"something was mapped there", [](LabEvidence &f) { f.accerr(0x123456789000); }}}},
        {S::kernels_address,
         [](LabEvidence &f) { wild(f, 0xffffffff81000000); },
         {{"just below", [](LabEvidence &f) { wild(f, 0xffff7fffffffffff); }},
          {"the instruction touches another one", [](LabEvidence &f) { f.accesses("rax", 64); }},
          {"the page of vsyscalls",
           [](LabEvidence &f) {
               wild(f, 0xffffffffff600000);
               f.maps("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n");
           }}}},
        {S::since_munmap,
         unmapped_before,
         {{"nothing was mapped there, which is no error",
           [](LabEvidence &f) {
               f.no_timeline();
               f.call_line(900, "mmap", {"0", "4096", "PROT_READ", "MAP_PRIVATE", "-1", "0"}, 0x70000000);
               f.call_line(500, "munmap", {"0x70001000", "4096"}, 0);
           }},
          {"it ended one page below",
           [](LabEvidence &f) {
               f.no_timeline();
               f.call_line(900, "mmap", {"0", "8192", "PROT_READ", "MAP_PRIVATE", "-1", "0"}, 0x70000000);
               f.call_line(500, "munmap", {"0x70000000", "4096"}, 0);
           }},
          {"it failed",
           [](LabEvidence &f) {
               f.no_timeline();
               f.call_line(900, "mmap", {"0", "8192", "PROT_READ", "MAP_PRIVATE", "-1", "0"}, 0x70000000);
               f.call_line(500, "munmap", {"0x70001000", "4096"}, -22);
           }},
          {"mapped again, and moved away by mremap()",
           [](LabEvidence &f) {
               f.call_line(400, "mmap", {"0x70001000", "4096", "PROT_READ", "MAP_PRIVATE", "-1", "0"}, 0x70001000);
               f.call_line(300, "mremap", {"0x70001000", "4096", "8192", "MREMAP_MAYMOVE"}, 0x90000000);
           }}}},
        {S::read_only_memory,
         writes_constant,
         {{"a read: protection keys", [](LabEvidence &f) { f.accesses("rax", 0); }},
          {"writable as it is mapped now",
           [](LabEvidence &f) { f.maps("00403000-00404000 rw-p 00003000 08:01 7 /bin/x\n"); }},
          {"the fault was elsewhere", [](LabEvidence &f) { f.accerr(0x403020); }},
          {"nothing is mapped there", [](LabEvidence &f) { f.maperr(0x403010); }}}},
        {S::no_permission,
         guarded,
         {{"it can be read", [](LabEvidence &f) { f.maps("00500000-00501000 r--p 00000000 00:00 0\n"); }},
          {"the instruction touches another address", [](LabEvidence &f) { f.accesses("rax", 64); }},
          {"nothing is mapped there", [](LabEvidence &f) { f.maperr(0x500010); }}}},
        {S::no_file_page,
         beyond_file,
         {{"of an access that is not aligned",
           [](LabEvidence &f) { f.fault(SIGBUS, BUS_ADRALN, "BUS_ADRALN", 0x501000); }},
          {"memory that is no file's", [](LabEvidence &f) { f.maps("00500000-00502000 rw-p 00000000 00:00 0\n"); }},
          {"one page past the mapping", [](LabEvidence &f) { f.fault(SIGBUS, BUS_ADRERR, "BUS_ADRERR", 0x502000); }},
          {"a handler has dealt with it, and the thread died of something else later",
           [](LabEvidence &f) {
               f.signal_line(2'000'000, SIGBUS, BUS_ADRERR, "BUS_ADRERR", 0x501000, "delivered", "handled");
               f.fault(SIGSEGV, SI_KERNEL, "SI_KERNEL", 0);
               f.signal_line(0, SIGSEGV, SI_KERNEL, "SI_KERNEL", {}, "delivered", "fatal", 100, true);
           }}}},
    };
}

} // namespace incident::postmortem::test
