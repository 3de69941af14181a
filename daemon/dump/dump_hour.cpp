#include "daemon/dump/dump_hour.h"

#include "capture/os/dir_at.h"
#include "rules/model/hourly_share.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <span>

namespace incident::daemon {

namespace {

constexpr std::uint64_t hour_ns = 3600ull * 1'000'000'000;
constexpr const char *file_name = "dumps", *partial_name = ".dumps.partial";
constexpr std::uint64_t most_bytes = 64 << 10; // a thousand places, the most that may be configured, take half of it
constexpr std::int32_t lent_at_once = 1;
constexpr std::uint64_t event_comes_ns = 5'000'000'000; // if at all

} // namespace

DumpHour::DumpHour(std::uint32_t limit, std::int32_t *allowance) : limit_(limit), allowance_(allowance) {
    if (allowance_)
        std::atomic_ref(*allowance_).store(0);
}

Status DumpHour::keep_in(const std::string &state, std::string boot_id, std::uint64_t now_ns) {
    state_ = UniqueFd(::open(state.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!state_)
        return fail(Error::system("opening " + state));
    boot_id_ = std::move(boot_id);
    path_ = state + "/" + file_name;
    auto before = capture::read_regular(state_.get(), file_name, most_bytes);
    if (!before && before.error().code != ENOENT)
        return fail(std::move(before.error()).in("reading " + path_));
    if (before)
        parse(*before, now_ns);
    catch_up(now_ns);
    return {};
}

// A line each: "boot ID" first, then "sent NS USER", "maybe NS USER", and "lent" for what may be used at any time.  A
// user who is not known is left out.
void DumpHour::parse(const std::string &text, std::uint64_t now_ns) {
    std::string_view rest = text;
    const auto line = [&rest] {
        const std::size_t end = rest.find('\n');
        const std::string_view found = rest.substr(0, end);
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        return found;
    };
    if (line() != "boot " + boot_id_)
        return;
    while (!rest.empty()) {
        const std::string_view place = line();
        std::uint64_t taken_ns = now_ns; // nobody knows when, but before now
        std::optional<std::uint32_t> user;
        const bool sent = place.starts_with("sent "), maybe = place.starts_with("maybe ");
        if (const std::size_t digits = place.find(' '); digits != std::string_view::npos) {
            const char *const end = place.data() + place.size();
            const auto time = std::from_chars(place.data() + digits + 1, end, taken_ns);
            std::uint32_t whose = 0;
            if (time.ptr != end && std::from_chars(time.ptr + 1, end, whose).ec == std::errc())
                user = whose;
        }
        if (sent || maybe || place == "lent")
            taken_.push_back({std::min(taken_ns, now_ns), sent, user});
    }
    std::ranges::sort(taken_, {}, &Place::taken_ns);
}

// By rename: whoever reads it has the one before or this one.  Not flushed: only a boot could lose it, and that begins
// a fresh hour.
Status DumpHour::write() {
    if (!state_)
        return {};
    std::string text = fmt::format("boot {}\n", boot_id_);
    for (const Place &place : taken_)
        text += fmt::format("{} {}{}\n", place.certain ? "sent" : "maybe", place.taken_ns,
                            place.user ? fmt::format(" {}", *place.user) : "");
    for (std::int32_t i = 0; i < lent_; ++i)
        text += "lent\n";
    if (text == written_)
        return {};
    const UniqueFd file(
        ::openat(state_.get(), partial_name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file)
        return fail(Error::system("writing " + path_));
    auto bytes = std::span(reinterpret_cast<const std::uint8_t *>(text.data()), text.size());
    Status done = capture::write_all(file.get(), bytes);
    if (done && ::renameat(state_.get(), partial_name, state_.get(), file_name) != 0)
        done = fail(Error::system("renaming"));
    if (!done) {
        ::unlinkat(state_.get(), partial_name, 0);
        return fail(std::move(done.error()).in("writing " + path_));
    }
    written_ = std::move(text);
    return {};
}

void DumpHour::catch_up(std::uint64_t now_ns) {
    if (allowance_) {
        const std::int32_t unused = std::max(std::atomic_ref(*allowance_).load(), 0);
        for (; lent_ > unused; --lent_)
            taken_.push_back({now_ns, true, std::nullopt, true});
        for (; lent_ < unused && !taken_.empty(); ++lent_) // given back: nothing was sent
            taken_.pop_back();
    }
    while (!taken_.empty() && taken_.front().taken_ns + hour_ns <= now_ns)
        taken_.pop_front();
}

std::uint32_t DumpHour::left(std::uint64_t now_ns) {
    catch_up(now_ns);
    return limit_ - static_cast<std::uint32_t>(std::min<std::size_t>(taken_.size(), limit_));
}

std::uint64_t DumpHour::taken_by(std::uint32_t user) const {
    return static_cast<std::uint64_t>(std::ranges::count(taken_, std::optional(user), &Place::user));
}

std::set<std::uint32_t> DumpHour::barred(std::uint64_t now_ns) {
    std::set<std::uint32_t> all;
    if (left(now_ns))
        for (const Place &place : taken_)
            if (place.user && !rules::place_left(limit_, taken_.size(), taken_by(*place.user)))
                all.insert(*place.user);
    return all;
}

std::string DumpHour::spent(std::uint32_t user, std::uint64_t now_ns) {
    if (const std::uint32_t free = left(now_ns)) {
        if (const std::uint64_t own = taken_by(user); !rules::place_left(limit_, taken_.size(), own))
            return fmt::format("{} of this user were made to dump in the last hour, the {} that are left are for "
                               "others ([safety] dumps_per_hour)",
                               own, free);
        return {};
    }
    const auto sent = std::ranges::count(taken_, true, &Place::certain);
    const auto maybe = static_cast<std::ptrdiff_t>(taken_.size()) - sent;
    std::string text = fmt::format("{} were made to dump in the last hour", sent);
    if (maybe)
        text += fmt::format(", {} more may have been when incidentd was killed", maybe);
    return text + " ([safety] dumps_per_hour)";
}

Status DumpHour::take(std::uint32_t user, std::uint64_t now_ns) {
    if (const std::string none = spent(user, now_ns); !none.empty())
        return fail(none);
    if (taken_.size() + static_cast<std::size_t>(lent_) >= limit_) { // the last one is lent
        const std::atomic_ref allowance(*allowance_);
        if (allowance.fetch_sub(1) <= 0) { // the kernel side was faster
            allowance.fetch_add(1);
            return fail(spent(user, now_ns));
        }
        --lent_;
    }
    taken_.push_back({now_ns, true, user});
    if (auto noted = write(); !noted) {
        taken_.pop_back();
        return fail(std::move(noted.error()).in("it could not be noted for the next start"));
    }
    return {};
}

void DumpHour::give_back(std::uint64_t now_ns) {
    catch_up(now_ns);
    if (!taken_.empty())
        taken_.pop_back();
    (void)write(); // what cannot be noted counts as sent after a restart
}

void DumpHour::used_lent(std::uint32_t user, std::uint64_t now_ns) {
    catch_up(now_ns);
    if (const auto place = std::ranges::find(taken_, true, &Place::unread); place != taken_.end()) {
        place->unread = false;
        place->user = user;
    }
    (void)write(); // what cannot be noted is nobody's that is known
}

Status DumpHour::lend(std::uint64_t now_ns) {
    catch_up(now_ns);
    const bool unread = std::ranges::any_of(
        taken_, [&](const Place &place) { return place.unread && now_ns < place.taken_ns + event_comes_ns; });
    if (!allowance_ || unread || lent_ >= lent_at_once || taken_.size() + static_cast<std::size_t>(lent_) >= limit_)
        return write();
    ++lent_;
    if (auto noted = write(); !noted) {
        --lent_;
        return noted;
    }
    std::atomic_ref(*allowance_).fetch_add(1);
    return {};
}

void DumpHour::take_back_lent(std::uint64_t now_ns) {
    catch_up(now_ns);
    while (lent_ > 0) {
        const std::atomic_ref allowance(*allowance_);
        if (allowance.fetch_sub(1) <= 0) {
            allowance.fetch_add(1);
            catch_up(now_ns);
            break;
        }
        --lent_;
    }
    (void)write(); // what cannot be noted counts as taken after a restart
}

} // namespace incident::daemon
