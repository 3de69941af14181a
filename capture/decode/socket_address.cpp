#include "capture/decode/socket_address.h"

#include "capture/decode/decode.h"
#include "capture/decode/decode_text.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/netlink.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <optional>

namespace incident::capture::tables {
extern const Set set_af;
}

namespace incident::capture {

namespace {

// The structure that the bytes begin with; nullopt: they are fewer.
template <typename Address> std::optional<Address> address_of(std::string_view bytes) {
    Address address;
    if (bytes.size() < sizeof(address))
        return std::nullopt;
    std::memcpy(&address, bytes.data(), sizeof(address));
    return address;
}

// "AF_INET"; "" if it is none that is known.
std::string_view family_name(int family) {
    return decode::name_in(tables::set_af, static_cast<std::uint64_t>(family));
}

std::string host_text(const in_addr &address) {
    char text[INET_ADDRSTRLEN] = "?";
    ::inet_ntop(AF_INET, &address, text, sizeof(text));
    return text;
}

std::string host_text(const in6_addr &address) {
    char text[INET6_ADDRSTRLEN] = "?";
    ::inet_ntop(AF_INET6, &address, text, sizeof(text));
    return text;
}

// The name of a local socket; of one in the file system up to a NUL (unix(7)).
std::string_view local_name(std::string_view bytes) {
    std::string_view name = bytes.substr(offsetof(sockaddr_un, sun_path));
    if (!name.empty() && name.front() != '\0')
        name = name.substr(0, name.find('\0'));
    return name;
}

std::string with_port(const std::string &host, in_port_t port) {
    return port ? host + ':' + std::to_string(ntohs(port)) : host;
}

} // namespace

int address_family(std::string_view bytes) {
    const auto family = address_of<sa_family_t>(bytes);
    return family ? *family : AF_UNSPEC;
}

std::string socket_address_text(std::string_view bytes) {
    const int family = address_family(bytes);
    std::string text = "{sa_family=";
    text += family_name(family).empty() ? std::to_string(family) : std::string(family_name(family));
    if (family == AF_UNIX) {
        const std::string_view name = local_name(bytes);
        if (!name.empty() && name.front() == '\0')
            text += ", sun_path=@" + quoted(name.substr(1));
        else if (!name.empty())
            text += ", sun_path=" + quoted(name);
    } else if (const auto four = address_of<sockaddr_in>(bytes); four && family == AF_INET) {
        text += fmt::format(", sin_port=htons({}), sin_addr=inet_addr(\"{}\")", ntohs(four->sin_port),
                            host_text(four->sin_addr));
    } else if (const auto six = address_of<sockaddr_in6>(bytes); six && family == AF_INET6) {
        text += fmt::format(", sin6_port=htons({}), sin6_addr=inet_pton(\"{}\")", ntohs(six->sin6_port),
                            host_text(six->sin6_addr));
        if (six->sin6_scope_id)
            text += fmt::format(", sin6_scope_id={}", six->sin6_scope_id);
    } else if (const auto link = address_of<sockaddr_nl>(bytes); link && family == AF_NETLINK) {
        text += fmt::format(", nl_pid={}, nl_groups={:#x}", link->nl_pid, link->nl_groups);
    } else if (const auto machine = address_of<sockaddr_vm>(bytes); machine && family == AF_VSOCK) {
        text += fmt::format(", svm_cid={}, svm_port={}", machine->svm_cid, machine->svm_port);
    } else if (bytes.size() > sizeof(sa_family_t)) {
        text += ", sa_data=" + quoted(bytes.substr(sizeof(sa_family_t)));
    }
    return text + '}';
}

std::string peer_text(std::string_view bytes) {
    const int family = address_family(bytes);
    if (family == AF_UNIX) {
        const std::string_view name = local_name(bytes);
        if (name.empty())
            return "unix";
        return name.front() == '\0' ? "unix:@" + std::string(name.substr(1)) : "unix:" + std::string(name);
    }
    if (const auto four = address_of<sockaddr_in>(bytes); four && family == AF_INET)
        return with_port(host_text(four->sin_addr), four->sin_port);
    if (const auto six = address_of<sockaddr_in6>(bytes); six && family == AF_INET6) {
        const std::string host = host_text(six->sin6_addr);
        return with_port(six->sin6_port ? '[' + host + ']' : host, six->sin6_port);
    }
    if (const auto link = address_of<sockaddr_nl>(bytes); link && family == AF_NETLINK)
        return fmt::format("AF_NETLINK pid {}", link->nl_pid);
    if (const auto machine = address_of<sockaddr_vm>(bytes); machine && family == AF_VSOCK)
        return fmt::format("vsock {}:{}", machine->svm_cid, machine->svm_port);
    const std::string_view name = family_name(family);
    return name.empty() ? "family " + std::to_string(family) : std::string(name);
}

void show_address(DecodedCall &call, const std::string &address_text) {
    const bool in_message = call.name == "sendmsg" || call.name == "recvmsg";
    const std::size_t which = call.name == "sendto" || call.name == "recvfrom" ? 4 : 1;
    if (which < call.args.size())
        call.args[which] = in_message ? "{msg_name=" + address_text + '}' : address_text;
}

} // namespace incident::capture
