#include "daemon/heap_price.h"

#include "capture/maps.h"
#include "daemon/clocks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace incident::daemon {

namespace {

constexpr unsigned rounds = 24, calls = 128; // the quickest round counts

// Their entries are pushes, as malloc's mostly is: the kernel emulates those.
[[gnu::naked, gnu::noinline, gnu::noclone]] void *price_allocate(std::size_t) {
    asm("push %rbp\n\tmov %rdi, %rax\n\tpop %rbp\n\tret");
}
[[gnu::naked, gnu::noinline, gnu::noclone]] void price_free(void *) {
    asm("push %rbp\n\tpop %rbp\n\tret");
}

// The thread's CPU time: others on this CPU are not part of the price.
template <typename Call> std::uint64_t quickest(Call call) {
    std::uint64_t best = ~0ull;
    for (unsigned round = 0; round < rounds; ++round) {
        const std::uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (unsigned i = 0; i < calls; ++i)
            call((round * calls + i + 1) * 64);
        best = std::min(best, clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
    }
    return best / calls;
}

void allocate(std::uint64_t address) {
    price_allocate(address); // "returns" what it was asked for
}
void release(std::uint64_t address) {
    price_free(reinterpret_cast<void *>(address));
}

template <typename Function> Result<std::uint64_t> file_offset(const capture::Maps &maps, Function *function) {
    const auto address = reinterpret_cast<std::uint64_t>(function);
    const capture::Mapping *mapping = maps.find(address);
    if (!mapping || !mapping->is_file())
        return fail("the daemon's own code was not found in its mappings");
    return address - mapping->start + mapping->offset;
}

} // namespace

Result<HeapPrice> measure_heap_price(HeapKernel &kernel, std::unique_ptr<HeapSlot> slot, bool history,
                                     Detacher &detacher) {
    std::ifstream file("/proc/self/maps");
    const auto maps = capture::Maps::parse(std::string(std::istreambuf_iterator<char>(file), {}));
    const auto at_allocate = file_offset(maps, price_allocate), at_free = file_offset(maps, price_free);
    if (!at_allocate || !at_free)
        return fail(at_allocate ? at_free.error() : at_allocate.error());
    auto own = kernel.make_maps({rounds * calls * 2, 64, history ? rounds * calls : 0});
    if (!own)
        return fail(own.error());
    bpf::heap_account settings{};
    settings.epoch_shift = 30;
    settings.history_mask = history ? rounds * calls - 1 : ~0ull;
    if (auto begun = kernel.begin(slot->number(), settings, *own); !begun)
        return fail(begun.error());

    const std::uint64_t bare_allocate = quickest(allocate), bare_free = quickest(release);
    const std::uint64_t cookie = slot->number();
    std::vector<LatencyKernel::Link> links;
    const std::tuple<HeapKernel::Role, std::uint64_t, bpf::heap_function> points[] = {
        {HeapKernel::Role::Leave, *at_allocate, bpf::HEAP_MALLOC},
        {HeapKernel::Role::Enter, *at_allocate, bpf::HEAP_MALLOC},
        {HeapKernel::Role::Free, *at_free, bpf::HEAP_FREE}};
    Status attached;
    for (const auto &[role, offset, function] : points) {
        auto link = kernel.attach(role, "/proc/self/exe", offset, static_cast<std::uint32_t>(::getpid()),
                                  cookie | static_cast<std::uint64_t>(function) << HEAP_COOKIE_FUNCTION_SHIFT);
        if (!link) {
            attached = fail(link.error());
            break;
        }
        links.push_back(std::shared_ptr<void>(link->release(), link->get_deleter()));
    }
    HeapPrice price;
    if (attached) {
        price.allocation_ns = quickest(allocate);
        price.free_ns = quickest(release);
        price.allocation_ns -= std::min(price.allocation_ns, bare_allocate);
        price.free_ns -= std::min(price.free_ns, bare_free);
    }
    links.push_back(std::move(slot)); // goes when the probes are gone
    detacher.drop(std::move(links));
    if (!attached)
        return fail(attached.error());
    return price;
}

} // namespace incident::daemon
