// Brings many small files to the disk at once.
//
// Measured on ext4 (virtio disk, 2 cores), 25 files of 40 kB in 3 directories with MANIFEST,
// from mkdir to the flushed rename, p50/p99 in ms:
//                                     machine idle     others' builds running, load 12-17
//   fsync one after another            2.3-3.8 / 5-9      124-160 / 160-200
//   the same on 4 threads                                   8-20 / 44-76
//   the same on 8 threads                                   8-16 / 32-68
//   syncfs                             6.0 / 229           12-20 / 66-96
//   sync_file_range, one fsync         4.3 / 7.5            8-15 / 24-40
// Each fsync waits for the disk and for a CPU.  Those that wait together share one journal commit and one device flush
// (jbd2; the logs of XFS and ZFS do the same).  syncfs also waits for the dirty pages of all other programs, without
// limit.  One fsync for all files relies on what ext4's journal happens to write too, which POSIX and btrfs do not
// promise.
#pragma once

#include "capture/os/result.h"

#include <string>
#include <vector>

namespace incident::capture {

// Flushes each path beneath dir ("." is dir itself), several at a time.
Status flush_all(int dir, const std::vector<std::string> &paths);

} // namespace incident::capture
