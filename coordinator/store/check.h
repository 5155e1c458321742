// Verifies a data folder without using it: every digest, and that the log still gives what its
// commits say. Reads only. No other process may have the folder open (CheckNotOpen of
// sqlite_database.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/io/filesystem.h"
#include "coordinator/store/ordered_tiles.h"

namespace longhaul {

struct CheckReport {
  // One line for each fault: the file, the byte, what is wrong.
  std::vector<std::string> findings;
  // What is not a fault: torn ends of files after a crash, files that an interrupted writer left.
  std::vector<std::string> notes;
  // How many of each were read.
  int64_t jobs = 0, log_frames = 0, rounds = 0, snapshots = 0, checkpoints = 0, uploads = 0;
  // All counts in one line, without the findings and notes.
  std::string Summary() const;
};

// Checks the database: its write-ahead log, its pages, and whether database and folders agree on
// the jobs. Checks of each job: the manifest, every frame of the log, every snapshot, every round
// since the older snapshots (applied again), and the files of every checkpoint. Checks every whole
// upload. Memory: 12 bytes for each element of the largest job.
CheckReport CheckDataFolder(FileSystem& fs, const std::string& data_dir,
                            int threads = TileThreads());

}  // namespace longhaul
