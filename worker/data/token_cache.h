// Makes tokens from text, and keeps them in a folder as Megatron-LM's files. So they are made once
// for all ranks of a machine and for later jobs. Their name is a digest of everything that they
// depend on: the files' names, sizes and times of change, the tokenizer's bytes, the field, the
// tokens around a document. For a changed source new files are made, and the old ones are removed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/control_tokens.h"
#include "worker/data/source.h"

namespace longhaul {

// What was noticed of the text while its tokens were made.
struct TextNotes {
  int64_t null_rows = 0;
  SpelledControlTokens spelled;
};

struct MadeTokens {
  // Of the .bin and .idx.
  std::string prefix;
  // They are kept next to the tokens (PREFIX.notes).
  TextNotes notes;
};

// The tokens for `files` of the source, whose tokenizer it is. One process makes them, under a
// lock; others wait as long as they grow. Blocks. Errors: those of OpenSource.
absl::StatusOr<MadeTokens> MakeTokens(const SourceOptions& options,
                                      const SourceTokenizer& tokenizer,
                                      const std::vector<std::string>& files, const TokenWork& work);

// What decides the name of kept tokens.
struct TokenRecipe {
  // The path of the source, for messages.
  std::string source;
  // Which source it is, and how tokens are made of it. Files of the same `how` replace each other.
  std::string how;
  // What else the tokens depend on.
  std::string made_of;
};
// The same for tokens that `make` writes at a prefix, from files of so many bytes. `whole`: whether
// all files of a prefix are there.
absl::StatusOr<std::string> KeptTokens(
    const TokenRecipe& recipe, const std::vector<std::string>& files, const TokenWork& work,
    absl::FunctionRef<bool(const std::string& prefix)> whole,
    absl::FunctionRef<absl::Status(int64_t bytes, const std::string& prefix)> make);

// An error of writing there.
absl::Status OfWorkDir(const absl::Status& status);

}  // namespace longhaul
