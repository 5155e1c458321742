// The files of a folder that a job may begin with (a checkpoint's, or a Hugging Face model's), and
// the digest that names them all. Who sends such a folder and who takes it agree by this.
//
//   list    a line for each file, by name:  name \t bytes \t SHA-256 in hexadecimal \n
//   digest  SHA-256 of the list, in hexadecimal
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/io/filesystem.h"

namespace longhaul {

// Of one folder: as many as a Hugging Face index may name, and a few.
inline constexpr size_t kFolderFilesMax = 4100;
// In a folder `tokenizer` next to a checkpoint: the list of its files.
inline constexpr char kTokenizerListFile[] = ".files";

struct FolderFile {
  std::string name;
  int64_t bytes = 0;
  // 64 lower-case hexadecimal digits.
  std::string sha256;
  friend bool operator==(const FolderFile&, const FolderFile&) = default;
};

// INVALID_ARGUMENT, in words: too many files or none; a name that is not plain, or comes twice; an
// impossible size or digest; neither manifest.json nor config.json. Pure.
absl::Status CheckFolderFiles(absl::Span<const FolderFile> files);

// Of files that CheckFolderFiles accepts, in any order. Pure.
std::string ListOfFiles(std::vector<FolderFile> files);
std::string DigestOfFiles(std::vector<FolderFile> files);
// The inverse of ListOfFiles. INVALID_ARGUMENT: it is none, or CheckFolderFiles refuses it. Pure.
absl::StatusOr<std::vector<FolderFile>> ParseListOfFiles(absl::string_view list);

// Names of the files that a job needs of a folder here, sorted: of a checkpoint if it has a
// manifest.json, else of a Hugging Face model. NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS,
// FAILED_PRECONDITION: it is neither, or is malformed; the message names the file. Blocks.
absl::StatusOr<std::vector<std::string>> FilesNeededOf(FileSystem& fs, const std::string& folder);

}  // namespace longhaul
