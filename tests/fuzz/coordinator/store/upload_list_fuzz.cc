// The stored list of an upload's files, as a start finds it.
//   input: u8 1: the folder is named by the digest of the list | the file
#include <memory>
#include <string>

#include "common/base/check.h"
#include "common/io/file_util.h"
#include "common/io/sha256.h"
#include "coordinator/store/uploads.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul::fuzz::upload_list_fuzz {
namespace {

constexpr char kData[] = "data";
constexpr int kHeaderLines = 2;

std::vector<FolderFile> Model() {
  return {{"config.json", 2, Sha256Hex("{}")}, {"x", 3, Sha256Hex("abc")}};
}

// Behind the first lines.
std::string ListIn(std::string text) {
  for (int line = 0; line < kHeaderLines; ++line) {
    const size_t end = text.find('\n');
    text.erase(0, end == std::string::npos ? end : end + 1);
  }
  return text;
}

std::unique_ptr<Uploads> Open(MemoryFileSystem& fs, const ManualClock& clock) {
  auto opened = Uploads::Open(&fs, &clock, {.data_dir = kData, .free_min = 0});
  LH_CHECK(opened.ok(), "a damaged upload does not stop a start");
  return *std::move(opened);
}

}  // namespace

std::vector<Seed> Seeds() {
  MemoryFileSystem fs;
  const ManualClock clock(absl::FromUnixSeconds(1700000000));
  LH_CHECK(fs.CreateDir(kData).ok(), "memory takes a folder");
  const std::unique_ptr<Uploads> uploads = Open(fs, clock);
  LH_CHECK(uploads->Prepare(Model()).ok(), "an upload");
  const auto text =
      ReadFile(fs, UploadFolder(kData, DigestOfFiles(Model())) + ".partial/.files", 1 << 20);
  LH_CHECK(text.ok(), "its list");
  return {{"as_written", FuzzWriter().Byte(0).Bytes(*text).Take()},
          {"named_by_it", FuzzWriter().Byte(1).Bytes(*text).Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const bool named = input.Flag();
  const std::string text(input.Rest());
  const std::string upload = named ? Sha256Hex(ListIn(text)) : DigestOfFiles(Model());
  MemoryFileSystem fs;
  const ManualClock clock(absl::FromUnixSeconds(1700000000));
  const std::string folder = UploadFolder(kData, upload) + ".partial";
  for (const std::string& made : {std::string(kData), UploadsFolder(kData), folder})
    LH_CHECK(fs.CreateDir(made).ok(), "memory takes a folder");
  LH_CHECK(WriteFileAtomically(fs, JoinPath(folder, ".files"), text).ok(), "memory takes a file");
  const std::unique_ptr<Uploads> uploads = Open(fs, clock);
  const Uploads::Counts counts = uploads->counts();
  LH_CHECK(counts.whole == 0 && counts.partial <= 1, "one upload, and no byte of it");
  const auto names = fs.List(UploadsFolder(kData));
  LH_CHECK(static_cast<int64_t>(names->size()) == counts.partial, "what is not kept is removed");
  if (counts.partial == 0) return 0;
  const auto files = ParseListOfFiles(ListIn(text));
  LH_CHECK(files.ok() && DigestOfFiles(*files) == upload, "what is kept has this name");
  int64_t bytes = 0;
  for (const FolderFile& file : *files) bytes += file.bytes;
  LH_CHECK(bytes == counts.bytes, "its bytes are known");
  return 0;
}

}  // namespace longhaul::fuzz::upload_list_fuzz
