// The commands of longhaul-lm. Data goes to standard output, messages for people to standard error.
// Each blocks until it is done. INVALID_ARGUMENT, NOT_FOUND: the arguments name something wrong or
// missing.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/jsonl_line.h"
#include "nlohmann/json.hpp"
#include "worker/data/documents.h"
#include "worker/lm/sampler.h"

namespace longhaul {

struct EvalArguments {
  // If `format` is empty, the name and the content of the data tell it.
  std::string model, data, format;
  // For JSONL.
  std::string field = "text";
  // For chat: a path. Empty: that of the tokenizer's folder.
  std::string chat_template;
  int line_mib_max = kLineMibDefault;
  // "refuse" or "skip".
  std::string null_rows = "refuse";
  // For text and JSONL; see SampleArguments.
  std::string tokenizer;
  bool bytes = false;
  // Tokens of a sequence. 0: the model's own context.
  int64_t context = 0;
  // 0: all tokens.
  int64_t tokens_max = 0;
  int threads = 1;
  // See data.separate_documents of a job. Absent: as the model was trained, if its folder says so.
  std::optional<bool> separate_documents;
  // For token files as in data.tokens; for text and JSONL as in data.text and data.jsonl (-1:
  // none).
  std::optional<int64_t> eos, bos;
};
// Returns {"loss": nats a token, "perplexity", "bits_per_byte" (or null), "tokens", "sequences",
// "separate_documents"}. The sequences follow each other in the data; tokens after the last whole
// sequence are not used. Text and JSONL are converted to the tokens that a job would train on, in
// the folder for temporary files. bits_per_byte counts the text's bytes in UTF-8, and the tokens at
// ends of documents.
absl::StatusOr<nlohmann::ordered_json> Evaluate(const EvalArguments& arguments);

struct SampleArguments {
  std::string model, prompt;
  // Instead of `prompt`.
  std::vector<int64_t> prompt_tokens;
  int64_t tokens_max = 200;
  SamplingOptions sampling{.temperature = 0.8, .top_p = 0.95};
  uint64_t seed = 0;
  int threads = 1;
  // The model's tokens are bytes, although its vocabulary is not 256.
  bool bytes = false;
  // A SentencePiece model, a tokenizer.json, or a folder with one. Empty: the one in the model's
  // folder.
  std::string tokenizer;
};
// Writes the prompt, and the continuation as it is generated, to `out`: as text; as numbers if
// there are prompt_tokens and no tokenizer. Ends at an end token of the model (ReadEndTokens) or of
// the tokenizer. Returns {"tokens": those of the continuation, "tokens_per_second"}.
absl::StatusOr<nlohmann::ordered_json> Sample(const SampleArguments& arguments, std::ostream& out);

struct LogitsArguments {
  std::string model, tokens, out;
  int threads = 1;
  // The token that ends a document. Attention does not go back over it.
  std::optional<int64_t> eos;
};
// Reads the int32 tokens of one sequence, and writes float32 logits [tokens, vocab]. Both files are
// little-endian and have no header. The file appears whole or not at all. Returns {"tokens",
// "vocab"}.
absl::StatusOr<nlohmann::ordered_json> WriteLogits(const LogitsArguments& arguments);

struct PredictArguments {
  // The folder of a checkpoint, and one that `longhaul graph import` made.
  std::string model, graph, out;
  // "all", "train", "valid" or "test": nodes, or of a model of links pairs.
  std::string split = "all";
  // For a model of links, instead of a split: a file of pairs (worker/data/graph/id_pairs.h).
  std::optional<std::string> pairs;
  bool embeddings = false;
  int threads = 1;
};
// Writes what a graph model says of nodes or pairs to a new folder, which appears whole or not at
// all. Of classes: predictions.csv (id, class, probability), nodes.npy (the nodes' numbers),
// probabilities.npy and, on demand, embeddings.npy; all in the order of the nodes. Returns {"job",
// "step", "folder", "split", "nodes", "labelled": how many of them have a label, "accuracy" and
// "macro_f1" over those (or null), "files"}. Of links: ids.csv and embeddings.npy of all nodes and,
// if there are pairs, predictions.csv (source, target, score, probability) and scores.npy in their
// order. Returns {"job", "step", "folder", "split", "nodes", "pairs", "linked": how many of the
// pairs are edges of the graph, in either direction, "files"}. Errors have hints.
absl::StatusOr<nlohmann::ordered_json> Predict(const PredictArguments& arguments);

}  // namespace longhaul
