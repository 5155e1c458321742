#include "worker/data/text_dataset.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return absl::NotFoundError(absl::StrCat(path,
                                            ": no such file or folder on this worker (relative "
                                            "paths begin at the worker's data folder)"));
  }
  if (!fs::is_directory(status)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  fs::directory_iterator entry(path, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;  // A dangling link is not a regular file.
    if (entry->is_regular_file(ignored)) files.push_back(entry->path().string());
  }
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot list ", path));
  std::sort(files.begin(), files.end());
  return files;
}

absl::Status CheckVocab(const std::string& path, absl::Span<const uint8_t> bytes, int64_t vocab) {
  if (vocab > 255) return absl::OkStatus();
  const auto bad =
      std::find_if(bytes.begin(), bytes.end(), [vocab](uint8_t byte) { return byte >= vocab; });
  if (bad == bytes.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: byte %d at offset %d is not below the model's vocab %d; bytes need vocab 256", path,
      *bad, bad - bytes.begin(), vocab));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TextDataset>> TextDataset::Open(const std::string& path,
                                                               int64_t vocab) {
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFiles(path));
  std::vector<MappedFile> files;
  for (const std::string& name : names) {
    LH_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(name));
    LH_RETURN_IF_ERROR(CheckVocab(name, file.bytes(), vocab));
    files.push_back(std::move(file));
  }
  std::unique_ptr<TextDataset> dataset(new TextDataset(std::move(files)));
  if (dataset->tokens() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds no text; give a file, or a folder with files directly in it"));
  }
  return dataset;
}

TextDataset::TextDataset(std::vector<MappedFile> files) : files_(std::move(files)), begins_{0} {
  for (const MappedFile& file : files_) {
    begins_.push_back(begins_.back() + static_cast<int64_t>(file.bytes().size()));
  }
}

void TextDataset::Read(int64_t first, absl::Span<int64_t> out) const {
  LH_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tokens(),
           "read past the data");
  if (out.empty()) return;
  size_t file = std::upper_bound(begins_.begin(), begins_.end(), first) - begins_.begin() - 1;
  size_t offset = first - begins_[file];
  for (size_t done = 0; done < out.size(); ++file, offset = 0) {
    const absl::Span<const uint8_t> bytes = files_[file].bytes().subspan(offset, out.size() - done);
    std::copy(bytes.begin(), bytes.end(), out.begin() + done);
    done += bytes.size();
  }
}

}  // namespace longhaul
