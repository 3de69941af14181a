#include "capture/decode/epoll_events.h"

#include "bpf/event.h"
#include "capture/decode/decode_text.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <cstring>
#include <iterator>

namespace incident::capture {

namespace {

static_assert(sizeof(epoll_event) == EPOLL_EVENT_BYTES);

constexpr struct {
    std::uint32_t bit;
    const char *name;
} names[] = {{EPOLLIN, "EPOLLIN"},         {EPOLLPRI, "EPOLLPRI"},         {EPOLLOUT, "EPOLLOUT"},
             {EPOLLERR, "EPOLLERR"},       {EPOLLHUP, "EPOLLHUP"},         {EPOLLRDNORM, "EPOLLRDNORM"},
             {EPOLLRDBAND, "EPOLLRDBAND"}, {EPOLLWRNORM, "EPOLLWRNORM"},   {EPOLLWRBAND, "EPOLLWRBAND"},
             {EPOLLMSG, "EPOLLMSG"},       {EPOLLRDHUP, "EPOLLRDHUP"},     {EPOLLEXCLUSIVE, "EPOLLEXCLUSIVE"},
             {EPOLLWAKEUP, "EPOLLWAKEUP"}, {EPOLLONESHOT, "EPOLLONESHOT"}, {EPOLLET, "EPOLLET"}};

std::string mask_text(std::uint32_t mask) {
    std::string text;
    for (const auto &[bit, name] : names)
        if (mask & bit) {
            text += (text.empty() ? "" : "|") + std::string(name);
            mask &= ~bit;
        }
    if (mask || text.empty())
        text += (text.empty() ? "" : "|") + (mask ? hex_text(mask) : std::string("0"));
    return text;
}

} // namespace

std::string epoll_events_text(std::string_view bytes) {
    std::string text;
    for (; bytes.size() >= sizeof(epoll_event); bytes.remove_prefix(sizeof(epoll_event))) {
        epoll_event event;
        std::memcpy(&event, bytes.data(), sizeof(event));
        text += fmt::format("{}{{events={}, data={{u32={}, u64={}}}}}", text.empty() ? "" : ", ",
                            mask_text(event.events), std::uint32_t{event.data.u32}, std::uint64_t{event.data.u64});
    }
    return text;
}

void show_events(DecodedCall &call, std::string_view bytes, std::int64_t ret) {
    const bool gives = call.name == "epoll_ctl";
    const std::size_t which = gives ? 3 : 1;
    const std::string text = epoll_events_text(bytes);
    // The kernel does not look at the event of EPOLL_CTL_DEL.
    if (which >= call.args.size() || text.empty() || (gives && call.args[1] == "EPOLL_CTL_DEL"))
        return;
    const bool more = ret > static_cast<std::int64_t>(bytes.size() / sizeof(epoll_event));
    call.args[which] = gives ? text : '[' + text + (more ? ", …]" : "]");
}

} // namespace incident::capture
