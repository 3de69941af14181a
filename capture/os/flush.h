// Bringing many small files to the disk at once.
//
// Measured on ext4 (virtio disk, 2 cores), 25 files of 40 kB in 3 directories with MANIFEST,
// from mkdir to the flushed rename, p50/p99 in ms:
//                                     machine idle     others' builds running, load 12-17
//   fsync one after another            2.3-3.8 / 5-9      124-160 / 160-200
//   the same on 4 threads                                   8-20 / 44-76
//   the same on 8 threads                                   8-16 / 32-68
//   syncfs                             6.0 / 229           12-20 / 66-96
//   sync_file_range, one fsync         4.3 / 7.5            8-15 / 24-40
// Each fsync waits for its turn at the disk and at a CPU; those that wait together share
// one journal commit and one device flush (jbd2; likewise the logs of XFS and ZFS).
// syncfs also waits for everybody else's dirty pages, without bound.  One fsync for all
// rests on what ext4's journal happens to take along; POSIX and btrfs promise nothing of it.
#pragma once

#include "capture/os/result.h"

#include <string>
#include <vector>

namespace incident::capture {

// Flushes each path beneath dir ("." is dir itself), several at a time.
Status flush_all(int dir, const std::vector<std::string> &paths);

} // namespace incident::capture
