#include "daemon/probe/probe_end.h"

#include "capture/collect/collectors.h"

#include <fmt/format.h>

#include <algorithm>

namespace incident::daemon {

namespace {

using Sites = std::vector<ProbeSite>;

// The ends of a pair have no common stack pointer to be known by.
bool is_keyed(const ProbeSite &site, ProbeEnd::Kind kind) {
    return site.calls == ProbeSite::Calls::OfGoroutine ||
           (site.calls == ProbeSite::Calls::OfStack && kind == ProbeEnd::Kind::Function);
}

} // namespace

bool ProbeEnd::knows(const FileIdentity &identity) const {
    return std::ranges::any_of(files_, [&](const File &file) { return file.target.identity == identity; });
}

bool ProbeEnd::has_return_probes(const Sites &sites) {
    return std::ranges::any_of(sites, [](const ProbeSite &site) { return site.returns.empty(); });
}

// no_return_probe: why the kernel's return probes are not to be used; "": whatever runs says so.
// The reader keeps the file: one that hangs is left to it.
Result<Sites> ProbeEnd::resolve(const std::shared_ptr<TargetFile> &file, std::string no_return_probe,
                                const ProbeTools &tools) const {
    const std::string what =
        point_.kind == ProbePoint::Kind::Usdt ? point_.provider + ":" + point_.name : point_.symbol;
    const std::string path = file->path;
    auto sites = capture::within<Sites>(
        {}, resolve_patience,
        [file, point = point_, wants_return = kind_ == Kind::Function, why = std::move(no_return_probe), os = tools.os,
         abilities = tools.abilities, debug = tools.debug, switching = tools.switching]() -> Result<Sites> {
            if (point.kind == ProbePoint::Kind::Usdt)
                return find_usdt(file->fd.get(), point.provider, point.name, abilities);
            FunctionSpec spec{point.symbol, point.offset, wants_return, why};
            auto found = find_function(file->fd.get(), spec, abilities, debug);
            if (!found || !wants_return || !why.empty() || !has_return_probes(*found))
                return found;
            spec.no_return_probe = switching->of_any_with(os, {file->identity, file->path});
            return spec.no_return_probe.empty() ? std::move(found)
                                                : find_function(file->fd.get(), spec, abilities, debug);
        });
    if (!sites)
        return fail(std::move(sites.error()).in(what).in(path));
    return sites;
}

void ProbeEnd::refuse(const FileIdentity &identity, const Error &refusal) {
    if (refusal.code != EBUSY && refusals_.size() < refusals_max) // which says nothing of this file
        refusals_.emplace(identity, refusal.what);
}

Result<bool> ProbeEnd::add(TargetFile target, const ProbeTools &tools) {
    if (knows(target.identity))
        return false;
    if (const auto known = refusals_.find(target.identity); known != refusals_.end())
        return fail(known->second);
    auto file = std::make_shared<TargetFile>(std::move(target));
    auto sites = resolve(file, {}, tools);
    if (!sites) {
        refuse(file->identity, sites.error());
        return fail(std::move(sites.error()));
    }
    // Processes may still run what a deploy replaced, but not the one before that.
    if (files_.size() >= files_max) {
        detach(files_.front(), tools);
        files_.erase(files_.begin());
    }
    files_.push_back({std::move(*file), std::move(*sites), {}, {}});
    return true;
}

std::vector<TargetName> ProbeEnd::with_return_probes() const {
    std::vector<TargetName> names;
    if (kind_ == Kind::Function)
        for (const auto &file : files_)
            if (has_return_probes(file.sites))
                names.push_back({file.target.identity, file.target.path});
    return names;
}

Result<bool> ProbeEnd::avoid_return_probes(const FileIdentity &identity, const std::string &why,
                                           const ProbeTools &tools) {
    const auto file = std::ranges::find_if(
        files_, [&](const File &one) { return one.target.identity == identity && has_return_probes(one.sites); });
    if (kind_ != Kind::Function || file == files_.end())
        return false;
    // The return probes first, and each by itself: it is gone long before the kernel has done with the one before.
    const auto drop = [&](Links &links) {
        for (auto link = links.rbegin(); link != links.rend(); ++link) {
            Links one;
            one.push_back(std::move(*link));
            tools.detacher.drop(std::move(one));
        }
        links.clear();
    };
    drop(file->everywhere);
    for (auto &[pid, links] : file->by_process)
        drop(links);
    file->by_process.clear();
    auto target = std::make_shared<TargetFile>(std::move(file->target));
    auto sites = resolve(target, why, tools);
    if (!sites) {
        refuse(identity, sites.error());
        files_.erase(file);
        return fail(std::move(sites.error()));
    }
    file->target = std::move(*target);
    file->sites = std::move(*sites);
    return true;
}

bool ProbeEnd::drop_changed(const ProbeTools &tools) {
    return std::erase_if(files_, [&](File &file) {
               const auto now = identify(file.target.fd.get());
               if (now && *now == file.target.identity)
                   return false;
               detach(file, tools);
               return true;
           }) > 0;
}

// The leaving side first, so that no call is seen entered whose return is not.
Result<ProbeEnd::Links> ProbeEnd::put(const File &file, std::optional<std::uint32_t> pid,
                                      const ProbeTools &tools) const {
    Links links;
    // the link to our own descriptor is the very file that was read
    Recorder::UprobePoint point{fmt::format("/proc/self/fd/{}", file.target.fd.get()), {}, {}, pid};
    const auto attach = [&](Recorder::UprobeRole role, FileOffset offset, FileOffset semaphore,
                            std::uint64_t flags) -> Status {
        point.offset = offset;
        point.semaphore = semaphore;
        point.flags = flags;
        auto link = tools.kernel.attach(role, point, probe_);
        if (!link)
            return fail(std::move(link.error()).in(file.target.path));
        links.push_back(std::move(*link));
        return {};
    };
    for (const auto &site : file.sites) {
        Status done;
        const bool keyed = is_keyed(site, kind_);
        const std::uint64_t flags = !keyed                                    ? 0
                                    : site.calls == ProbeSite::Calls::OfStack ? BY_STACK_POINTER
                                    : kind_ == Kind::Function                 ? 0
                                                                              : OF_PAIR;
        if (kind_ == Kind::Function && site.returns.empty())
            done = attach(Recorder::UprobeRole::LeaveCall, site.offset, {}, 0);
        for (const auto offset : site.returns)
            if (done)
                done = attach(keyed ? Recorder::UprobeRole::LeaveKeyed : Recorder::UprobeRole::LeaveAtRet, offset, {},
                              flags);
        if (done && keyed)
            done = attach(kind_ == Kind::Leave ? Recorder::UprobeRole::LeaveKeyed : Recorder::UprobeRole::EnterKeyed,
                          site.offset, {}, flags);
        else if (done)
            done =
                attach(kind_ == Kind::Function ? Recorder::UprobeRole::EnterCall
                       : kind_ == Kind::Enter  ? Recorder::UprobeRole::EnterPair
                                               : Recorder::UprobeRole::LeavePair,
                       site.offset, site.semaphore, kind_ == Kind::Function && !site.returns.empty() ? KEEP_RETURN : 0);
        if (!done) {
            std::ranges::reverse(links);
            tools.detacher.drop(std::move(links));
            return fail(done.error());
        }
    }
    std::ranges::reverse(links); // detached in this order: the entering side first
    return links;
}

Status ProbeEnd::attach_everywhere(const ProbeTools &tools) {
    Status first;
    for (auto &file : files_) {
        if (!file.everywhere.empty())
            continue;
        auto links = put(file, std::nullopt, tools);
        if (!links) {
            if (first)
                first = fail(links.error());
            continue;
        }
        file.everywhere = std::move(*links);
        for (auto &[pid, old] : file.by_process)
            tools.detacher.drop(std::move(old));
        file.by_process.clear();
    }
    return first;
}

Status ProbeEnd::attach(std::uint32_t pid, const ProbeTools &tools) {
    Status first;
    for (auto &file : files_) {
        if (!file.everywhere.empty() || file.by_process.contains(pid))
            continue;
        auto links = put(file, pid, tools);
        if (links)
            file.by_process.emplace(pid, std::move(*links));
        else if (first)
            first = fail(links.error());
    }
    return first;
}

void ProbeEnd::detach(std::uint32_t pid, const ProbeTools &tools) {
    for (auto &file : files_)
        if (const auto it = file.by_process.find(pid); it != file.by_process.end()) {
            tools.detacher.drop(std::move(it->second));
            file.by_process.erase(it);
        }
}

void ProbeEnd::detach(File &file, const ProbeTools &tools) {
    tools.detacher.drop(std::move(file.everywhere));
    file.everywhere.clear();
    for (auto &[pid, links] : file.by_process)
        tools.detacher.drop(std::move(links));
    file.by_process.clear();
}

void ProbeEnd::detach_all(const ProbeTools &tools) {
    for (auto &file : files_)
        detach(file, tools);
}

bool ProbeEnd::keyed() const {
    return std::ranges::any_of(files_, [this](const File &file) {
        return std::ranges::any_of(file.sites, [this](const ProbeSite &site) { return is_keyed(site, kind_); });
    });
}

bool ProbeEnd::in_go() const {
    return std::ranges::any_of(files_, [](const File &file) {
        return std::ranges::any_of(file.sites,
                                   [](const ProbeSite &site) { return site.calls == ProbeSite::Calls::OfGoroutine; });
    });
}

bool ProbeEnd::attached() const {
    return std::ranges::any_of(files_,
                               [](const File &file) { return !file.everywhere.empty() || !file.by_process.empty(); });
}

std::string ProbeEnd::warning() const {
    for (const auto &file : files_)
        for (const auto &site : file.sites)
            if (!site.warning.empty())
                return fmt::format("{}: {}", site.function.empty() ? point_.name : site.function, site.warning);
    return {};
}

std::string ProbeEnd::note() const {
    for (const auto &file : files_)
        for (const auto &site : file.sites)
            if (!site.note.empty())
                return fmt::format("{} is {}", point_.symbol, site.note);
    return {};
}

// What is unknown is taken for dear.
CallTraps ProbeEnd::traps() const {
    CallTraps dearest;
    for (const auto &file : files_)
        for (const auto &site : file.sites) {
            CallTraps here;
            (site.price == ProbePrice::Emulated ? here.emulated : here.stepped) += 1;
            if (kind_ == Kind::Function)
                (site.returns.empty() ? here.returned : here.stepped) += 1; // a ret is single-stepped
            dearest = std::max(dearest, here);
        }
    return dearest;
}

std::vector<std::string> ProbeEnd::paths() const {
    std::vector<std::string> paths;
    paths.reserve(files_.size());
    for (const auto &file : files_)
        paths.push_back(file.target.path);
    return paths;
}

} // namespace incident::daemon
