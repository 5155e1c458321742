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
  // How the control tokens are spelled.
  absl::StatusOr<std::vector<std::string>> ControlTokens();
  // At most kPiecesTokensMax.
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens);

 private:
  explicit TokenizerProcess(std::string name);
  void WaitFor(size_t text_bytes);
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
