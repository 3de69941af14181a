#include "daemon/write/retention.h"

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace incident::daemon {

namespace {

constexpr std::uint64_t incident_json_most = 8u << 20;
constexpr std::chrono::seconds longest_delay{15}; // three syncs of a ZFS pool, zfs_txg_timeout

std::uint64_t bytes_of(const capture::Bundle &bundle) {
    const auto files = bundle.manifest();
    std::uint64_t sum = 0;
    if (files)
        for (const auto &file : *files)
            sum += on_disk(file.size);
    return sum;
}

std::uint64_t free_bytes(const capture::IncidentsDir &directory) {
    struct statvfs status {};
    if (::fstatvfs(directory.fd(), &status))
        return ~0ull;
    return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

std::uint64_t missing(std::uint64_t wanted, std::uint64_t there) {
    return wanted > there ? wanted - there : 0;
}

// What removal_plan.h asks of a bundle.  Of one that cannot be read all stays unknown.
void read_contents(std::string_view incident_json, StoredBundle &bundle) {
    const auto json = nlohmann::json::parse(incident_json, nullptr, false);
    if (!json.is_object())
        return;
    const auto text_of = [](const nlohmann::json &object, const char *key) {
        const auto found = object.find(key);
        return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    bundle.signature = text_of(json, "signature");
    if (const auto alike = json.find("alike"); alike != json.end() && alike->is_object())
        if (const auto light = alike->find("light"); light != alike->end() && light->is_boolean())
            bundle.light = light->get<bool>();
    const auto process = json.find("process");
    if (process == json.end() || !process->is_object())
        return;
    bundle.exe = text_of(*process, "exe");
    if (const auto uid = process->find("uid"); uid != process->end() && uid->is_number_unsigned())
        bundle.uid = uid->get<std::uint32_t>();
}

} // namespace

Retention::Retention(capture::IncidentsDir &directory, Budget budget, GiveWay gives_way, FreeBytes free)
    : directory_(directory), budget_(budget), gives_way_(std::move(gives_way)), free_(std::move(free)),
      reserve_(directory.fd(), budget.reserve) {
    if (!free_)
        free_ = [this] { return free_bytes(directory_); };
}

bool short_of_space(const capture::IncidentsDir &directory, const Budget &budget) {
    return free_bytes(directory) < budget.keep_free;
}

// Brings known_ up to date with the directory, from which others may have removed some, and adds the coming one.
Status Retention::learn(const Coming &coming) {
    const auto names = directory_.names();
    if (!names)
        return fail(names.error());
    std::erase_if(known_, [&](const auto &known) { return !std::ranges::binary_search(*names, known.first); });
    std::erase_if(contents_known_, [&](const std::string &name) { return !known_.contains(name); });
    const auto unknown = [](const std::string &name) {
        return StoredBundle{.name = name, .bytes = 0, .signature = {}, .exe = {}, .uid = {}};
    };
    for (const std::string &name : *names) {
        if (known_.contains(name))
            continue;
        StoredBundle &stored = known_.emplace(name, unknown(name)).first->second;
        if (const auto bundle = directory_.bundle(name))
            stored.bytes = bytes_of(*bundle);
    }
    known_.emplace(coming.name, unknown(coming.name)).first->second.bytes += coming.bytes;
    return {};
}

// Only where something must go, because to read thousands takes seconds.
void Retention::learn_contents(const Coming &coming) {
    for (auto &[name, stored] : known_) {
        if (!contents_known_.insert(name).second)
            continue;
        if (name == coming.name && !coming.incident_json.empty())
            read_contents(coming.incident_json, stored);
        else if (const auto bundle = directory_.bundle(name))
            if (const auto text = bundle->read("incident.json", incident_json_most))
                read_contents(*text, stored);
    }
}

std::uint64_t Retention::used() const {
    std::uint64_t sum = 0;
    for (const auto &[name, stored] : known_)
        sum += stored.bytes;
    return sum;
}

Result<Removal> Retention::plan(const Coming &coming, Excess excess, Floor floor, bool unfinished_too) {
    if (excess.bundles == 0 && excess.bytes == 0)
        return Removal{};
    learn_contents(coming);
    const auto pinned = directory_.pinned();
    if (!pinned)
        return fail(pinned.error());
    std::vector<StoredBundle> bundles;
    bundles.reserve(known_.size());
    for (const auto &[name, stored] : known_) {
        bundles.push_back(stored);
        bundles.back().stays = name == coming.name || (!unfinished_too && unfinished_.contains(name)) ||
                               std::ranges::binary_search(*pinned, name);
    }
    return plan_removal(bundles, excess, floor);
}

// Returns how many bytes went.  One that cannot be removed does not keep the others; it is an error if none could.
Result<std::uint64_t> Retention::remove(const Removal &removal, std::string_view why) {
    const std::uint64_t before = free_();
    std::uint64_t bytes = 0;
    Status failed;
    for (const std::string &name : removal.names) {
        if (auto gone = directory_.remove(name); !gone) {
            if (gone.error().code != EBUSY && gone.error().code != ENOENT) // pinned, or removed, this moment
                failed = std::move(gone);
            continue;
        }
        spdlog::info("removed bundle {}: {}", name, why);
        bytes += known_.at(name).bytes;
        known_.erase(name);
        contents_known_.erase(name);
        ++removed_;
    }
    note_freed(bytes, before);
    if (!failed && bytes == 0)
        return fail(failed.error());
    return bytes;
}

// So many bytes were removed; those that are not free yet will be.
void Retention::note_freed(std::uint64_t bytes, std::uint64_t free_before) {
    if (const std::uint64_t late = missing(bytes, missing(free_(), free_before)); late > bytes / 2)
        delayed_.push_back({std::chrono::steady_clock::now(), late});
}

std::uint64_t Retention::have_others_give_way(std::uint64_t bytes) {
    if (bytes == 0 || !gives_way_.remove)
        return 0;
    const std::uint64_t before = free_(), given = gives_way_.remove(bytes);
    note_freed(given, before);
    return given;
}

// What is free, or will be when the file system has freed what was removed.
std::uint64_t Retention::free_soon() {
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(delayed_, [&](const Delayed &one) { return now - one.since > longest_delay; });
    std::uint64_t sum = free_();
    for (const Delayed &one : delayed_)
        sum += one.bytes;
    return sum;
}

Status Retention::make_room(const Coming &coming) {
    if (auto learnt = learn(coming); !learnt)
        return learnt;
    const auto make = [&](Excess excess, Floor floor, std::string_view why) -> Status {
        const auto removal = plan(coming, excess, floor);
        const auto removed = removal ? remove(*removal, why) : fail(removal.error());
        return removed ? Status() : fail(removed.error());
    };
    if (auto made = make({missing(known_.size(), budget_.bundles), 0}, {}, "there are more than [budget] bundles");
        !made)
        return made;
    if (auto made = make({0, missing(used(), budget_.bytes)}, {}, "they take more than [budget] bytes"); !made)
        return made;

    const auto lacking = [&] { return missing(budget_.keep_free + coming.bytes, free_soon()); };
    const Floor floor{budget_.at_least, false};
    constexpr std::string_view why = "less than [budget] keep_free is free";
    const std::uint64_t others = gives_way_.bytes ? gives_way_.bytes() : 0;
    auto removal = plan(coming, {0, missing(lacking(), others)}, floor);
    if (removal && removal->bytes >= missing(lacking(), others)) {
        have_others_give_way(lacking());
        removal = plan(coming, {0, lacking()}, floor);
    }
    if (!removal)
        return fail(removal.error());
    if (removal->bytes >= lacking()) {
        in_vain_with_.reset();
        const auto removed = remove(*removal, why);
        return removed ? Status() : fail(removed.error());
    }
    const std::uint64_t given = have_others_give_way(coming.bytes);
    if (!in_vain_with_) {
        in_vain_with_ = missing(used(), coming.bytes);
        if (budget_.keep_free != 0)
            spdlog::warn("{}: less than [budget] keep_free = {} MiB is free, and to remove incidents would not change "
                         "that: each new one takes the place of older ones",
                         directory_.path(), budget_.keep_free >> 20);
    }
    *in_vain_with_ += given;
    return make({0, missing(used(), *in_vain_with_)}, floor, why);
}

Result<bool> Retention::make_room_on_a_full_disk(const Coming &coming) {
    if (missing(coming.bytes, free_()) != 0) {
        have_others_give_way(missing(coming.bytes, free_()));
        if (missing(coming.bytes, free_()) == 0)
            return true;
    }
    const std::uint64_t lacking = missing(coming.bytes, free_());
    const Excess excess{0, lacking != 0 ? lacking : coming.bytes}; // else a quota, which is not seen
    constexpr Floor duplicates_only{UINT64_MAX, true};
    auto removal = plan(coming, excess, {budget_.at_least, true});
    if (removal && removal->bytes < excess.bytes)
        removal = plan(coming, excess, duplicates_only, true);
    if (!removal)
        return fail(removal.error());
    Result<std::uint64_t> removed = 0;
    if (removal->bytes >= excess.bytes)
        if (removed = remove(*removal, "the disk is full"); removed && *removed != 0)
            return true;
    if (reserve_.held()) {
        spdlog::warn("{}: the disk is full, and the reserve is used up for the next incidents", directory_.path());
        if (auto given = reserve_.give_up(); !given)
            return fail(given.error());
        return true;
    }
    if (!removed)
        return fail(removed.error());
    return false;
}

void Retention::hold_reserve() {
    if (auto held = reserve_.hold(free_()); !held)
        spdlog::warn("{}: {}", directory_.path(), held.error().what);
}

} // namespace incident::daemon
