// The commands of longhaul-lm. Data goes to standard output, what is for people to standard error.
// Each blocks until it is done. INVALID_ARGUMENT, NOT_FOUND: what was asked for is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "worker/lm/sampler.h"

namespace longhaul {

struct EvalArguments {
  std::string model, data, format;  // Format empty: by the name and the content of the data.
  std::string field = "text";       // Of JSONL.
  // Of text and JSONL: as in SampleArguments.
  std::string tokenizer;
  bool bytes = false;
  int64_t context = 0;     // Of a sequence. 0: the model's own.
  int64_t tokens_max = 0;  // 0: all.
  int threads = 1;
  // As data.separate_documents of a job. Absent: as the model was trained, if its folder says so.
  std::optional<bool> separate_documents;
  // As data.tokens has them of token files; eos also as data.jsonl and data.text, -1: none.
  std::optional<int64_t> eos, bos;
};
// {"loss": nats a token, "perplexity", "bits_per_byte": or null, "tokens", "sequences",
// "separate_documents"}: over sequences that lie one after another in the data; what is left behind the
// last whole one is not used. Text and JSONL become the tokens that a job's data would be, in the
// folder for temporary files. bits_per_byte is of their bytes in UTF-8, ends of documents included.
absl::StatusOr<nlohmann::ordered_json> Evaluate(const EvalArguments& arguments);

struct SampleArguments {
  std::string model, prompt;
  std::vector<int64_t> prompt_tokens;  // Instead of prompt.
  int64_t tokens_max = 200;
  SamplingOptions sampling{.temperature = 0.8, .top_p = 0.95};
  uint64_t seed = 0;
  int threads = 1;
  bool bytes = false;  // The model's tokens are bytes, though its vocabulary is not 256.
  // A SentencePiece model, a tokenizer.json, or a folder with one. Empty: that of the model's folder.
  std::string tokenizer;
};
// Writes prompt and continuation to `out` as it comes: text, but numbers after prompt_tokens without
// a tokenizer. Ends at an end token of the model (ReadEndTokens), or of the tokenizer.
// Returns {"tokens": [...] of the continuation, "tokens_per_second"}.
absl::StatusOr<nlohmann::ordered_json> Sample(const SampleArguments& arguments, std::ostream& out);

struct LogitsArguments {
  std::string model, tokens, out;
  int threads = 1;
  std::optional<int64_t> eos;  // Attention does not go back beyond it.
};
// int32 tokens of one sequence to float32 logits [tokens, vocab], both little-endian without header.
// The file appears whole or not at all. Returns {"tokens", "vocab"}.
absl::StatusOr<nlohmann::ordered_json> WriteLogits(const LogitsArguments& arguments);

}  // namespace longhaul
