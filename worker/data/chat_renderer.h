// Conversations to tokens and a loss mask, through the chat template of a tokenizer's folder. By
// `python3 -m longhaul.tokenize --pipe --chat` (deploy/python/longhaul/chat.py, which says what
// counts), in a process of its own, which ends with the object. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/data/tokenizer_process.h"

namespace longhaul {

struct ChatOptions {
  // A tokenizer.json, or a folder with one. The chat template and the names of special tokens are
  // those of the folder.
  std::string tokenizer;
  // The path of a chat template in place of the folder's. Empty: none.
  std::string chat_template;
  int threads = 1;
};

class ChatRenderer {
 public:
  // NOT_FOUND: no tokenizer.json or template, no python3, or not with these packages, and what to
  // install. INVALID_ARGUMENT: the folder has no chat template, or one that is malformed.
  static absl::StatusOr<std::unique_ptr<ChatRenderer>> Start(const ChatOptions& options);

  // Tokens are in [0, vocab()).
  int64_t vocab() const { return vocab_; }
  // What it would make of the same row is the same if this is.
  const std::string& identity() const { return identity_; }
  // rows[i], a line of JSONL, becomes chats[i]; or why it cannot (INVALID_ARGUMENT, without file
  // and line). Blocks. INTERNAL: the process ended or stands still.
  absl::Status Render(absl::Span<const std::string> rows,
                      std::vector<absl::StatusOr<RenderedChat>>& chats);

 private:
  ChatRenderer(std::string identity, int64_t vocab, TokenizerProcess process);

  const std::string identity_;
  const int64_t vocab_;
  TokenizerProcess process_;
};

}  // namespace longhaul
