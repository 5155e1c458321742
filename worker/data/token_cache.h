// Makes tokens from text, and keeps them in a folder as Megatron-LM's files. So they are made once
// for all ranks of a machine and for later jobs. Their name is a digest of everything that they
// depend on: the files' names, sizes and times of change, the tokenizer's bytes, the field, the
// tokens around a document. For a changed source new files are made, and the old ones are removed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/source.h"

namespace longhaul {

// Returns the prefix of the .bin and .idx for `files` of the source, whose tokenizer it is. One
// process makes them, under a lock; others wait as long as they grow. Blocks. Errors: those of
// OpenSource.
absl::StatusOr<std::string> MakeTokens(const SourceOptions& options,
                                       const SourceTokenizer& tokenizer,
                                       const std::vector<std::string>& files,
                                       const TokenWork& work);

}  // namespace longhaul
