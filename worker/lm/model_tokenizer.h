// Chooses the tokenizer for a model's texts.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/lm/model_source.h"

namespace longhaul {

struct TokenizerChoice {
  // A tokenizer.json or a SentencePiece model. Empty: tokens are bytes.
  std::string file;
  // --tokenizer or --bytes named it, or the vocabulary is that of bytes.
  bool named = false;
};

// `asked` (--tokenizer) is a file or its folder. If it is empty and the vocabulary is not that of
// bytes, the tokenizer beside the model is taken. `bytes` (--bytes): tokens are bytes. `option` is
// the flag that needs the tokenizer, for messages. NOT_FOUND: there is none; the message says what
// to give.
absl::StatusOr<TokenizerChoice> ChooseTokenizer(const std::string& asked, bool bytes,
                                                const ModelSource& source,
                                                const std::string& option);

}  // namespace longhaul
