#include "worker/data/content_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/io/file_content.h"
#include "common/io/read_only_file.h"
#include "worker/data/byte_stream.h"
#include "worker/data/token_files.h"

namespace longhaul {
namespace {

constexpr int64_t kProbeBytes = 4096, kProbes = 16;
// Ids of 32 bits have a small upper half: vocabularies have at most 2^20 tokens.
constexpr uint16_t kUpperHalfMax = 15;
// So many ids are evidence, if so many of them are larger.
constexpr int64_t kWideIds = 256, kLargerShare = 64;
// So many bytes that read as text are no ids by chance.
constexpr uintmax_t kTextBytes = 64;
constexpr int64_t kEndsSampled = 256, kEndsLeast = 16;

absl::Status Is(const std::string& path, const FileContent& content, absl::string_view next) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is ", content.what, next.empty() ? "" : absl::StrCat(": ", next)));
}

bool IsOfTokens(SourceKind kind) {
  return kind == SourceKind::kNanoGpt || kind == SourceKind::kLlmc;
}

// What to use for such a file in place of this source.
std::string NextStep(const FileContent& content, SourceKind kind) {
  switch (content.form) {
    case FileForm::kText:
      return "use data.text";
    case FileForm::kJsonl:
      return "use data.jsonl, with the field that holds the text";
    case FileForm::kJson:
      return kind == SourceKind::kJsonl || kind == SourceKind::kChat
                 ? "write each document as an object on a line of its own, for example with "
                   "jq -c '.[]'"
                 : "use data.jsonl, with a document as an object on each line";
    case FileForm::kTokenizer:
      return "name it as the tokenizer of a source";
    case FileForm::kTable:
      if (kind == SourceKind::kChat)
        return "write its rows as JSONL, for example with to_json of the package datasets";
      return "python3 -m longhaul.tokenize --field COLUMN makes tokens of it, for data.megatron";
    case FileForm::kPacked:
      return "unpack it: token files are read as they are";
    case FileForm::kBinary:
      return "files of tokens are read by data.tokens or data.megatron";
    default:
      return content.hint;
  }
}

// Text has no NUL byte. Looks in the middle and at the end of a file, too.
absl::StatusOr<std::optional<int64_t>> FindNul(const std::string& path) {
  LH_ASSIGN_OR_RETURN(const ReadOnlyFile file, ReadOnlyFile::Open(path));
  std::vector<uint8_t> bytes(std::min(kProbeBytes, file.size()));
  for (const int64_t at : {int64_t{0}, file.size() / 2, file.size() - kProbeBytes}) {
    const int64_t from = std::clamp<int64_t>(at, 0, file.size() - bytes.size());
    LH_RETURN_IF_ERROR(file.Read(from, absl::MakeSpan(bytes)));
    const auto found = std::find(bytes.begin(), bytes.end(), 0);
    if (found != bytes.end()) return from + (found - bytes.begin());
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<DataWarning>> CheckText(const SourceOptions& source,
                                                   const std::string& file,
                                                   const FileContent& content) {
  constexpr char kAsIs[] = "; as_is: true trains on its bytes as they are";
  if (content.form == FileForm::kJson)
    return std::vector<DataWarning>{
        {kJsonAsText,
         absl::StrCat(file, ": is one JSON document: all of it is text to this source")}};
  if (content.form != FileForm::kText && content.form != FileForm::kEmpty)
    return Is(file, content, absl::StrCat(NextStep(content, source.kind), kAsIs));
  LH_ASSIGN_OR_RETURN(const Compression compression, CompressionOf(file));
  if (compression != Compression::kNone) return std::vector<DataWarning>();
  LH_ASSIGN_OR_RETURN(const std::optional<int64_t> nul, FindNul(file));
  if (!nul.has_value()) return std::vector<DataWarning>();
  return absl::InvalidArgumentError(absl::StrCat(file, ": has a NUL byte (at byte ", *nul,
                                                 "), which text does not have: it is damaged, or ",
                                                 "not text", kAsIs));
}

// How wide the ids of a file without header seem to be, if these are read with `width` bits.
absl::StatusOr<int> SeemingWidth(const ReadOnlyFile& file, int width) {
  int64_t ids = 0, larger_low = 0, larger_upper = 0, larger_third = 0, larger_fourth = 0;
  uint16_t upper = 0;
  std::array<uint16_t, kProbeBytes / 2> words;
  for (int64_t probe = 0; probe < kProbes; ++probe) {
    // At a multiple of the widest id.
    const int64_t at = file.size() / kProbes * probe / 8 * 8;
    const int64_t bytes = std::min(kProbeBytes, file.size() - at) / 8 * 8;
    LH_RETURN_IF_ERROR(
        file.Read(at, {reinterpret_cast<uint8_t*>(words.data()), static_cast<size_t>(bytes)}));
    for (int64_t i = 0; i < bytes / 2; i += 4) {
      ids += 2;
      larger_low += (words[i] > kUpperHalfMax) + (words[i + 2] > kUpperHalfMax);
      larger_upper += (words[i + 1] > kUpperHalfMax) + (words[i + 3] > kUpperHalfMax);
      larger_third += words[i + 2] > 0;
      larger_fourth += words[i + 3] > 0;
      upper = std::max({upper, words[i + 1], words[i + 3]});
    }
  }
  if (ids < kWideIds || larger_upper > 0 || larger_low * kLargerShare < ids) return width;
  if (larger_third == 0 && larger_fourth == 0) return 64;
  return std::max(width, 32);
}

absl::StatusOr<std::vector<DataWarning>> CheckWidth(const SourceOptions& source,
                                                    const std::string& file) {
  if (source.width != 0 || source.kind != SourceKind::kNanoGpt) return std::vector<DataWarning>();
  LH_ASSIGN_OR_RETURN(const ReadOnlyFile opened, ReadOnlyFile::Open(file));
  LH_ASSIGN_OR_RETURN(const int seems, SeemingWidth(opened, kTokenBitsDefault));
  if (seems == kTokenBitsDefault) return std::vector<DataWarning>();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: %s, as in files of %d-bit ids: set the width to %d, or to %d if its ids are really so "
      "(width of data.tokens, --width)",
      file,
      seems == 64 ? "only every fourth 16-bit word is not tiny"
                  : "every second 16-bit word is tiny",
      seems, seems, kTokenBitsDefault));
}

absl::StatusOr<std::vector<DataWarning>> CheckTokens(const SourceOptions& source,
                                                     const std::string& file,
                                                     const FileContent& content) {
  const bool llmc = source.kind == SourceKind::kLlmc;
  if (source.width != 0 || content.form == FileForm::kEmpty) return std::vector<DataWarning>();
  std::error_code ignored;
  const std::string index = MegatronPrefix(file) + ".idx";
  if (!llmc && absl::EndsWith(file, ".bin") && std::filesystem::exists(index, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": has an index next to it (", index, "), so it is Megatron-LM's: use ",
        "data.megatron; or set the width of its ids (width of data.tokens, --width) to read it ",
        "without documents"));
  }
  // OpenLlmcFile and OpenNanoGptFile tell each other's files.
  const uintmax_t bytes = std::filesystem::file_size(file, ignored);
  const bool unknown = content.form == FileForm::kBinary ||
                       (content.form == FileForm::kText && bytes < kTextBytes) ||
                       absl::StrContains(content.what, "llm.c");
  if (!unknown && (!llmc || content.form == FileForm::kAbsent))
    return Is(file, content, NextStep(content, source.kind));
  return CheckWidth(source, file);
}

