// The tokenizer of the Hugging Face folder with which a job begins: its files, kept in the job's
// folder (TokenizerFolder) for the pools and for exports. Thread-safe for different jobs; all
// functions block on the disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/folder_files.h"
#include "common/io/filesystem.h"

namespace longhaul::coordinator {

// Copies the files to the folder of the job, durably and as a whole, with a list of them
// (kTokenizerListFile); does nothing if they are there. INVALID_ARGUMENT: the tokenizer is not the
// one of this digest (DataSpec.model_tokenizer) any more. Others: those of the files and of `fs`.
absl::Status KeepTokenizer(FileSystem& fs, const std::string& from, const std::string& digest,
                           const std::string& job_dir);

// The files in a folder of a model, or in one that was kept. FAILED_PRECONDITION: the tokenizer is
// another one. Others: those of the files.
absl::StatusOr<std::vector<FolderFile>> ListTokenizer(const std::string& folder,
                                                      const std::string& digest);

// At most `bytes_max` of a file of the list; none at its end. NOT_FOUND: no such file.
// OUT_OF_RANGE: it has fewer bytes than `offset`.
absl::StatusOr<std::string> ReadTokenizer(const std::string& folder, absl::string_view file,
                                          int64_t offset, int64_t bytes_max);

}  // namespace longhaul::coordinator
