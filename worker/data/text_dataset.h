// Text, one token for each byte: a file, or the regular files of a folder joined in the order of
// their names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/io/mapped_file.h"
#include "worker/data/dataset.h"

namespace longhaul {

class TextDataset : public Dataset {
 public:
  // NOT_FOUND: no file or folder has this path. INVALID_ARGUMENT: there is no byte in it, or one is
  // not below `vocab`.
  static absl::StatusOr<std::unique_ptr<TextDataset>> Open(const std::string& path, int64_t vocab);

  int64_t tokens() const override { return begins_.back(); }
  void Read(int64_t first, absl::Span<int64_t> out) const override;

 private:
  explicit TextDataset(std::vector<MappedFile> files);

  std::vector<MappedFile> files_;
  std::vector<int64_t> begins_;  // Of each file in the joined text; then its end.
};

}  // namespace longhaul