absl::StatusOr<std::vector<DataWarning>> CheckMegatron(const std::string& prefix) {
  for (const char* ending : {".idx", ".bin"}) {
    const absl::StatusOr<std::string> head = ContentHeadOf(prefix + ending);
    // Opening says what is missing.
    if (head.ok()) LH_RETURN_IF_ERROR(CheckPresent(prefix + ending, *head));
  }
  return std::vector<DataWarning>();
}

// Documents of Megatron-LM end with a token that somebody appended, or forgot.
absl::StatusOr<std::string> SuspicionOfEnds(const TokenPiece& piece) {
  if (piece.documents == nullptr) return "";
  const auto& [file, index] = *piece.documents;
  std::map<int64_t, int64_t> last_tokens;
  int64_t sampled = 0;
  const int64_t count = std::min(kEndsSampled, index.documents);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t document = index.documents * i / count;
    LH_ASSIGN_OR_RETURN(const int64_t begin, MegatronDocumentStart(file, index, document));
    int64_t end = piece.count;
    if (document + 1 < index.documents) {
      LH_ASSIGN_OR_RETURN(end, MegatronDocumentStart(file, index, document + 1));
    }
    if (begin < 0 || end <= begin || end > piece.count) continue;
    int64_t token;
    LH_RETURN_IF_ERROR(ReadTokens(piece, end - 1, absl::MakeSpan(&token, 1)));
    ++last_tokens[token];
    ++sampled;
  }
  if (sampled < kEndsLeast) return "";
  const auto most = std::max_element(last_tokens.begin(), last_tokens.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  if (most->second == sampled) return "";
  if (2 * most->second < sampled) {
    return absl::StrCat(piece.file->path(),
                        ": its documents do not end with the same token: was the end token "
                        "forgotten (--append-eod of Megatron-LM)?");
  }
  return absl::StrFormat("%s: %d of %d sampled documents do not end with token %d, as others do",
                         piece.file->path(), sampled - most->second, sampled, most->first);
}

}  // namespace

