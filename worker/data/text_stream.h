// The text of tokens that come one after another, as it becomes certain. Externally synchronised.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/data/tokenizer.h"

namespace longhaul {

class TextStream {
 public:
  // `tokenizer` outlives it. `before`: tokens whose text is known; how a text goes on depends on
  // them.
  TextStream(Tokenizer* tokenizer, absl::Span<const int64_t> before);

  // What is new with this token. A character that is not whole waits for the next ones. Errors: of
  // the tokenizer.
  absl::StatusOr<std::string> Append(int64_t token);
  // What waits still.
  absl::StatusOr<std::string> Finish();

 private:
  absl::StatusOr<std::string> New(bool whole);

  Tokenizer* tokenizer_;
  // The newest tokens: those before given_ have been given out as text, the others not.
  std::vector<int32_t> tokens_;
  size_t given_ = 0;
};

}  // namespace longhaul
