// The control protocol: clients that send anything in any pieces, hang up, or stay.
#include "daemon/service/control.h"
#include "postmortem/read/json_view.h"
#include "tests/fuzz/target.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>

namespace incident::fuzz {
namespace {

using daemon::Control;

struct Server {
    Server() {
        must(::mkdtemp(directory.data()) != nullptr, "there is a directory for the socket");
        auto listening = Control::listen(directory, [this](const std::string &request) {
            ++answered;
            must(request.size() <= Control::request_max + 512 && request.find('\n') == request.npos,
                 "a request is one line within its limit");
            // Longer than a socket's buffer, so that the rest must be sent later.
            return daemon::requested_verb(request) == "status" ? std::string(400 << 10, 's') + "\n"
                                                               : std::string("{\"error\": \"unknown request\"}\n");
        });
        must(listening.has_value(), "the socket is there");
        control = new Control(std::move(*listening));
    }
    ~Server() {
        delete control;
        ::rmdir(directory.c_str());
    }
    UniqueFd connect() const {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        (directory + "/control.sock").copy(address.sun_path, sizeof address.sun_path - 1);
        UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (client && ::connect(client.get(), reinterpret_cast<sockaddr *>(&address), sizeof address))
            return {};
        return client;
    }

    std::string directory = "/tmp/incidentd-fuzz-XXXXXX";
    Control *control = nullptr;
    std::size_t answered = 0;
};

void read_some(int client) {
    static char buffer[256 << 10];
    (void)!::read(client, buffer, sizeof buffer);
}

} // namespace

// Steps: which client, what it does, and what it says.
FUZZ_TARGET(control) {
    static Server server;
    std::deque<UniqueFd> clients;
    Input bytes(input);
    for (unsigned steps = 0; !bytes.empty() && steps < 256; ++steps) {
        const auto what = bytes.number<std::uint8_t>();
        const std::size_t which = clients.empty() ? 0 : what / 8 % clients.size();
        switch (what % 8) {
        case 0:
            clients.push_back(server.connect());
            break;
        case 1:
        case 2:
            if (!clients.empty()) {
                const std::string_view said = bytes.text();
                (void)!::send(clients[which].get(), said.data(), said.size(), MSG_NOSIGNAL);
            }
            break;
        case 3:
            if (!clients.empty())
                ::shutdown(clients[which].get(), SHUT_WR);
            break;
        case 4:
            if (!clients.empty())
                clients.erase(clients.begin() + static_cast<std::ptrdiff_t>(which));
            break;
        case 5:
            if (!clients.empty())
                read_some(clients[which].get());
            break;
        case 6: // the client's side of the protocol
            if (const auto reply = postmortem::parse_json(bytes.text()))
                must_be_harmless(postmortem::dump_json(*reply), "a document that is printed is harmless");
            break;
        default:
            server.control->serve();
        }
        must(server.control->connections() <= Control::connections_max, "connections have a limit");
    }
    clients.clear();
    for (unsigned turns = 0; server.control->connections() > 0; ++turns) {
        server.control->serve();
        must(turns < 64, "clients that have gone are forgotten");
    }
}

} // namespace incident::fuzz
