// JSONL and text, compressed or not; text in lines and in pieces.
//   input: u8 0 JSONL, 1 text | file
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/unit/worker/data/data_files.h"
#include "worker/data/documents.h"

namespace longhaul::fuzz::documents_fuzz {
namespace {

// A small file may hold very much when it is uncompressed.
constexpr int64_t kLookedAt = 16 << 20;

void ReadDocuments(DocumentReader& documents, int64_t part_bytes_max) {
  DocumentPart part;
  int64_t bytes = 0, parts = 0;
  while (bytes < kLookedAt && parts < 10000) {
    const absl::StatusOr<bool> more = documents.Next(part);
    CheckDocumented(more.status(), {absl::StatusCode::kInvalidArgument});
    if (!more.ok() && !documents.CanGoOn()) return;
    if (more.ok() && !*more) return;
    ++parts;
    if (!more.ok()) continue;
    LH_CHECK(static_cast<int64_t>(part.text.size()) <= part_bytes_max, "parts are bounded");
    bytes += static_cast<int64_t>(part.text.size());
  }
}

}  // namespace

std::vector<Seed> Seeds() {
  const std::string lines =
      "{\"text\": \"one \\u00e9\", \"n\": [1, {\"a\": null}]}\n\n{\"text\": \"\"}\n";
  const std::string gzip = Gzip(lines), zstd = Zstd(lines);
  const auto make = [](int kind, const std::string& bytes) {
    return FuzzWriter().Byte(static_cast<uint8_t>(kind)).Bytes(bytes).Take();
  };
  return {{"jsonl", make(0, lines)},      {"broken", make(0, "{\"text\": \"a\n[]\n{}")},
          {"gzip", make(0, gzip)},        {"gzip_cut", make(0, gzip.substr(0, 40))},
          {"zstd", make(0, zstd)},        {"zstd_cut", make(1, zstd.substr(0, 30))},
          {"text", make(1, "some\ntext")}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const bool text = input.Flag();
  const absl::string_view bytes = input.Rest();
  const int file = memfd_create("documents", MFD_CLOEXEC);
  LH_CHECK(
      file >= 0 && write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
      "memory takes a file");
  const absl::Cleanup close_file = [file] { close(file); };
  const std::string path = absl::StrCat("/proc/self/fd/", file);
  constexpr int64_t kLine = 1 << 20;  // The shortest limit that a user can set.
  const auto documents = text ? OpenTextDocument(path) : OpenJsonlDocuments(path, "text", kLine);
  LH_CHECK(documents.ok(), "the file is there");
  ReadDocuments(**documents, text ? kPieceBytesMax : kLine);
  if (text) ReadDocuments(*OpenTextDocument(path, TextParts::kPieces).value(), kPieceBytesMax);
  return 0;
}

}  // namespace longhaul::fuzz::documents_fuzz
