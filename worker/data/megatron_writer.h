// Writes Megatron-LM's PREFIX.bin and PREFIX.idx (megatron_index.h), one document after another.
// The .idx gets its name last, so that both names exist only if both files are complete (NewFile).
// Not thread-safe. Takes 12 bytes of memory for each document.
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
  // Replaces existing files. `vocab` is above every token, and decides whether a token takes 1, 2
  // or 4 bytes.
  static absl::StatusOr<std::unique_ptr<MegatronWriter>> Create(const std::string& prefix,
                                                                int64_t vocab);
  // Appends to the current document. Errors: the system's, for example a full disk.
  absl::Status Append(absl::Span<const int32_t> tokens);
  absl::Status EndDocument();
  // Makes both files durable and gives them their names. The last call.
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
  // The .bin.
  NewFile file_;
  std::string buffer_;
  int64_t tokens_ = 0, sequence_tokens_ = 0;
  // The number of tokens of each sequence.
  std::vector<int32_t> sequences_;
  // The number of sequences up to the end of each document.
  std::vector<int64_t> documents_;
};

}  // namespace longhaul
