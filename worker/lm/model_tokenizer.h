// Which tokenizer the texts of a model go through.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/lm/model_source.h"

namespace longhaul {

struct TokenizerChoice {
  std::string file;    // A tokenizer.json or a SentencePiece model. Empty: tokens are bytes.
  bool named = false;  // By --tokenizer or --bytes; or the vocabulary is that of bytes.
};

// `asked` (--tokenizer): a file or its folder; empty: the one beside the model, if its vocabulary is
// not that of bytes. `bytes` (--bytes): none. `option`: what needs it, for messages. NOT_FOUND: there
// is none, and what to give.
absl::StatusOr<TokenizerChoice> ChooseTokenizer(const std::string& asked, bool bytes,
                                                const ModelSource& source,
                                                const std::string& option);

}  // namespace longhaul
