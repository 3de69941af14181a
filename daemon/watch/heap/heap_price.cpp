#include "daemon/watch/heap/heap_price.h"

#include "daemon/probe/own_code.h"

#include <unistd.h>

namespace incident::daemon {

namespace {

constexpr unsigned heap_rounds = 24, heap_calls = 128;

// Their entries are pushes, as malloc's mostly is: the kernel emulates those.
[[gnu::naked, gnu::noinline, gnu::noclone]] void *price_allocate(std::size_t) {
    asm("push %rbp\n\tmov %rdi, %rax\n\tpop %rbp\n\tret");
}
[[gnu::naked, gnu::noinline, gnu::noclone]] void price_free(void *) {
    asm("push %rbp\n\tpop %rbp\n\tret");
}

// Each call another address, and each one that was allocated is freed.
std::uint64_t address_of(unsigned call) {
    return call * 64ull;
}
void allocate(unsigned call) {
    price_allocate(address_of(call)); // "returns" what it was asked for
}
void release(unsigned call) {
    price_free(reinterpret_cast<void *>(address_of(call))); // NOLINT(performance-no-int-to-ptr): never followed
}

} // namespace

Result<HeapPrice> measure_heap_price(HeapKernel &kernel, std::unique_ptr<HeapSlot> slot, bool history,
                                     Detacher &detacher) {
    const auto at_allocate = own_file_offset(price_allocate), at_free = own_file_offset(price_free);
    if (!at_allocate || !at_free)
        return fail(at_allocate ? at_free.error() : at_allocate.error());
    auto own = kernel.make_maps({heap_rounds * heap_calls * 2, 64, history ? heap_rounds * heap_calls : 0});
    if (!own)
        return fail(own.error());
    bpf::heap_account settings{};
    settings.epoch_shift = 30;
    settings.history_mask = history ? heap_rounds * heap_calls - 1 : ~0ull;
    if (auto begun = kernel.begin(slot->number(), settings, *own); !begun)
        return fail(begun.error());

    const std::uint64_t bare_allocate = quickest_call(heap_rounds, heap_calls, allocate),
                        bare_free = quickest_call(heap_rounds, heap_calls, release);
    const std::uint64_t cookie = slot->number();
    std::vector<LatencyKernel::Link> links;
    const std::tuple<HeapKernel::Role, capture::FileOffset, bpf::heap_function> points[] = {
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
        links.push_back(std::move(*link));
    }
    HeapPrice price;
    if (attached) {
        price.allocation_ns = added_ns(quickest_call(heap_rounds, heap_calls, allocate), bare_allocate);
        price.free_ns = added_ns(quickest_call(heap_rounds, heap_calls, release), bare_free);
    }
    links.push_back(std::move(slot)); // goes when the probes are gone
    detacher.drop(std::move(links));
    if (!attached)
        return fail(attached.error());
    return price;
}

} // namespace incident::daemon
