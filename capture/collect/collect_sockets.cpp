#include "capture/collect/collect_sockets.h"

#include "capture/os/lines.h"
#include "capture/os/number.h"
#include "capture/os/proc_file.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <optional>
#include <vector>

namespace incident::capture {

namespace {

// include/net/tcp_states.h, from 1 on.
constexpr std::array<std::string_view, 12> states{"ESTABLISHED", "SYN_SENT",  "SYN_RECV", "FIN_WAIT1",
                                                  "FIN_WAIT2",   "TIME_WAIT", "CLOSE",    "CLOSE_WAIT",
                                                  "LAST_ACK",    "LISTEN",    "CLOSING",  "NEW_SYN_RECV"};

std::string_view state_name(std::uint32_t number) {
    return number - 1 < states.size() ? states[number - 1] : "unknown";
}

std::optional<std::uint32_t> hexadecimal(std::string_view digits) {
    return whole_number<std::uint32_t>(digits, 16);
}

std::vector<std::string_view> fields_of(std::string_view line) {
    std::vector<std::string_view> fields;
    while (true) {
        const std::size_t begin = line.find_first_not_of(' ');
        if (begin == std::string_view::npos)
            return fields;
        line.remove_prefix(begin);
        const std::size_t end = std::min(line.find(' '), line.size());
        fields.push_back(line.substr(0, end));
        line.remove_prefix(end);
    }
}

// "0100007F:1538": the words of the address as the machine has them, and the port (net/ipv4/tcp_ipv4.c, get_tcp4_sock;
// net/ipv6/tcp_ipv6.c).  "" if it is not that.
std::string place_text(std::string_view field, bool &connected) {
    constexpr std::size_t digits = 8; // of a word
    const std::size_t colon = field.find(':');
    if (colon != digits && colon != 4 * digits)
        return "";
    std::uint32_t words[4] = {};
    for (std::size_t i = 0; i < colon / digits; ++i) {
        const auto word = hexadecimal(field.substr(i * digits, digits));
        if (!word)
            return "";
        words[i] = *word;
    }
    const auto port = hexadecimal(field.substr(colon + 1));
    if (!port)
        return "";
    connected = *port != 0;
    char text[INET6_ADDRSTRLEN] = "";
    const bool four = colon == digits;
    ::inet_ntop(four ? AF_INET : AF_INET6, words, text, sizeof(text));
    return (four ? std::string(text) : '[' + std::string(text) + ']') + ':' + std::to_string(*port);
}

struct Table {
    const char *file;
    std::string_view protocol;
};
constexpr Table tables[] = {{"net/tcp", "TCP"}, {"net/tcp6", "TCP"}, {"net/udp", "UDP"}, {"net/udp6", "UDP"}};

} // namespace

std::uint64_t socket_inode(std::string_view target) {
    constexpr std::string_view head = "socket:[";
    if (!target.starts_with(head) || !target.ends_with(']'))
        return 0;
    return whole_number<std::uint64_t>(target.substr(head.size(), target.size() - head.size() - 1)).value_or(0);
}

std::string sockets_in(std::string_view table, std::string_view protocol, const std::set<std::uint64_t> &inodes) {
    constexpr std::size_t local = 1, remote = 2, state = 3, inode = 9;
    std::string found;
    for (const std::string_view line : lines_of(table)) {
        const auto fields = fields_of(line);
        if (fields.size() <= inode)
            continue;
        const auto number = whole_number<std::uint64_t>(fields[inode]);
        const auto how = hexadecimal(fields[state]);
        if (!number || !how || !inodes.contains(*number))
            continue;
        bool bound = false, connected = false;
        const std::string own = place_text(fields[local], bound), peer = place_text(fields[remote], connected);
        if (own.empty() || peer.empty())
            continue;
        found += "{\"inode\":" + std::to_string(*number) + ",\"target\":";
        found += json_string(std::string(protocol) + ' ' + own + (connected ? "→" + peer : ""));
        found += ",\"state\":";
        found += protocol == "UDP" && !connected ? "null" : json_string(state_name(*how));
        found += "}\n";
    }
    return found;
}

Outcome collect_sockets(int process, const std::set<std::uint64_t> &inodes, std::uint64_t cap,
                        const Deadline &deadline) {
    Outcome outcome;
    if (inodes.empty())
        return outcome;
    std::string found;
    for (const auto &[file, protocol] : tables) {
        const auto text = read_proc_file(process, file, cap, [&] { return deadline.passed(); });
        if (text) {
            std::string_view whole = text->bytes;
            if (text->cut) {
                outcome.error = std::string(file) + ": cut after " + std::to_string(text->bytes.size()) + " bytes";
                whole = whole.substr(0, whole.rfind('\n') + 1); // half a number is another number
            }
            found += sockets_in(whole, protocol, inodes);
        } else if (text.error().code != ENOENT || !std::string_view(file).ends_with('6')) { // a kernel without IPv6
            outcome.ok = false;
            outcome.error = text.error().what;
        }
    }
    if (!found.empty())
        outcome.files.emplace_back("process/sockets", std::move(found));
    return outcome;
}

} // namespace incident::capture
