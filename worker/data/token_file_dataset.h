// A nanoGPT token file: unsigned 16-bit little-endian tokens, nothing else.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/io/mapped_file.h"
#include "worker/data/dataset.h"

namespace longhaul {

class TokenFileDataset : public Dataset {
 public:
  // Reads the file once, unless every 16-bit number is a token of `vocab`. NOT_FOUND: no such file.
  // INVALID_ARGUMENT: not a regular file, empty, an odd number of bytes, or a token that is not
  // below `vocab`.
  static absl::StatusOr<std::unique_ptr<TokenFileDataset>> Open(const std::string& path,
                                                                int64_t vocab);

  int64_t tokens() const override { return static_cast<int64_t>(file_.bytes().size() / 2); }
  void Read(int64_t first, absl::Span<int64_t> out) const override;

 private:
  explicit TokenFileDataset(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
};

}  // namespace longhaul
