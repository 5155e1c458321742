// Tokens that were made of text are kept as Megatron-LM's files in a folder, so that they are made
// once: for all ranks of a machine, and for later jobs. Their name is a digest of everything that
// they depend on: the files' names, sizes and times of change, the tokenizer's bytes, the field, the
// end of document. A changed source gets new ones, and its old ones are removed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/source.h"

namespace longhaul {

// Prefix of the .bin and .idx of the source, whose files these are. One process makes them, under a
// lock; others wait for as long as they grow. Errors: OpenSource.
absl::StatusOr<std::string> MakeTokens(const SourceOptions& options,
                                       const std::vector<std::string>& files,
                                       const TokenWork& work);

}  // namespace longhaul
