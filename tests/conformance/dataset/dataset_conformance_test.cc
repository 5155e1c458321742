#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/conformance/dataset/dataset_suite.h"
#include "worker/data/chat_rows.h"
#include "worker/data/megatron_writer.h"
#include "worker/data/source.h"

namespace longhaul {
namespace {

// Tokens [first, end) as bytes, or as 16-bit words.
std::string Encode(int64_t first, int64_t end, bool words) {
  std::string bytes;
  for (int64_t i = first; i < end; ++i) {
    bytes.push_back(static_cast<char>(DatasetSuite::Token(i)));
    if (words) bytes.push_back('\0');
  }
  return bytes;
}

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::unique_ptr<Dataset> Open(SourceKind kind, const std::string& path) {
  const std::string work = testing::TempDir() + "/dataset_conformance_work";
  // The suite's tokens are all bytes, which text is not.
  return OpenSource({.kind = kind, .path = path, .eos = kNoToken, .as_is = true}, 256,
                    {.folder = work})
      .value();
}

std::unique_ptr<Dataset> MakeText() {
  return Open(SourceKind::kText,
              Write("dataset_conformance.txt", Encode(0, DatasetSuite::kTokens, false)));
}

std::unique_ptr<Dataset> MakeTextFolder() {
  const std::string folder = testing::TempDir() + "/dataset_conformance";
  std::filesystem::create_directories(folder);
  Write("dataset_conformance/1", Encode(0, 333, false));
  Write("dataset_conformance/2", Encode(333, 334, false));
  Write("dataset_conformance/3", Encode(334, DatasetSuite::kTokens, false));
  return Open(SourceKind::kText, folder);
}

std::unique_ptr<Dataset> MakeNanoGpt() {
  return Open(SourceKind::kNanoGpt,
              Write("dataset_conformance.bin", Encode(0, DatasetSuite::kTokens, true)));
}

std::unique_ptr<Dataset> MakeLlmc() {
  std::string header(1024, '\0');
  const int32_t words[] = {20240520, 1, DatasetSuite::kTokens};
  std::memcpy(header.data(), words, sizeof(words));
  return Open(SourceKind::kLlmc, Write("dataset_conformance_llmc.bin",
                                       header + Encode(0, DatasetSuite::kTokens, true)));
}

// Documents of 251 tokens.
std::unique_ptr<Dataset> MakeMarked() {
  const std::string path =
      Write("dataset_conformance_marked.bin", Encode(0, DatasetSuite::kTokens, true));
  return OpenSource({.kind = SourceKind::kNanoGpt, .path = path, .eos = 244, .documents = true},
                    256, {})
      .value();
}

// The tokens are made into Megatron's files in the work folder.
std::unique_ptr<Dataset> MakeMegatron() {
  const std::string path = testing::TempDir() + "/dataset_conformance.eos";
  std::filesystem::create_directories(path);
  const std::string text = Encode(0, DatasetSuite::kTokens, false);
  // Its last token is the end of its only document.
  Write("dataset_conformance.eos/a", text.substr(0, text.size() - 1));
  const std::string work = testing::TempDir() + "/dataset_conformance_work";
  return OpenSource({.path = path, .eos = static_cast<uint8_t>(text.back()), .as_is = true}, 256,
                    {.folder = work})
      .value();
}

// Rows of 25 tokens, in which conversations of 10 and 15 begin.
std::unique_ptr<Dataset> MakeChat() {
  const std::string prefix = testing::TempDir() + "/dataset_conformance_chat";
  const auto writer = MegatronWriter::Create(prefix, 256).value();
  std::string mask;
  for (int64_t i = 0; i < DatasetSuite::kTokens; ++i) {
    const int32_t token = static_cast<int32_t>(DatasetSuite::Token(i));
    EXPECT_TRUE(writer->Append({token}).ok());
    if (i % 25 == 24) {
      EXPECT_TRUE(writer->EndDocument().ok());
    }
    mask.push_back(i % 25 == 0 || i % 25 == 10 ? kChatBegins : kChatCounts);
  }
  EXPECT_TRUE(writer->Finish().ok());
  mask.append(sizeof(ChatCounts), '\0');
  Write("dataset_conformance_chat.mask", mask);
  return ChatRows::Open(prefix, 25, 256).value();
}

INSTANTIATE_TEST_SUITE_P(Text, DatasetSuite, testing::Values(MakeText, MakeTextFolder));
INSTANTIATE_TEST_SUITE_P(TokenFile, DatasetSuite,
                         testing::Values(MakeNanoGpt, MakeMarked, MakeLlmc, MakeMegatron));
INSTANTIATE_TEST_SUITE_P(Chat, DatasetSuite, testing::Values(MakeChat));

}  // namespace
}  // namespace longhaul