absl::StatusOr<std::string> ContentHeadOf(const std::string& path) {
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> stream, ByteStream::Open(path));
  std::string head(kContentHeadBytes, '\0');
  size_t size = 0;
  while (size < head.size()) {
    const absl::StatusOr<size_t> n = stream->Read(absl::MakeSpan(head).subspan(size));
    if (n.value_or(0) == 0) break;
    size += *n;
  }
  head.resize(size);
  return head;
}

absl::StatusOr<std::vector<DataWarning>> CheckContent(const SourceOptions& source,
                                                      const std::string& file) {
  if (source.kind == SourceKind::kMegatron) return CheckMegatron(file);
  const bool tokens = IsOfTokens(source.kind);
  LH_ASSIGN_OR_RETURN(const Compression compression, CompressionOf(file));
  FileContent content;
  if (tokens && compression != Compression::kNone) {
    content = {FileForm::kPacked,
               compression == Compression::kGzip ? "compressed with gzip" : "compressed with zstd",
               ""};
  } else {
    LH_ASSIGN_OR_RETURN(const std::string head, ContentHeadOf(file));
    content = ContentOf(head);
  }
  if (content.form == FileForm::kAbsent) return Is(file, content, content.hint);
  if (source.as_is) return std::vector<DataWarning>();
  if (tokens) return CheckTokens(source, file, content);
  if (source.kind == SourceKind::kText) return CheckText(source, file, content);
  // The reader names the line of other text.
  if (content.form == FileForm::kJsonl || content.form == FileForm::kText ||
      content.form == FileForm::kEmpty)
    return std::vector<DataWarning>();
  return Is(file, content, NextStep(content, source.kind));
}

absl::StatusOr<std::vector<DataWarning>> SuspicionsOf(const TokenPiece& piece) {
  std::vector<DataWarning> suspicions;
  LH_ASSIGN_OR_RETURN(std::string of_ends, SuspicionOfEnds(piece));
  if (!of_ends.empty()) suspicions.push_back({kDocumentEnds, std::move(of_ends)});
  if (piece.offset == 0 && piece.width == 4 && piece.documents == nullptr) {
    LH_ASSIGN_OR_RETURN(const int seems, SeemingWidth(*piece.file, 32));
    if (seems == 64) {
      suspicions.push_back(
          {kIdWidth,
           absl::StrCat(piece.file->path(),
                        ": every second 32-bit word is 0, as in files of 64-bit ids: set the width "
                        "to 64, if it is one (width of data.tokens, --width)")});
    }
  }
  return suspicions;
}

}  // namespace longhaul
