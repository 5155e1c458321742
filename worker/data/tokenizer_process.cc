#include "worker/data/tokenizer_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/tokenizer.h"
#include "worker/data/tokenizer_protocol.h"

extern char** environ;

namespace longhaul {
namespace {

constexpr int kAnswerSeconds = 300;
constexpr size_t kSlowBytesPerSecond = 1 << 16;
constexpr uint32_t kPiecesMax = 1 << 24;  // Of a vocabulary.
constexpr uint32_t kMessageBytesMax = 1 << 12;
constexpr size_t kTemplateBytes = 4 << 20;  // Of a chat template.

void AppendWord(std::string& bytes, uint32_t word) {
  bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
}

}  // namespace

TokenizerProcess::TokenizerProcess(std::string name) : name_(std::move(name)) {}

TokenizerProcess::TokenizerProcess(TokenizerProcess&& other) noexcept
    : name_(std::move(other.name_)),
      pid_(std::exchange(other.pid_, -1)),
      socket_(std::exchange(other.socket_, -1)),
      vocab_(other.vocab_),
      seconds_(other.seconds_) {}

TokenizerProcess::~TokenizerProcess() {
  if (socket_ >= 0) close(socket_);
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);  // It has no state to save.
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::StatusOr<TokenizerProcess> TokenizerProcess::Start(const std::vector<std::string>& command,
                                                         std::string name) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::ErrnoToStatus(errno, "making a socket pair");
  TokenizerProcess process(std::move(name));
  process.socket_ = ends[0];
  process.WaitFor(0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int error = posix_spawnp(&process.pid_, command.front().c_str(), &actions, nullptr,
                                 arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error == 0) return process;
  process.pid_ = -1;
  return absl::ErrnoToStatus(error, absl::StrCat("starting ", command.front()));
}

absl::StatusOr<TokenizerProcess::Greeting> TokenizerProcess::Greet() {
  LH_ASSIGN_OR_RETURN(const uint32_t word, ReceiveWord());
  LH_ASSIGN_OR_RETURN(const uint32_t size, ReceiveWord());
  if (word == kPiecesRefused) {
    std::string message(std::min(size, kMessageBytesMax), '\0');
    LH_RETURN_IF_ERROR(Receive(message.data(), message.size()));
    return absl::InvalidArgumentError(message);
  }
  LH_ASSIGN_OR_RETURN(const uint32_t eos, ReceiveWord());
  if (word != kPiecesReady || size == 0 || size > kPiecesMax)
    return absl::InternalError(absl::StrCat(name_, " is of another version"));
  vocab_ = size;
  const auto signed_eos = static_cast<int32_t>(eos);
  return Greeting{.vocab = size, .eos = signed_eos < 0 ? kNoToken : signed_eos};
}

absl::Status TokenizerProcess::SendTexts(uint32_t word, absl::Span<const std::string> texts) {
  std::string request;
  if (word != 0) AppendWord(request, word);
  AppendWord(request, texts.size());
  size_t bytes = 0;
  for (const std::string& text : texts) {
    AppendWord(request, text.size());
    request += text;
    bytes += text.size();
  }
  if (bytes > kPiecesBytesMax) return absl::InternalError("a text is too long to be encoded");
  WaitFor(bytes);
  LH_RETURN_IF_ERROR(Send(request));
  LH_ASSIGN_OR_RETURN(const uint32_t count, ReceiveWord());
  return count == texts.size() ? absl::OkStatus()
                               : absl::InternalError(absl::StrCat(name_, " lost texts"));
}

absl::Status TokenizerProcess::ReceiveTokens(std::vector<int32_t>& tokens, uint32_t size,
                                             size_t most) {
  if (size > most) return absl::InternalError(absl::StrCat(name_, " made too many tokens"));
  tokens.resize(size);
  LH_RETURN_IF_ERROR(Receive(tokens.data(), size * sizeof(int32_t)));
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocab_)
      return absl::InternalError(absl::StrCat(name_, " made a token outside its vocabulary"));
  }
  return absl::OkStatus();
}

absl::Status TokenizerProcess::Encode(absl::Span<const std::string> texts,
                                      absl::Span<std::vector<int32_t>> tokens) {
  LH_RETURN_IF_ERROR(SendTexts(0, texts));
  for (size_t i = 0; i < texts.size(); ++i) {
    LH_ASSIGN_OR_RETURN(const uint32_t size, ReceiveWord());
    // Normalization may make a character longer, by bytes that are tokens at worst.
    LH_RETURN_IF_ERROR(ReceiveTokens(tokens[i], size, 32 * (texts[i].size() + 8)));
  }
  return absl::OkStatus();
}

