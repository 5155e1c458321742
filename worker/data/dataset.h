// Training data as one long sequence of tokens that can be read anywhere. Which windows of it a
// step trains on is not decided here (windows.h), so a dataset has no position: nothing to save and
// nothing to restore.
//
// Implementations: TextDataset (bytes of files), TokenFileDataset (nanoGPT .bin). Immutable, hence
// thread-safe. Reading may block on the disk (the files are mapped; they must not change while they
// are).
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace longhaul {

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t tokens() const = 0;
  // Copies tokens [first, first + out.size()). They are below the vocabulary that the dataset was
  // opened with.
  virtual void Read(int64_t first, absl::Span<int64_t> out) const = 0;
};

}  // namespace longhaul
