// Training data as one long sequence of tokens, which can be read at any place. It does not decide
// which examples a step trains on (example_plan.h). So a dataset has no position, and nothing to
// save or restore.
//
// Implementations: FileTokens, ChatRows. Immutable, so thread-safe. Reading blocks on the disk.
// Where a file was changed, cut off or fails meanwhile, it gives DATA_LOSS with the file's name, or
// other tokens of the vocabulary.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace longhaul {

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t tokens() const = 0;
  // Copies tokens [first, first + out.size()). DATA_LOSS, with file and place: one of them is not
  // below the vocabulary with which the dataset was opened.
  virtual absl::Status Read(int64_t first, absl::Span<int64_t> out) const = 0;
  // Appends the places in [first, end) where a document begins, ascending, each once.
  // SourceOptions::documents says how they are known. Appends nothing if they are not.
  virtual absl::Status AppendDocumentStarts(int64_t first, int64_t end,
                                            std::vector<int64_t>& starts) const = 0;
  // Above 0: the data is rows of so many tokens, each of which is one example. 0: an example may
  // begin anywhere.
  virtual int64_t row() const { return 0; }
  // Whether ReadMask may give something else than 1.
  virtual bool masked() const { return false; }
  // For each token of [first, first + out.size()): 1 if the loss is on it, else 0. Errors: as Read.
  virtual absl::Status ReadMask(int64_t first, absl::Span<int64_t> out) const {
    std::fill(out.begin(), out.end(), 1);
    return absl::OkStatus();
  }
};

}  // namespace longhaul
