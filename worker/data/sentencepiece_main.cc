// longhaul-sentencepiece MODEL: encodes texts and decodes tokens that come on standard input
// (tokenizer_protocol.h).
// A program of its own, since libsentencepiece exports the symbols of another version of protobuf
// than the one that ours are linked with: in one process their calls would mix. A broken model then
// ends only this program.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sentencepiece_processor.h"
#include "worker/data/tokenizer_protocol.h"

namespace longhaul {
namespace {

// False: the parent is gone.
bool ReadAll(void* out, size_t size) {
  for (auto* at = static_cast<char*>(out); size > 0;) {
    const ssize_t n = read(STDIN_FILENO, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= n;
  }
  return true;
}

bool WriteAll(const void* bytes, size_t size) {
  for (auto* at = static_cast<const char*>(bytes); size > 0;) {
    const ssize_t n = write(STDOUT_FILENO, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= n;
  }
  return true;
}

void Append(std::string& bytes, uint32_t word) {
  bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
}

bool Refuse(const std::string& message) {
  std::string answer;
  Append(answer, kPiecesRefused);
  Append(answer, message.size());
  answer += message;
  WriteAll(answer.data(), answer.size());
  return false;
}

bool ReadTexts(uint32_t count, std::vector<std::string>& texts) {
  if (count > kPiecesTextsMax) return false;
  texts.assign(count, "");
  uint64_t total = 0;
  for (std::string& text : texts) {
    uint32_t size;
    if (!ReadAll(&size, sizeof(size)) || (total += size) > kPiecesBytesMax) return false;
    text.resize(size);
    if (!ReadAll(text.data(), size)) return false;
  }
  return true;
}

bool Answer(const sentencepiece::SentencePieceProcessor& processor,
            const std::vector<std::string>& texts) {
  std::string answer;
  Append(answer, texts.size());
  std::vector<int> tokens;
  for (const std::string& text : texts) {
    if (!processor.Encode(text, &tokens).ok()) return false;
    Append(answer, tokens.size());
    answer.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int));
  }
  return WriteAll(answer.data(), answer.size());
}

// Tokens that the model does not have are left out: a vocabulary may be larger than its
// tokenizer's.
bool AnswerDecode(const sentencepiece::SentencePieceProcessor& processor) {
  uint32_t count;
  if (!ReadAll(&count, sizeof(count)) || count > kPiecesTokensMax) return false;
  std::vector<int> tokens(count), known;
  if (!ReadAll(tokens.data(), count * sizeof(int))) return false;
  for (const int token : tokens) {
    if (token >= 0 && token < processor.GetPieceSize()) known.push_back(token);
  }
  std::string text, answer;
  if (!processor.Decode(known, &text).ok()) return false;
  Append(answer, text.size());
  answer += text;
  return WriteAll(answer.data(), answer.size());
}

bool AnswerControl(const sentencepiece::SentencePieceProcessor& processor) {
  std::string answer;
  uint32_t count = 0;
  for (int id = 0; id < processor.GetPieceSize() && count < kPiecesControlMax; ++id) {
    const std::string& piece = processor.IdToPiece(id);
    if (!processor.IsControl(id) || piece.size() > kPiecesControlBytesMax) continue;
    Append(answer, piece.size());
    answer += piece;
    ++count;
  }
  std::string words;
  Append(words, count);
  return WriteAll(words.data(), words.size()) && WriteAll(answer.data(), answer.size());
}

// The token after a text: the model's own, or the one that is asked for by its name, else by its
// id. -1: there is none.
int EndOf(const sentencepiece::SentencePieceProcessor& processor, int argc, char** argv) {
  if (argc < 4) return processor.eos_id();
  const std::string name = argv[2];
  const int id = processor.PieceToId(name);
  if (!name.empty() && processor.IdToPiece(id) == name) return id;
  return std::atoi(argv[3]);
}

bool Run(int argc, char** argv) {
  const char* const model = argv[1];
  sentencepiece::SentencePieceProcessor processor;
  // Its status names a line of the library's source.
  if (!processor.Load(model).ok()) return Refuse("its bytes are damaged or of another format");
  std::string ready;
  Append(ready, kPiecesReady);
  Append(ready, processor.GetPieceSize());
  Append(ready, EndOf(processor, argc, argv));
  if (!WriteAll(ready.data(), ready.size())) return false;
  std::vector<std::string> texts;
  for (uint32_t word; ReadAll(&word, sizeof(word));) {
    const bool answered = word == kPiecesDecode ? AnswerDecode(processor)
                          : word == kPiecesControl
                              ? AnswerControl(processor)
                              : ReadTexts(word, texts) && Answer(processor, texts);
    if (!answered) return false;
  }
  return true;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  if (argc != 2 && argc != 4) {
    static constexpr char kUsage[] =
        "usage: longhaul-sentencepiece MODEL [END_TOKEN END_ID]; other programs start it\n";
    (void)!write(STDERR_FILENO, kUsage, sizeof(kUsage) - 1);
    return 4;
  }
  return longhaul::Run(argc, argv) ? 0 : 1;
}
