#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/program_beside.h"
#include "common/base/status_macros.h"
#include "common/io/digest.h"
#include "common/io/mapped_file.h"
#include "worker/data/sentencepiece_protocol.h"
#include "worker/data/tokenizer.h"

extern char** environ;

namespace longhaul {
namespace {

constexpr int kAnswerSeconds = 300;
constexpr uint32_t kPiecesMax = 1 << 24;  // Of a vocabulary.
constexpr uint32_t kMessageBytesMax = 1 << 12;

// One process and the socket to it.
class PieceProcess {
 public:
  PieceProcess() = default;
  PieceProcess(PieceProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), socket_(std::exchange(other.socket_, -1)) {}
  PieceProcess& operator=(PieceProcess&&) = delete;
  ~PieceProcess() {
    if (socket_ >= 0) close(socket_);
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);  // It holds nothing that is worth an orderly end.
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  static absl::StatusOr<PieceProcess> Start(const std::string& program, const std::string& model) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return absl::ErrnoToStatus(errno, "making a socket pair");
    PieceProcess process;
    process.socket_ = ends[0];
    const timeval deadline = {.tv_sec = kAnswerSeconds, .tv_usec = 0};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline));
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &deadline, sizeof(deadline));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const char* const arguments[] = {program.c_str(), model.c_str(), nullptr};
    const int error = posix_spawn(&process.pid_, program.c_str(), &actions, nullptr,
                                  const_cast<char* const*>(arguments), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error == 0) return process;
    process.pid_ = -1;
    return absl::ErrnoToStatus(error, absl::StrCat("starting ", program));
  }

  absl::Status Send(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Broken(errno);
      bytes.remove_prefix(n);
    }
    return absl::OkStatus();
  }
  absl::Status Receive(void* out, size_t size) {
    for (auto* at = static_cast<char*>(out); size > 0;) {
      const ssize_t n = recv(socket_, at, size, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return Broken(n == 0 ? ECONNRESET : errno);
      at += n;
      size -= n;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<uint32_t> ReceiveWord() {
    uint32_t word = 0;
    LH_RETURN_IF_ERROR(Receive(&word, sizeof(word)));
    return word;
  }

 private:
  static absl::Status Broken(int error) {
    if (error == EAGAIN || error == EWOULDBLOCK) {
      return absl::DeadlineExceededError(
          absl::StrCat("longhaul-sentencepiece did not answer for ", kAnswerSeconds, " s"));
    }
    return absl::InternalError("longhaul-sentencepiece ended unexpectedly (is memory short?)");
  }

  pid_t pid_ = -1;
  int socket_ = -1;
};

void AppendWord(std::string& bytes, uint32_t word) {
  bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
}

class PieceTokenizer : public Tokenizer {
 public:
  PieceTokenizer(std::string identity, int64_t vocab, int64_t eos,
                 std::vector<PieceProcess> processes)
      : identity_(std::move(identity)),
        vocab_(vocab),
        eos_(eos),
        processes_(std::move(processes)) {}

  int64_t vocab() const override { return vocab_; }
  int64_t eos() const override { return eos_; }
  std::string identity() const override { return identity_; }

  absl::Status Encode(absl::Span<const std::string> texts,
                      std::vector<std::vector<int32_t>>& tokens) override {
    tokens.assign(texts.size(), {});
    // Each process takes the next texts when it is done with those before.
    std::vector<std::pair<size_t, size_t>> runs = Cut(texts);
    std::vector<absl::Status> ends(processes_.size());
    std::atomic<size_t> next = 0;
    const auto work = [&](size_t p) {
      for (size_t run; ends[p].ok() && (run = next.fetch_add(1)) < runs.size();) {
        const auto [first, count] = runs[run];
        ends[p] = EncodeAt(processes_[p], texts.subspan(first, count),
                           absl::MakeSpan(tokens).subspan(first, count));
      }
    };
    std::vector<std::thread> threads;
    for (size_t p = 1; p < std::min(processes_.size(), runs.size()); ++p)
      threads.emplace_back(work, p);
    work(0);
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& end : ends) LH_RETURN_IF_ERROR(end);
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kRunBytes = 1 << 16;

  static std::vector<std::pair<size_t, size_t>> Cut(absl::Span<const std::string> texts) {
    std::vector<std::pair<size_t, size_t>> runs;
    for (size_t first = 0; first < texts.size();) {
      size_t end = first, bytes = 0;
      while (end < texts.size() && bytes < kRunBytes && end - first < kPiecesTextsMax)
        bytes += texts[end++].size();
      runs.emplace_back(first, end - first);
      first = end;
    }
    return runs;
  }

  absl::Status EncodeAt(PieceProcess& process, absl::Span<const std::string> texts,
                        absl::Span<std::vector<int32_t>> tokens) const {
    std::string request;
    AppendWord(request, texts.size());
    size_t bytes = 0;
    for (const std::string& text : texts) {
      AppendWord(request, text.size());
      request += text;
      bytes += text.size();
    }
    if (bytes > kPiecesBytesMax) return absl::InternalError("a text is too long to be encoded");
    LH_RETURN_IF_ERROR(process.Send(request));
    LH_ASSIGN_OR_RETURN(const uint32_t count, process.ReceiveWord());
    if (count != texts.size()) return absl::InternalError("longhaul-sentencepiece lost texts");
    for (size_t i = 0; i < texts.size(); ++i) {
      LH_ASSIGN_OR_RETURN(const uint32_t size, process.ReceiveWord());
      // Normalization may make a character longer, by bytes that are tokens at worst.
      if (size > 32 * (texts[i].size() + 8))
        return absl::InternalError("longhaul-sentencepiece made too many tokens");
      tokens[i].resize(size);
      LH_RETURN_IF_ERROR(process.Receive(tokens[i].data(), size * sizeof(int32_t)));
      for (const int32_t token : tokens[i]) {
        if (token < 0 || token >= vocab_)
          return absl::InternalError("longhaul-sentencepiece made a token outside its vocabulary");
      }
    }
    return absl::OkStatus();
  }

  const std::string identity_;
  const int64_t vocab_, eos_;
  std::vector<PieceProcess> processes_;
};

struct Greeting {
  int64_t vocab = 0, eos = kNoToken;
};

absl::StatusOr<Greeting> Greet(PieceProcess& process, const std::string& model) {
  LH_ASSIGN_OR_RETURN(const uint32_t word, process.ReceiveWord());
  LH_ASSIGN_OR_RETURN(const uint32_t size, process.ReceiveWord());
  if (word == kPiecesRefused) {
    std::string message(std::min(size, kMessageBytesMax), '\0');
    LH_RETURN_IF_ERROR(process.Receive(message.data(), message.size()));
    return absl::InvalidArgumentError(
        absl::StrCat(model, ": is no SentencePiece model: ", message));
  }
  LH_ASSIGN_OR_RETURN(const uint32_t eos, process.ReceiveWord());
  if (word != kPiecesReady || size == 0 || size > kPiecesMax)
    return absl::InternalError("longhaul-sentencepiece is of another version");
  const auto signed_eos = static_cast<int32_t>(eos);
  return Greeting{size, signed_eos < 0 ? kNoToken : signed_eos};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> StartPieceTokenizer(
    const PieceTokenizerOptions& options) {
  const std::string program =
      options.program.empty() ? ProgramBeside("longhaul-sentencepiece") : options.program;
  LH_ASSIGN_OR_RETURN(const MappedFile model, MappedFile::Open(options.model));
  const auto bytes = model.bytes();
  const Digest128 digest = DigestOf({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  std::vector<PieceProcess> processes;
  Greeting greeting;
  for (int i = 0; i < std::max(1, options.processes); ++i) {
    LH_ASSIGN_OR_RETURN(PieceProcess process, PieceProcess::Start(program, options.model));
    processes.push_back(std::move(process));
  }
  for (PieceProcess& process : processes) {
    LH_ASSIGN_OR_RETURN(greeting, Greet(process, options.model));
  }
  return std::make_unique<PieceTokenizer>(absl::StrCat("sentencepiece ", digest.Hex()),
                                          greeting.vocab, greeting.eos, std::move(processes));
}

}  // namespace longhaul
