// What a job's store must know to apply its rounds again after a crash. Fixed when the job is
// created.
#pragma once

#include <cstdint>
#include <vector>

#include "common/codec/codec.h"

namespace longhaul {

struct JobStoreOptions {
  std::vector<int64_t> fragment_elements;  // 1 to 65,536 fragments, each of 1 to 2^40 elements.
  CodecOptions down = {.kind = CodecKind::kE3m0};
  double outer_lr = 0.7;        // (0, 1024].
  double outer_momentum = 0.5;  // [0, 1 - 2^-20].
  int64_t snapshot_every = 32;  // Rounds of a fragment between two snapshots of it. At least 1.
  int checkpoints_keep = 3;     // At least 1.
  // Preallocated; a larger frame gets a file of its own size. At least 4096.
  int64_t log_file_bytes = 64 << 20;
  // Any number that pools cannot guess: keeps their bytes from being taken for frames of the log.
  uint64_t log_salt = 0;
};

// A size for the log's files of a job with so many elements in all: 1 to 64 MiB, so that many small
// jobs take little space and a large one does not change files all the time.
inline int64_t LogFileBytesFor(int64_t elements) {
  int64_t bytes = 1 << 20;
  while (bytes < (64 << 20) && bytes < elements) bytes *= 2;
  return bytes;
}

}  // namespace longhaul
