// Whether files are what their source says, before a token of them is used. A job, `eval` and
// `longhaul data check` say the same words of the same file. Thread-safe; blocks on the disk. Every
// message begins with the path.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/data_warning.h"
#include "worker/data/file_tokens.h"
#include "worker/data/source.h"

namespace longhaul {

// `file`: one of FilesOf(source). Returns what is suspicious but not refused. INVALID_ARGUMENT: the
// file is of another format than the source, and which field to use; an archive, a pointer of Git
// LFS, the side file of another system; text is binary; ids have another width than they are read
// with (SourceOptions::width, as_is). Others: those of opening the file.
absl::StatusOr<std::vector<DataWarning>> CheckContent(const SourceOptions& source,
                                                      const std::string& file);

// What is suspicious of tokens that were opened; empty: nothing. Samples them.
absl::StatusOr<std::vector<DataWarning>> SuspicionsOf(const TokenPiece& piece);

// The first bytes of a file, decompressed: kContentHeadBytes, or all of it. Damage further on is
// left to the reader. Errors: those of ByteStream::Open.
absl::StatusOr<std::string> ContentHeadOf(const std::string& path);

}  // namespace longhaul
