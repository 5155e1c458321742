// Texts to tokens, and back. Not thread-safe, unless said.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
  // How its control tokens are spelled, for example <|endoftext|>.
  virtual std::vector<std::string> control_tokens() const { return {}; }
  // What it would make of the same text is the same if this is.
  virtual std::string identity() const = 0;
  // tokens[i] becomes what texts[i] is; without markers of beginning or end. May block.
  virtual absl::Status Encode(absl::Span<const std::string> texts,
                              std::vector<std::vector<int32_t>>& tokens) = 0;
  // The text of a part of a text's tokens; those that are not of the vocabulary are left out. May
  // block.
  virtual absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens) = 0;
};

// One token for each byte; no end of sentence. Thread-safe.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

struct PieceTokenizerOptions {
  std::string model;  // Path of a SentencePiece model.
  int processes = 1;  // Among which texts are shared.
  // The token after a text, by its name, or else by its id, of a model whose folder declares one
  // (common/hf/hf_tokenizer.h). Both empty: the model's own end of sentence. If the model has no
  // token of the name, and there is no id, its eos is kNoToken.
  std::string end_token = {};
  std::optional<int64_t> end_id = std::nullopt;
  std::string program;  // Path of longhaul-sentencepiece. Empty: beside this program.
};

// Encodes in processes of their own (sentencepiece_main.cc says why), which end with the object,
// and with the thread that calls this. An answer is waited for as TokenizerProcess says. NOT_FOUND:
// no model, or no program. INVALID_ARGUMENT: not a SentencePiece model. Encode, Decode: INTERNAL:
// a process ended or stands still.
absl::StatusOr<std::unique_ptr<Tokenizer>> StartPieceTokenizer(
    const PieceTokenizerOptions& options);

struct HfTokenizerOptions {
  std::string path;  // Of a tokenizer.json.
  // Around a text comes what the file says (a begin token, often), as a prompt has it for
  // transformers. Without: a text's own tokens, as training data has them.
  bool special_tokens = false;
  // A control token that a text spells out becomes that token. Otherwise it stays text. Prompts
  // (special_tokens) always have them.
  bool control_tokens = false;
  int threads = 1;
};

// By `python3 -m longhaul.tokenize` (deploy/python), without modules of the current folder. Its eos
// is the end token that its folder declares (common/hf/hf_tokenizer.h); of a folder that declares
// none the usual token for the end of a text, if it has one. Decode leaves special tokens out.
// NOT_FOUND: no file, no python3, or not with these packages, and what to install.
// INVALID_ARGUMENT: not a tokenizer.json, or a pointer of Git LFS in place of it. Else as above.
absl::StatusOr<std::unique_ptr<Tokenizer>> StartHfTokenizer(const HfTokenizerOptions& options);

}  // namespace longhaul
