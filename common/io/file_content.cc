#include "common/io/file_content.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace longhaul {
namespace {

using namespace std::string_literals;  // NOLINT: for NUL bytes.

constexpr size_t kPointerBytesMax = 1024;
// Text has fewer control characters than one in so many bytes.
constexpr size_t kControlShare = 20;
constexpr char kUnpack[] = "unpack it", kConvert[] = "write its text as JSONL",
               kPackAgain[] = "unpack it, or compress it with gzip or zstd",
               kRemove[] = "remove it, or name the data files";

struct Magic {
  size_t at;
  std::string bytes;
  FileForm form;
  const char* what;
  const char* hint;
};

const std::vector<Magic>& Magics() {
  static const auto& magics = *new std::vector<Magic>{
      {0, "PAR1", FileForm::kTable, "a Parquet file", ""},
      {0, "\x1f\x8b\x08", FileForm::kPacked, "compressed with gzip", ""},
      {0, "\x28\xb5\x2f\xfd", FileForm::kPacked, "compressed with zstd", ""},
      {0, "MMIDIDX\0\0"s, FileForm::kTokens, "an index of Megatron-LM (data.megatron)", ""},
      {0, "\x88\xd8\x34\x01\x01\x00\x00\x00"s, FileForm::kTokens,
       "a file of llm.c (data.tokens, format: llmc)", ""},
      {0, "\xa1\xd9\x34\x01\x07\x00\x00\x00"s, FileForm::kTokens,
       "a file of llm.c (data.tokens, format: llmc)", ""},
      {0, "PK\x03\x04", FileForm::kOther, "a zip archive", kUnpack},
      {257, "ustar", FileForm::kOther, "a tar archive", kUnpack},
      {0, "7z\xbc\xaf\x27\x1c", FileForm::kOther, "a 7z archive", kUnpack},
      {0, "Rar!\x1a\x07", FileForm::kOther, "a RAR archive", kUnpack},
      {0, "\xfd\x37zXZ\0"s, FileForm::kOther, "compressed with xz", kPackAgain},
      {4, "1AY&SY", FileForm::kOther, "compressed with bzip2", kPackAgain},
      {0, "\x04\x22\x4d\x18", FileForm::kOther, "compressed with lz4", kPackAgain},
      {0, "ARROW1", FileForm::kOther, "an Arrow file", "write it as Parquet or JSONL"},
      {0, "Obj\x01", FileForm::kOther, "an Avro file", kConvert},
      {0, "\x93NUMPY", FileForm::kOther, "an .npy file of NumPy",
       "write its numbers alone, with array.tofile"},
      {0, "\x89HDF\r\n\x1a\n", FileForm::kOther, "an HDF5 file", kConvert},
      {0, "SQLite format 3\0"s, FileForm::kOther, "an SQLite database", kConvert},
      {0, "%PDF-", FileForm::kOther, "a PDF file", kConvert},
      {0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", FileForm::kOther, "a file of Microsoft Office",
       kConvert},
      {0, "\x89PNG\r\n\x1a\n", FileForm::kOther, "a PNG image", kRemove},
      {0, "\xff\xd8\xff", FileForm::kOther, "a JPEG image", kRemove},
      {0,
       "\x7f"
       "ELF",
       FileForm::kOther, "a program", kRemove},
      {0, "GGUF", FileForm::kOther, "a GGUF model", kRemove},
      {5, "\0\0\0{\""s, FileForm::kOther, "a safetensors file, of model weights", kRemove},
      {0, "\x80\x04\x95", FileForm::kOther, "a pickle of Python", kConvert},
      {0, "\0\x05\x16\x07"s, FileForm::kOther, "an AppleDouble side file of macOS", kRemove},
      {0, "\0\0\0\1Bud1"s, FileForm::kOther, "a side file of macOS", kRemove},
  };
  return magics;
}

FileContent Pointer(const char* what, const char* hint) { return {FileForm::kAbsent, what, hint}; }

// `{ "name" :`, with spaces and line ends anywhere. A name has no quotes within.
bool BeginsObject(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "{")) return false;
  text = absl::StripLeadingAsciiWhitespace(text);
  if (!absl::ConsumePrefix(&text, "\"")) return false;
  const size_t end = text.find('"');
  if (end == absl::string_view::npos) return false;
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(text.substr(end + 1)), ":");
}

// By the first line. One that is longer than what was read has no end here.
bool IsJsonl(absl::string_view text) {
  if (!BeginsObject(text)) return false;
  const size_t end = text.find('\n');
  const absl::string_view line = absl::StripAsciiWhitespace(text.substr(0, end));
  const bool longer = end == absl::string_view::npos && text.size() > kContentHeadBytes / 2;
  return longer || absl::EndsWith(line, "}");
}

bool IsJson(absl::string_view text) {
  if (BeginsObject(text)) return true;
  if (!absl::ConsumePrefix(&text, "[")) return false;
  text = absl::StripLeadingAsciiWhitespace(text);
  return BeginsObject(text) || absl::StartsWith(text, "\"") || absl::StartsWith(text, "[");
}

