// A tokenizer in a process of its own (tokenizer_protocol.h), seen from its parent. The process
// ends with the object. Externally synchronised. Calls block: an answer is waited for 5 minutes at
// most, and a second for each 64 KiB of text. INTERNAL: it did not come; the process ended, or said
// what it must not.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace longhaul {

// Of a row of chat.
struct RenderedChat {
  std::vector<int32_t> tokens;
  // Of each token: 1 if the loss is on it, else 0.
  std::vector<uint8_t> counts;
};

class TokenizerProcess {
 public:
  struct Greeting {
    int64_t vocab = 0, eos = 0;  // kNoToken: none.
  };

  // `command`: the program, which PATH resolves if it has no slash, and its arguments. `name`: for
  // messages. NOT_FOUND: no such program; others: the system's.
  static absl::StatusOr<TokenizerProcess> Start(const std::vector<std::string>& command,
                                                std::string name);
  TokenizerProcess(TokenizerProcess&& other) noexcept;
  TokenizerProcess& operator=(TokenizerProcess&&) = delete;
  ~TokenizerProcess();

  // First, once. INVALID_ARGUMENT: it refused the model, with its words.
  absl::StatusOr<Greeting> Greet();
  // tokens[i] becomes what texts[i] is; of as many texts. INTERNAL, too: more bytes of text than
  // kPiecesBytesMax.
  absl::Status Encode(absl::Span<const std::string> texts, absl::Span<std::vector<int32_t>> tokens);
  // Of a process that was started with --chat: chats[i] becomes what rows[i] is, or
  // INVALID_ARGUMENT with why it is none; of as many rows.
  absl::Status Render(absl::Span<const std::string> rows,
                      absl::Span<absl::StatusOr<RenderedChat>> chats);
  // How the control tokens are spelled.
  absl::StatusOr<std::vector<std::string>> ControlTokens();
  // At most kPiecesTokensMax.
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens);

 private:
  explicit TokenizerProcess(std::string name);
  void WaitFor(size_t text_bytes);
  // Texts, with their number before them and `word` before that, if it is not 0.
  absl::Status SendTexts(uint32_t word, absl::Span<const std::string> texts);
  absl::Status ReceiveTokens(std::vector<int32_t>& tokens, uint32_t size, size_t most);
  absl::StatusOr<RenderedChat> ReceiveChat(size_t row_bytes, std::string& refusal);
  absl::Status Send(absl::string_view bytes);
  absl::Status Receive(void* out, size_t size);
  absl::StatusOr<uint32_t> ReceiveWord();
  absl::Status Broken(int error) const;

  std::string name_;
  pid_t pid_ = -1;
  int socket_ = -1;
  int64_t vocab_ = 0;
  int seconds_ = 0;  // That an answer is waited for.
};

}  // namespace longhaul
