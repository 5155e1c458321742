#include <filesystem>
#include <fstream>

#include "tests/conformance/dataset/dataset_suite.h"
#include "worker/data/text_dataset.h"
#include "worker/data/token_file_dataset.h"

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

std::unique_ptr<Dataset> MakeText() {
  return TextDataset::Open(
             Write("dataset_conformance.txt", Encode(0, DatasetSuite::kTokens, false)), 256)
      .value();
}

std::unique_ptr<Dataset> MakeTextFolder() {
  const std::string folder = testing::TempDir() + "/dataset_conformance";
  std::filesystem::create_directories(folder);
  Write("dataset_conformance/1", Encode(0, 333, false));
  Write("dataset_conformance/2", Encode(333, 334, false));
  Write("dataset_conformance/3", Encode(334, DatasetSuite::kTokens, false));
  return TextDataset::Open(folder, 256).value();
}

std::unique_ptr<Dataset> MakeTokenFile() {
  return TokenFileDataset::Open(
             Write("dataset_conformance.bin", Encode(0, DatasetSuite::kTokens, true)), 256)
      .value();
}

INSTANTIATE_TEST_SUITE_P(Text, DatasetSuite, testing::Values(MakeText, MakeTextFolder));
INSTANTIATE_TEST_SUITE_P(TokenFile, DatasetSuite, testing::Values(MakeTokenFile));

}  // namespace
}  // namespace longhaul
