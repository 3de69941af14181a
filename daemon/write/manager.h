// Asks the service manager to start a unit.  A process of its own does it, which can do nothing else, so that the
// daemon needs no connection to a manager that does whatever root asks for.
#pragma once

#include "daemon/os/servant.h"

#include <memory>
#include <string>

namespace incident::daemon {

// Puts the instance into "NAME@.service", escaped as systemd.unit(5) says; '/' becomes '-'.
std::string unit_of_instance(const std::string &unit, const std::string &instance);

class Manager {
public:
    // unit: the template of which instances are started.  address: the manager's D-Bus address.  Call it before other
    // threads are made.
    static Result<std::unique_ptr<Manager>> start(const std::string &unit,
                                                  const std::string &address = "unix:path=/run/systemd/private");

    // Waits until the manager has taken the request, some seconds at most.  instance: at most 255 bytes.
    Status start_unit(const std::string &instance);
    // Readable when the process that asks the manager has ended.
    int ended() const { return servant_->ended(); }

private:
    explicit Manager(std::unique_ptr<Servant> servant) : servant_(std::move(servant)) {}
    std::unique_ptr<Servant> servant_;
};

} // namespace incident::daemon
