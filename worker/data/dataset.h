// Training data as one long sequence of tokens, which can be read at any place. It does not decide which examples a
// step trains on (example_plan.h). So a dataset has no position, and nothing to save or restore.
//
// Implementation: MappedTokens. Immutable, so thread-safe. Reading may block on the disk. The files are mapped, and
// must not change meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace longhaul {

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t tokens() const = 0;
  // Copies tokens [first, first + out.size()). They are below the vocabulary with which the dataset was opened, unless
  // its files have changed.
  virtual void Read(int64_t first, absl::Span<int64_t> out) const = 0;
  // Appends the places in [first, end) where a document begins, ascending, each once. SourceOptions::documents says how
  // they are known. Appends nothing if they are not.
  virtual void AppendDocumentStarts(int64_t first, int64_t end,
                                    std::vector<int64_t>& starts) const = 0;
  // For messages: the file of the token at `at`, and its place there.
  virtual std::string Locate(int64_t at) const = 0;
};

}  // namespace longhaul
