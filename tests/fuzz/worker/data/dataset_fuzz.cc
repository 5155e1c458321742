// Files of tokens (nanoGPT, llm.c) and of text, and the windows that are cut from them.
//   input: u8 0 nanoGPT, 1 text, 2 llm.c | u16 vocab - 1 | u8 context | file
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/data/file_tokens.h"
#include "worker/data/token_files.h"
#include "worker/data/windows.h"

namespace longhaul::fuzz::dataset_fuzz {
namespace {

absl::StatusOr<TokenPiece> Open(int kind, const std::string& path) {
  if (kind == 0) return OpenNanoGptFile(path);
  if (kind == 2) return OpenLlmcFile(path);
  auto file = ReadOnlyFile::Open(path);
  if (!file.ok()) return file.status();
  const int64_t count = file->size();
  return TokenPiece{.file = std::make_shared<const ReadOnlyFile>(*std::move(file)), .count = count};
}

void CheckDataset(const Dataset& dataset, int64_t vocab, int64_t context) {
  std::vector<int64_t> tokens(dataset.tokens());
  LH_CHECK(dataset.Read(0, absl::MakeSpan(tokens)).ok(), "the file is whole");
  for (const int64_t token : tokens) LH_CHECK(token >= 0 && token < vocab, "tokens of the vocab");
  const absl::StatusOr<Windows> windows =
      Windows::Create({.tokens = dataset.tokens(), .context = context, .seed = 1});
  CheckDocumented(windows.status(), {absl::StatusCode::kInvalidArgument});
  if (!windows.ok()) return;
  for (int64_t i = 0; i < 4; ++i) {
    std::vector<int64_t> window(context + 1);
    LH_CHECK(dataset.Read(windows->Train(i, 0), absl::MakeSpan(window)).ok() &&
                 dataset.Read(windows->Eval(i, 4), absl::MakeSpan(window)).ok(),
             "the file is whole");
  }
}

}  // namespace

std::vector<Seed> Seeds() {
  std::string tokens;
  for (int i = 0; i < 100; ++i) tokens += {static_cast<char>(i * 7), static_cast<char>(i % 3)};
  std::string header(1024, '\0');
  const int32_t words[] = {20240520, 1, 100};
  std::memcpy(header.data(), words, sizeof(words));
  return {{"llmc", FuzzWriter().Byte(2).Put(uint16_t{999}).Byte(7).Bytes(header + tokens).Take()},
          {"llmc_short", FuzzWriter().Byte(2).Put(uint16_t{9}).Byte(7).Bytes(header).Take()},
          {"tokens", FuzzWriter().Byte(0).Put(uint16_t{999}).Byte(7).Bytes(tokens).Take()},
          {"text", FuzzWriter().Byte(1).Put(uint16_t{255}).Byte(7).Bytes("some text, \xff").Take()},
          {"odd", FuzzWriter().Byte(0).Put(uint16_t{65535}).Byte(1).Bytes("abc").Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const int kind = input.Choice(0, 2);
  const int64_t vocab = int64_t{input.Take<uint16_t>()} + 1, context = input.Choice(1, 256);
  const absl::string_view bytes = input.Rest();
  const int file = memfd_create("dataset", MFD_CLOEXEC);
  LH_CHECK(
      file >= 0 && write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
      "memory takes a file");
  const absl::Cleanup close_file = [file] { close(file); };
  const auto piece = Open(kind, absl::StrCat("/proc/self/fd/", file));
  CheckDocumented(piece.status(), {absl::StatusCode::kInvalidArgument});
  if (!piece.ok() || piece->count == 0) return 0;
  const absl::Status checked = CheckTokens(*piece, vocab);
  CheckDocumented(checked, {absl::StatusCode::kInvalidArgument});
  if (checked.ok()) CheckDataset(FileTokens({*piece}), vocab, context);
  return 0;
}

}  // namespace longhaul::fuzz::dataset_fuzz
