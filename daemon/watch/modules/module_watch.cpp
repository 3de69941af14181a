#include "daemon/watch/modules/module_watch.h"

#include "capture/collect/collectors.h"
#include "capture/os/process_dir.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace incident::daemon {

namespace {

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t first_look_ns = 2 * second, look_every_ns = 60 * second;
constexpr std::chrono::milliseconds incident_patience{2000};

} // namespace

ModuleWatch::ModuleWatch(const WatchContext &context, const Result<std::shared_ptr<KeptModules>> &kept)
    : Watch(context) {
    if (!kept) {
        problem_ = kept.error().what;
        return;
    }
    kept_ = *kept;
    keeper_ = std::make_unique<ModuleKeeper>(context.os, kept_);
}

void ModuleWatch::apply(std::uint64_t now_ns) {
    if (keeper_)
        wake_at(now_ns + first_look_ns); // most processes make a call until then, and are watched from that on
}

std::uint64_t ModuleWatch::poll(std::uint64_t now_ns) {
    if (!keeper_)
        return never;
    for (const std::uint32_t tgid : context_.recorder.processes()) {
        const auto entry = context_.recorder.process(tgid);
        if (!entry || entry->death_ns)
            continue;
        const auto process = capture::process_of(*entry);
        if (seen_.is_new(process, {}))
            keeper_->look_at({process, entry->uid}, true);
    }
    seen_.end_look();
    kept_->note_uses();
    // Whoever maps one again that has given way is told of again, and whoever still has it is looked at again.
    if (const auto removed = kept_->counts().removed; std::exchange(removed_, removed) != removed) {
        context_.recorder.forget_modules();
        seen_.clear();
    }
    return now_ns + look_every_ns;
}

// Its next call would tell, if it makes one.
void ModuleWatch::watched(const capture::Subject &process) {
    if (keeper_)
        keeper_->look_at(process, false);
}

bool ModuleWatch::tend(std::uint64_t) {
    if (keeper_)
        for (const bpf::module_key &key : keeper_->take_missed())
            context_.recorder.forget_module(key);
    return false;
}

std::optional<bool> ModuleWatch::take(const bpf::event_header &header, std::span<const std::uint8_t> bytes) {
    bpf::module_event event;
    if (header.kind != bpf::EVENT_MODULE || bytes.size() < sizeof event)
        return std::nullopt;
    std::memcpy(&event, bytes.data(), sizeof event);
    if (keeper_) {
        constexpr unsigned minor_bits = 20; // MKDEV, include/linux/kdev_t.h
        kept_->doubt(event.key.device >> minor_bits, event.key.device & ((1u << minor_bits) - 1), event.key.inode);
        keeper_->mapped({capture::process_of(header), event.uid}, capture::UserAddress(event.start), event.key);
    }
    return true;
}

void ModuleWatch::add_context(const FiredIncident &incident) const {
    if (!kept_)
        return;
    incident.input.kept_copy_of = [kept = kept_](const capture::Mapping &mapping) { return kept->copy_of(mapping); };
    const auto &event = incident.input.process.event;
    if (event.h.tgid == 0)
        return;
    incident.late.push_back([kept = kept_, os = context_.os](capture::IncidentInput &input) {
        if (input.light)
            return;
        const capture::Subject subject{capture::process_of(input.process.event.h), input.process.event.uid};
        // One that has ended has nothing to look at any more; what is not copied for another reason is counted.
        const auto looked = capture::within<bool>(subject, capture::patience_with(subject, incident_patience),
                                                  [kept, os, subject]() -> Result<bool> {
                                                      auto done = kept->look_at(os, subject, {.at = {}, .gone = true});
                                                      if (!done && done.error().code == EBUSY)
                                                          return fail(std::move(done.error()));
                                                      return done.has_value();
                                                  });
        if (!looked)
            input.losses.push_back(
                {"copies of mapped files", "looking for those that are gone " + looked.error().what, 1});
    });
}

void ModuleWatch::add_status(nlohmann::ordered_json &status) const {
    if (!keeper_) {
        status["modules"] = {{"problem", problem_}};
        return;
    }
    const auto counts = kept_->counts();
    const auto keeper = keeper_->counts();
    status["modules"] = {{"copies", counts.copies},     {"bytes", counts.bytes},   {"removed", counts.removed},
                         {"not_kept", counts.not_kept}, {"missed", keeper.missed}, {"waiting", keeper.waiting},
                         {"problem", counts.problem}};
}

} // namespace incident::daemon
