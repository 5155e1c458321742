#include "worker/data/token_file_dataset.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

int64_t TokenAt(absl::Span<const uint8_t> bytes, int64_t token) {
  return bytes[2 * token] | bytes[2 * token + 1] << 8;
}

absl::Status CheckTokens(const std::string& path, absl::Span<const uint8_t> bytes, int64_t vocab) {
  if (bytes.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": the file is empty"));
  if (bytes.size() % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: %d bytes is an odd size; a nanoGPT file holds 16-bit tokens (is it "
                        "text, or another format?)",
                        path, bytes.size()));
  }
  if (vocab > 65535) return absl::OkStatus();
  for (int64_t i = 0; i < static_cast<int64_t>(bytes.size() / 2); ++i) {
    if (TokenAt(bytes, i) < vocab) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: token %d at offset %d is not below the model's vocab %d; set vocab to "
                        "the tokenizer's size",
                        path, TokenAt(bytes, i), i, vocab));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenFileDataset>> TokenFileDataset::Open(const std::string& path,
                                                                         int64_t vocab) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (absl::IsNotFound(file.status())) {
    return absl::NotFoundError(absl::StrCat(
        path, ": no such file on this worker (relative paths begin at the worker's data folder)"));
  }
  LH_RETURN_IF_ERROR(file.status());
  LH_RETURN_IF_ERROR(CheckTokens(path, file->bytes(), vocab));
  return std::unique_ptr<TokenFileDataset>(new TokenFileDataset(*std::move(file)));
}

void TokenFileDataset::Read(int64_t first, absl::Span<int64_t> out) const {
  LH_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tokens(),
           "read past the data");
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = TokenAt(file_.bytes(), first + static_cast<int64_t>(i));
}

}  // namespace longhaul
