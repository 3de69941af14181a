// The daemon's own configuration (incidentd.toml) after parsing.
#pragma once

#include "rules/engine/storm.h"
#include "rules/model/rule.h"

#include <optional>

namespace incident::rules {

struct Config {
    struct Record {
        std::uint32_t threads = 4096;    // [record] threads: slots, i.e. threads recorded at one time; 16..1048576
        std::uint64_t calls = 56u << 20; // bytes for the calls of all threads; 64 KiB..4 GiB, and 8 KiB a thread
        std::uint64_t facts = 8u << 20;  // bytes for distinct facts of all processes; 64 KiB..1 GiB
        Nanoseconds past{std::chrono::seconds(60)}; // calls from before go first where memory is short: 1 s..24 h
        std::uint32_t processes = 8192;             // watched processes at one time; 64..1048576
        std::uint64_t ring_buffer = 4u << 20;       // bytes; a power of two, 64 KiB..256 MiB
        std::uint64_t memory_limit = 256u << 20;    // refuse to start above this
        bool all_paths = false;                     // paths = "opens" | "all": which calls' paths are kept
        bool durations = true;                      // how long calls took; without, they cost half
    } record;
    // [heap]: for processes whose rules ask for allocations = "sizes" or "history".
    struct Heap {
        std::uint64_t memory =
            256u << 20; // bytes for all these processes together; a process that does not fit is not recorded
        std::uint32_t live = 131072;   // live allocations remembered for each process; 1024..16777216
        std::uint32_t stacks = 4096;   // distinct call stacks of each; 64..65536
        std::uint32_t history = 32768; // calls kept of each, at level history; a power of two 1024..4194304
        Nanoseconds window{std::chrono::seconds(10)}; // "lately": 1 s..1 h
    } heap;
    struct Capture {
        Nanoseconds deadline{
            std::chrono::seconds(2)}; // how long a dying process's threads are waited for after its last event
        Nanoseconds core_wait{std::chrono::seconds(30)}; // how long a core's journal entry is looked for
        bool analyse = true; // explain each incident as soon as it is written: unwind and name its stacks
        // Lines of the journal that an incident has up to its trigger: 0..2000, 0: none.
        std::uint32_t journal_lines = 200;
    } capture;
    struct Budget { // of <state>/incidents
        std::uint64_t bundles = 10000;
        std::uint64_t bytes = 2ull << 30;
        std::uint64_t keep_free = 1ull << 30;
        std::uint64_t at_least = 50;        // that stay although less than keep_free is free
        std::uint64_t reserve = 16u << 20;  // space held for a full disk
        std::uint64_t modules = 256u << 20; // of copies of mapped files, in <state>/modules; 0: none is kept
    } budget;
    struct Cost { // what incidentd itself may take
        // The share of every CPU that all probes together may take, and the share of one CPU that a single probe may
        // take. nullopt: "off".
        std::optional<double> budget = 0.01;
        Nanoseconds every{std::chrono::seconds(60)}; // from measurement to measurement: 1 s..1 h
    } cost;
    struct Privacy {
        std::vector<std::string> redact; // regular expressions (RE2), replaced by "[redacted]"
    } privacy;
    struct Safety {
        bool allow_dump = false;
        std::vector<std::string> never;    // globs of comm, exe or unit
        std::uint32_t dumps_per_hour = 10; // for all rules together; 1..1000
    } safety;
    struct Access {
        std::string group; // its members may read bundles; "": only root may
    } access;
    struct Hook {
        std::string unit;            // the template started for each incident, "incident-hook@.service"; "": none
        std::uint32_t per_hour = 60; // at most this many starts; 1..100000
    } hook;
    Storm storm;                    // [storm] full, light, window
    std::string log_level = "info"; // trace debug info warn error
};

} // namespace incident::rules
