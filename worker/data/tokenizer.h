// Texts to tokens. Not thread-safe, unless said.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace longhaul {

inline constexpr int64_t kNoToken = -1;

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Tokens are in [0, vocab()).
  virtual int64_t vocab() const = 0;
  // Its end of sentence; kNoToken: none.
  virtual int64_t eos() const = 0;
  // What it would make of the same text is the same if this is.
  virtual std::string identity() const = 0;
  // tokens[i] becomes what texts[i] is; without markers of beginning or end. May block.
  virtual absl::Status Encode(absl::Span<const std::string> texts,
                              std::vector<std::vector<int32_t>>& tokens) = 0;
};

// One token for each byte; no end of sentence. Thread-safe.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

struct PieceTokenizerOptions {
  std::string model;    // Path of a SentencePiece model.
  int processes = 1;    // Among which texts are shared.
  std::string program;  // Path of longhaul-sentencepiece. Empty: beside this program.
};

// Encodes in processes of their own (sentencepiece_main.cc says why), which end with the object, and
// with the thread that calls this. An answer is waited for 5 minutes at most. NOT_FOUND: no model, or
// no program. INVALID_ARGUMENT: not a SentencePiece model. Encode: INTERNAL, DEADLINE_EXCEEDED: a
// process ended or stands still.
absl::StatusOr<std::unique_ptr<Tokenizer>> StartPieceTokenizer(
    const PieceTokenizerOptions& options);

}  // namespace longhaul
