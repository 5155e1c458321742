// Training data as one long sequence of tokens that can be read anywhere. Which examples of it a
// step trains on is not decided here (example_plan.h), so a dataset has no position: nothing to save
// and nothing to restore.
//
// Implementation: MappedTokens. Immutable, hence thread-safe. Reading may block on the disk (the
// files are mapped; they must not change while they are).
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
  // Copies tokens [first, first + out.size()). They are below the vocabulary that the dataset was
  // opened with, unless its files changed since.
  virtual void Read(int64_t first, absl::Span<int64_t> out) const = 0;
  // Appends the tokens of [first, end) with which a document begins, in order, each once. What tells
  // them is said by SourceOptions::documents; nothing is appended where nothing does.
  virtual void AppendDocumentStarts(int64_t first, int64_t end,
                                    std::vector<int64_t>& starts) const = 0;
  // For messages: the file in which token `at` lies, and its place there.
  virtual std::string Locate(int64_t at) const = 0;
};

}  // namespace longhaul
