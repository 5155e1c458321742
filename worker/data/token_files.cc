#include "worker/data/token_files.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "worker/data/megatron_index.h"

namespace longhaul {
namespace {

constexpr int64_t kLlmcHeaderBytes = 256 * 4;

struct LlmcKind {
  int32_t magic, version;
  int width;
};
constexpr LlmcKind kLlmcKinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

int32_t HeaderWord(absl::Span<const uint8_t> bytes, int at) {
  int32_t word;
  std::memcpy(&word, bytes.data() + at * sizeof(word), sizeof(word));
  return word;
}

absl::StatusOr<std::shared_ptr<const ReadOnlyFile>> OpenFile(const std::string& path) {
  LH_ASSIGN_OR_RETURN(ReadOnlyFile file, ReadOnlyFile::Open(path));
  if (file.size() == 0)
    return absl::InvalidArgumentError(absl::StrCat(path, ": the file is empty"));
  return std::make_shared<const ReadOnlyFile>(std::move(file));
}

// Its first bytes, as many as a header of llm.c has.
absl::StatusOr<std::vector<uint8_t>> HeadOf(const ReadOnlyFile& file) {
  std::vector<uint8_t> head(std::min(kLlmcHeaderBytes, file.size()));
  LH_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(head)));
  return head;
}

absl::Status Wrong(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

}  // namespace

absl::StatusOr<TokenPiece> OpenNanoGptFile(const std::string& path, int bits) {
  LH_ASSIGN_OR_RETURN(std::shared_ptr<const ReadOnlyFile> file, OpenFile(path));
  LH_ASSIGN_OR_RETURN(const std::vector<uint8_t> head, HeadOf(*file));
  const int64_t size = file->size();
  if (IsLlmcFile(head))
    return Wrong(path, "begins as a file of llm.c does (format: llmc of this source)");
  const int width = bits / 8;
  if (size % width != 0) {
    return Wrong(path, absl::StrFormat("%d bytes is an odd size for tokens of %d bits (is it text, "
                                       "or another format?)",
                                       size, bits));
  }
  return TokenPiece{.file = std::move(file), .count = size / width, .width = width};
}

bool IsLlmcFile(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < kLlmcHeaderBytes) return false;
  for (const LlmcKind& kind : kLlmcKinds) {
    if (HeaderWord(bytes, 0) == kind.magic && HeaderWord(bytes, 1) == kind.version) return true;
  }
  return false;
}

absl::StatusOr<TokenPiece> OpenLlmcFile(const std::string& path) {
  LH_ASSIGN_OR_RETURN(std::shared_ptr<const ReadOnlyFile> file, OpenFile(path));
  LH_ASSIGN_OR_RETURN(const std::vector<uint8_t> head, HeadOf(*file));
  if (file->size() < kLlmcHeaderBytes)
    return Wrong(path, "is shorter than the header of an llm.c file (1024 bytes)");
  for (const LlmcKind& kind : kLlmcKinds) {
    if (HeaderWord(head, 0) != kind.magic) continue;
    if (HeaderWord(head, 1) != kind.version) {
      return Wrong(path, absl::StrFormat("is an llm.c file of version %d, expected %d",
                                         HeaderWord(head, 1), kind.version));
    }
    const int64_t count = HeaderWord(head, 2);
    const int64_t body = file->size() - kLlmcHeaderBytes;
    if (count <= 0 || count * kind.width != body) {
      return Wrong(path, absl::StrFormat("its header announces %d tokens of %d bytes, but %d bytes "
                                         "follow: the file is cut off, or was added to",
                                         count, kind.width, body));
    }
    return TokenPiece{
        .file = std::move(file), .offset = kLlmcHeaderBytes, .count = count, .width = kind.width};
  }
  return Wrong(path, absl::StrFormat("does not begin as a file of llm.c does: magic %d, expected "
                                     "20240520",
                                     HeaderWord(head, 0)));
}

std::string MegatronPrefix(const std::string& path) {
  absl::string_view prefix = path;
  if (!absl::ConsumeSuffix(&prefix, ".idx")) absl::ConsumeSuffix(&prefix, ".bin");
  return std::string(prefix);
}

absl::StatusOr<MegatronFile> OpenMegatronFile(const std::string& prefix, IndexCheck check) {
  const std::string index_path = prefix + ".idx", path = prefix + ".bin";
  LH_ASSIGN_OR_RETURN(ReadOnlyFile index_file, ReadOnlyFile::Open(index_path));
  const absl::StatusOr<MegatronIndex> index = ReadMegatronIndex(index_file, check);
  if (absl::IsInvalidArgument(index.status())) return Wrong(index_path, index.status().message());
  LH_RETURN_IF_ERROR(index.status());
  LH_ASSIGN_OR_RETURN(std::shared_ptr<const ReadOnlyFile> file, OpenFile(path));
  const int64_t size = file->size();
  if (size != index->tokens * index->width) {
    return Wrong(path, absl::StrFormat("holds %d bytes, its index announces %d tokens of %d bytes",
                                       size, index->tokens, index->width));
  }
  auto documents =
      std::make_shared<const MegatronDocuments>(MegatronDocuments{std::move(index_file), *index});
  return MegatronFile{.tokens = {.file = std::move(file),
                                 .count = index->tokens,
                                 .width = index->width,
                                 .limit = index->limit,
                                 .documents = std::move(documents)},
                      .sequences = index->sequences,
                      .documents = index->documents};
}

}  // namespace longhaul
