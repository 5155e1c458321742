// Verifies a data folder without using it: every digest, and that the log still gives what its
// commits say. Reads only; nothing else may have the folder open (CheckNotOpen of
// sqlite_database.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/io/filesystem.h"
#include "coordinator/store/ordered_tiles.h"

namespace longhaul {

struct CheckReport {
  std::vector<std::string> findings;  // One line each: the file, the byte, what is wrong.
  // What is no fault: tails that a crash tore, files that an interrupted writer left.
  std::vector<std::string> notes;
  int64_t jobs = 0, log_frames = 0, rounds = 0, snapshots = 0, checkpoints = 0;  // That were read.
  // All of the above but the findings and notes, in one line.
  std::string Summary() const;
};

// The database (its write-ahead log, its pages, whether it and the folders know of each other); of
// each job the manifest, every frame of the log, every snapshot, every round since the older
// snapshots applied again, every checkpoint's files. Memory: 12 bytes an element of one job.
CheckReport CheckDataFolder(FileSystem& fs, const std::string& data_dir,
                            int threads = TileThreads());

}  // namespace longhaul
