// What a job's store needs to apply its rounds again after a crash. It is fixed when the job is
// created.
#pragma once

#include <cstdint>
#include <vector>

#include "common/codec/codec.h"

namespace longhaul {

struct JobStoreOptions {
  // 1 to 65,536 fragments, each of 1 to 2^40 elements.
  std::vector<int64_t> fragment_elements;
  CodecOptions down = {.kind = CodecKind::kE3m0};
  // In (0, 1024].
  double outer_lr = 0.7;
  // In [0, 1 - 2^-20].
  double outer_momentum = 0.5;
  // How many rounds of a fragment lie between two snapshots of it. At least 1.
  int64_t snapshot_every = 32;
  // At least 1.
  int checkpoints_keep = 3;
  // The size with which files of the log are preallocated; a larger frame gets a file of its own
  // size. At least 4096.
  int64_t log_file_bytes = 64 << 20;
  // A number that pools cannot guess. It keeps their bytes from being taken for frames of the log.
  uint64_t log_salt = 0;
  // Selects the random numbers of a downlink that rounds stochastically.
  uint64_t noise_seed = 0;
};

// A size for the log's files of a job with so many elements in all: 1 to 64 MiB. So many small jobs
// take little space, and a large job does not change files often.
inline int64_t LogFileBytesFor(int64_t elements) {
  int64_t bytes = 1 << 20;
  while (bytes < (64 << 20) && bytes < elements) bytes *= 2;
  return bytes;
}

}  // namespace longhaul