absl::Status TokenizerProcess::Render(absl::Span<const std::string> rows,
                                      absl::Span<absl::StatusOr<RenderedChat>> chats) {
  LH_RETURN_IF_ERROR(SendTexts(kPiecesChat, rows));
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string refusal;
    LH_ASSIGN_OR_RETURN(RenderedChat chat, ReceiveChat(rows[i].size(), refusal));
    if (refusal.empty()) {
      chats[i] = std::move(chat);
    } else {
      chats[i] = absl::InvalidArgumentError(refusal);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RenderedChat> TokenizerProcess::ReceiveChat(size_t row_bytes, std::string& refusal) {
  RenderedChat chat;
  LH_ASSIGN_OR_RETURN(const uint32_t word, ReceiveWord());
  LH_ASSIGN_OR_RETURN(const uint32_t size, ReceiveWord());
  if (word == kPiecesRefused) {
    refusal.resize(std::clamp<uint32_t>(size, 1, kMessageBytesMax), ' ');
    LH_RETURN_IF_ERROR(Receive(refusal.data(), std::min(size, kMessageBytesMax)));
    return chat;
  }
  if (word != kPiecesReady)
    return absl::InternalError(absl::StrCat(name_, " is of another version"));
  // A template adds text of its own.
  LH_RETURN_IF_ERROR(ReceiveTokens(chat.tokens, size, 32 * (row_bytes + kTemplateBytes)));
  chat.counts.resize(size);
  LH_RETURN_IF_ERROR(Receive(chat.counts.data(), size));
  for (uint8_t& counts : chat.counts) counts = counts == 0 ? 0 : 1;
  return chat;
}

absl::StatusOr<std::vector<std::string>> TokenizerProcess::ControlTokens() {
  std::string request;
  AppendWord(request, kPiecesControl);
  LH_RETURN_IF_ERROR(Send(request));
  LH_ASSIGN_OR_RETURN(const uint32_t count, ReceiveWord());
  if (count > kPiecesControlMax)
    return absl::InternalError(absl::StrCat(name_, " has too many control tokens"));
  std::vector<std::string> names(count);
  for (std::string& name : names) {
    LH_ASSIGN_OR_RETURN(const uint32_t size, ReceiveWord());
    if (size > kPiecesControlBytesMax)
      return absl::InternalError(absl::StrCat(name_, " has a control token that is too long"));
    name.resize(size);
    LH_RETURN_IF_ERROR(Receive(name.data(), size));
  }
  return names;
}

absl::StatusOr<std::string> TokenizerProcess::Decode(absl::Span<const int32_t> tokens) {
  if (tokens.size() > kPiecesTokensMax) return absl::InternalError("too many tokens to be decoded");
  std::string request;
  AppendWord(request, kPiecesDecode);
  AppendWord(request, tokens.size());
  request.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t));
  LH_RETURN_IF_ERROR(Send(request));
  LH_ASSIGN_OR_RETURN(const uint32_t size, ReceiveWord());
  if (size > kPiecesBytesMax)
    return absl::InternalError(absl::StrCat(name_, " made too much text"));
  std::string text(size, '\0');
  LH_RETURN_IF_ERROR(Receive(text.data(), size));
  return text;
}

void TokenizerProcess::WaitFor(size_t text_bytes) {
  seconds_ = kAnswerSeconds + static_cast<int>(text_bytes / kSlowBytesPerSecond);
  const timeval deadline = {.tv_sec = seconds_, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline));
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &deadline, sizeof(deadline));
}

absl::Status TokenizerProcess::Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Broken(errno);
    bytes.remove_prefix(n);
  }
  return absl::OkStatus();
}

absl::Status TokenizerProcess::Receive(void* out, size_t size) {
  for (auto* at = static_cast<char*>(out); size > 0;) {
    const ssize_t n = recv(socket_, at, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Broken(n == 0 ? ECONNRESET : errno);
    at += n;
    size -= n;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> TokenizerProcess::ReceiveWord() {
  uint32_t word = 0;
  LH_RETURN_IF_ERROR(Receive(&word, sizeof(word)));
  return word;
}

absl::Status TokenizerProcess::Broken(int error) const {
  if (error == EAGAIN || error == EWOULDBLOCK) {
    return absl::InternalError(absl::StrCat(name_, " did not answer for ", seconds_, " s"));
  }
  return absl::InternalError(absl::StrCat(name_, " ended unexpectedly (is memory short?)"));
}

}  // namespace longhaul