bool IsHfTokenizerText(absl::string_view text) {
  return BeginsObject(text) && absl::StrContains(text, "\"added_tokens\":") &&
         absl::StrContains(text, "\"version\":");
}

bool IsBinary(absl::string_view head) {
  size_t controls = 0;
  for (const char c : head) {
    if (c == '\0') return true;
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x20 && (byte < '\b' || byte > '\r') && byte != 0x1b) ++controls;
  }
  return controls * kControlShare > head.size();
}

}  // namespace

FileContent ContentOf(absl::string_view head) {
  head = head.substr(0, kContentHeadBytes);
  if (head.empty()) return {FileForm::kEmpty, "empty", ""};
  if (head.size() <= kPointerBytesMax) {
    if (absl::StartsWith(head, "version https://git-lfs.github.com/spec/"))
      return Pointer("a Git LFS pointer in place of the file", "run `git lfs pull` in its folder");
    if (absl::StartsWith(head, "/annex/objects/"))
      return Pointer("a git-annex pointer in place of the file", "run `git annex get` on it");
  }
  for (const Magic& magic : Magics()) {
    if (head.size() > magic.at && absl::StartsWith(head.substr(magic.at), magic.bytes))
      return {magic.form, magic.what, magic.hint};
  }
  // pzstd begins its files with a frame to be skipped.
  if (head.size() >= 4 && (head[0] & 0xf0) == 0x50 && head.substr(1, 3) == "\x2a\x4d\x18")
    return {FileForm::kPacked, "compressed with zstd", ""};
  if (head[0] == '\n' && absl::StartsWith(head.substr(std::min<size_t>(4, head.size())), "<unk>"))
    return {FileForm::kTokenizer, "a SentencePiece model", ""};
  if (IsBinary(head)) {
    if (!absl::StartsWith(head, "\xff\xfe") && !absl::StartsWith(head, "\xfe\xff"))
      return {FileForm::kBinary, "binary", ""};
    return {FileForm::kOther, "text in UTF-16",
            "convert it, for example with iconv -f UTF-16 -t UTF-8"};
  }
  absl::ConsumePrefix(&head, "\xEF\xBB\xBF");
  head = absl::StripLeadingAsciiWhitespace(head);
  if (IsHfTokenizerText(head)) return {FileForm::kTokenizer, "a Hugging Face tokenizer", ""};
  if (IsJsonl(head)) return {FileForm::kJsonl, "JSONL", ""};
  if (IsJson(head)) return {FileForm::kJson, "one JSON document", ""};
  return {FileForm::kText, "text", ""};
}

FileContent ContentOfName(absl::string_view path) {
  const absl::string_view name = path.substr(path.rfind('/') + 1);
  if (name == "tokenizer.json") return {FileForm::kTokenizer, "a Hugging Face tokenizer", ""};
  if (name == "tokenizer.model") return {FileForm::kTokenizer, "a SentencePiece model", ""};
  absl::string_view inner = name;
  if (!absl::ConsumeSuffix(&inner, ".gz")) absl::ConsumeSuffix(&inner, ".zst");
  if (absl::EndsWith(inner, ".jsonl") || absl::EndsWith(inner, ".ndjson"))
    return {FileForm::kJsonl, "JSONL", ""};
  if (absl::EndsWith(name, ".parquet")) return {FileForm::kTable, "a Parquet file", ""};
  if (absl::EndsWith(name, ".idx"))
    return {FileForm::kTokens, "an index of Megatron-LM (data.megatron)", ""};
  if (absl::EndsWith(name, ".npy")) return ContentOf("\x93NUMPY");
  if (absl::EndsWith(name, ".arrow")) return ContentOf("ARROW1");
  if (absl::EndsWith(name, ".zip")) return ContentOf("PK\x03\x04");
  if (absl::EndsWith(inner, ".tar") || absl::EndsWith(name, ".tgz"))
    return {FileForm::kOther, "a tar archive", kUnpack};
  if (absl::EndsWith(name, ".safetensors")) return ContentOf("\x01\0\0\0\0\0\0\0{\""s);
  return {};
}

absl::Status CheckPresent(absl::string_view path, absl::string_view head) {
  const FileContent content = ContentOf(head);
  if (content.form != FileForm::kAbsent) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": is ", content.what, ": ", content.hint));
}

bool IsSideFile(absl::string_view name) {
  return absl::StartsWith(name, ".") || name == "Thumbs.db" || name == "desktop.ini" ||
         name == "_SUCCESS";
}

std::string DanglingLink(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return "";
  if (std::filesystem::status(path, error).type() != std::filesystem::file_type::not_found)
    return "";
  const std::filesystem::path target = std::filesystem::read_symlink(path, error);
  return absl::StrCat("it is a link to ", target.string(), ", which does not exist");
}

}  // namespace longhaul
