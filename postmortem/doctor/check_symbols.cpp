// Checks whether stacks of the watched programs can be unwound and named.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"
#include "postmortem/doctor/words.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace incident::postmortem::doctor {

namespace {

bool lacks_debug_info(const ElfReport &report) {
    return report.problem.empty() && report.debug == "none";
}

// Packages in one command; whatever else brings some of it a line each.
std::string commands(const std::vector<const ElfReport *> &files) {
    constexpr std::string_view apt = "apt install ";
    std::set<std::string> packages, remarks, others;
    for (const ElfReport *file : files) {
        const std::string &install = file->install;
        const std::size_t remark = install.find(" (");
        if (!install.starts_with(apt)) {
            others.insert(install);
            continue;
        }
        packages.insert(install.substr(apt.size(), remark == install.npos ? remark : remark - apt.size()));
        if (remark != install.npos)
            remarks.insert(install.substr(remark + 2, install.size() - remark - 3));
    }
    others.erase("");
    std::string text;
    for (const std::string &package : packages)
        text += (text.empty() ? std::string(apt) : " ") + package;
    for (const std::string &remark : remarks)
        text += "   # " + remark;
    for (const std::string &other : others)
        text += (text.empty() ? "" : "\n") + other;
    return text;
}

std::vector<std::string> names(const std::vector<const ElfReport *> &files) {
    std::vector<std::string> paths;
    paths.reserve(files.size());
    for (const ElfReport *file : files)
        paths.push_back(file->path);
    return paths;
}

Findings of_kind(const Host &host, bool library) {
    std::vector<const ElfReport *> all, lacking, unread;
    for (const ElfReport &report : host.programs())
        if (report.library == library) {
            all.push_back(&report);
            if (!report.problem.empty())
                unread.push_back(&report);
            else if (lacks_debug_info(report))
                lacking.push_back(&report);
        }
    const std::string kind = library ? counted(all.size(), "library", "libraries")
                                     : counted(all.size(), "watched program", "watched programs");
    Findings findings;
    if (!unread.empty())
        findings.push_back(unknown(fmt::format("{} of {} could not be looked into: {} ({})", unread.size(), kind,
                                               some_of(names(unread)), unread.front()->problem),
                                   host.as_root()));
    if (!lacking.empty())
        findings.push_back(warn(fmt::format("none for {} of {}: {}", lacking.size(), kind, some_of(names(lacking))),
                                library
                                    ? "frames in them are named where the library exports the function, without lines"
                                    : "frames have no line and no arguments, of stripped programs often no name",
                                commands(lacking)));
    else if (all.size() > unread.size())
        findings.push_back(ok(fmt::format("for all of {}", kind)));
    return findings;
}

} // namespace

Findings check_debug_info(const Host &host) {
    if (host.programs().empty())
        return {unknown("no watched program runs that could be looked into", host.as_root())};
    Findings findings = of_kind(host, false);
    if (std::ranges::any_of(host.programs(), &ElfReport::library))
        std::ranges::move(of_kind(host, true), std::back_inserter(findings));
    if (host.programs_left_out() > 0)
        findings.push_back(unknown(fmt::format("{} more files were not looked into", host.programs_left_out())));
    return findings;
}

Findings check_debuginfod(const Host &host) {
    if (!host.debuginfod_urls.empty())
        return {ok("DEBUGINFOD_URLS=" + host.debuginfod_urls)};
    if (std::ranges::none_of(host.programs(), lacks_debug_info))
        return {ok("DEBUGINFOD_URLS is not set, and nothing that was looked into needs it")};
    return {note("DEBUGINFOD_URLS is not set",
                 "where it is, incidentctl analyse and gdb fetch the debug information that is not installed; "
                 "Debian's: export DEBUGINFOD_URLS=https://debuginfod.debian.net")};
}

// Incidents' stacks are unwound by them.
Findings check_unwind_tables(const Host &host) {
    std::vector<const ElfReport *> lacking;
    std::size_t looked = 0;
    for (const ElfReport &report : host.programs()) {
        looked += report.problem.empty();
        if (report.problem.empty() && !report.unwind_tables)
            lacking.push_back(&report);
    }
    if (!lacking.empty())
        return {
            warn(fmt::format("{} of {} have no .eh_frame: {}", lacking.size(), counted(looked, "file", "files"),
                             some_of(names(lacking))),
                 "stacks through them are followed by frame pointers where there are any, else they end there",
                 "build C, C++ and Rust with unwind tables, their compilers' default (-fasynchronous-unwind-tables)")};
    if (looked == 0)
        return {};
    return {ok(looked == 1 ? "the one file has .eh_frame" : fmt::format("all {} files have .eh_frame", looked))};
}

Findings check_frame_pointers(const Host &host) {
    std::vector<std::string> with, without;
    for (const ElfReport &report : host.programs())
        if (!report.library && report.problem.empty() && report.functions > 0)
            (report.frame_pointers * 2 > report.functions ? with : without).push_back(report.path);
    if (without.empty())
        return {};
    return {note(fmt::format("most functions of {} keep none: {}", counted(without.size(), "program", "programs"),
                             some_of(without)),
                 "incidents do without, they are unwound by .eh_frame; profilers that follow frame pointers "
                 "(perf record -g, BPF tools) show broken stacks of them")};
}

} // namespace incident::postmortem::doctor
