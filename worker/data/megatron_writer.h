// Writes Megatron-LM's PREFIX.bin and PREFIX.idx (megatron_index.h), one document after another. The
// .idx comes last, so that a pair of names is there only when it is whole (NewFile). Not thread-safe.
// Memory: 12 bytes for each document.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/io/filesystem.h"
#include "common/io/new_file.h"

namespace longhaul {

class MegatronWriter {
 public:
  // Replaces what is there. `vocab`: above every token; chooses 1, 2 or 4 bytes for each.
  static absl::StatusOr<std::unique_ptr<MegatronWriter>> Create(const std::string& prefix,
                                                                int64_t vocab);
  // Of the document at hand. The system's error: the disk is full.
  absl::Status Append(absl::Span<const int32_t> tokens);
  absl::Status EndDocument();
  // Both files are durable and have their names. The last call.
  absl::Status Finish();

  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return static_cast<int64_t>(documents_.size()); }

 private:
  MegatronWriter(std::unique_ptr<FileSystem> fs, std::string prefix, int width, NewFile tokens);
  absl::Status Flush();
  void EndSequence();

  const std::unique_ptr<FileSystem> fs_;
  const std::string prefix_;
  const int width_;
  NewFile file_;  // The .bin.
  std::string buffer_;
  int64_t tokens_ = 0, sequence_tokens_ = 0;
  std::vector<int32_t> sequences_;  // Tokens of each.
  std::vector<int64_t> documents_;  // Sequences up to the end of each.
};

}  // namespace longhaul
