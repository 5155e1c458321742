// Recovery of a job's folder: what a store wrote, its files changed or gone, the digests of frames
// and snapshots made right or not. A store that comes back serves what its commits say, and goes
// on.
//   input: u8 1: digests are made right | for each file: u8 1 gone, else changes (file_image.h)
#include <memory>
#include <string>
#include <vector>

#include "common/io/file_util.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/job_store.h"
#include "tests/fuzz/coordinator/store/file_image.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul::fuzz::job_store_fuzz {
namespace {

constexpr char kDir[] = "job";

struct NamedImage {
  std::string path, bytes;
};

JobStoreOptions Options() {
  JobStoreOptions options = SmallOptions();
  options.fragment_elements = {300, 128};
  options.down.kind = CodecKind::kE3m0;
  options.snapshot_every = 1;
  options.log_file_bytes = 8 * kLogAlignment;
  return options;
}

std::vector<std::vector<float>> Deltas(int64_t elements) {
  return {NoiseOf(elements, 1), NoiseOf(elements, 2)};
}

// The files of a job that was seeded, had rounds, and was cut off within one.
std::vector<NamedImage> MakeImages() {
  MemoryFileSystem fs;
  const JobStoreOptions options = Options();
  const std::unique_ptr<JobStore> store = *JobStore::Create(&fs, kDir, ManifestWith(options));
  for (int fragment : {0, 1}) {
    const int64_t elements = options.fragment_elements[fragment];
    LH_CHECK(Round(*store, fragment, RoundKind::kSeed, {NoiseOf(elements, 3)}).ok(), "a seed");
    LH_CHECK(Round(*store, fragment, RoundKind::kOuter, Deltas(elements)).ok(), "a round");
  }
  LH_CHECK(store->MaybeSnapshot().ok(), "snapshots");
  LH_CHECK(Round(*store, 0, RoundKind::kOuter, Deltas(300), CodecKind::kE3m0).ok(), "a round");
  LH_CHECK(
      Push(*store, {1, 2, RoundKind::kOuter, "oslo", CodecKind::kFp32, {}}, NoiseOf(128, 4)).ok(),
      "a contribution");
  std::vector<NamedImage> images = {{JoinPath(kDir, "manifest"), ""}};
  for (const std::string& folder : {LogFolder(kDir), SnapshotFolder(kDir)}) {
    const absl::StatusOr<std::vector<std::string>> names = fs.List(folder);
    for (const std::string& name : *names) images.push_back({JoinPath(folder, name), ""});
  }
  for (NamedImage& image : images) image.bytes = ReadImage(fs, image.path);
  return images;
}

void WriteChanged(FuzzInput& input, FileSystem& fs) {
  static const auto* const images = new std::vector<NamedImage>(MakeImages());
  for (const std::string& folder :
       {std::string(kDir), LogFolder(kDir), SnapshotFolder(kDir), CheckpointFolder(kDir)}) {
    LH_CHECK(fs.CreateDir(folder).ok(), "memory takes a folder");
  }
  const bool sealed = input.Flag();
  for (const NamedImage& image : *images) {
    if (input.Flag()) continue;
    std::string bytes = image.bytes;
    ChangeImage(input, &bytes);
    if (sealed) SealLog(Options().log_salt, &bytes);
    if (sealed && bytes.substr(0, 8) == "LHSNAPS1") SealSnapshot(&bytes);
    WriteImage(fs, image.path, bytes);
  }
}

void CheckFragment(JobStore& store, int fragment) {
  const absl::StatusOr<int64_t> version = store.Version(fragment);
  LH_CHECK(version.ok(), "a fragment has a version");
  if (*version < 0) return;
  const std::vector<BlockRange> all = AllBlocks(store, fragment);
  const auto commit = store.LastCommit(fragment);
  const auto outer = store.ReadOuter(fragment, *version, all);
  LH_CHECK(commit.ok() && outer.ok(), "the newest commit is served");
  LH_CHECK(commit->digest == DigestOf(BytesOf(FloatsOf(*outer))), "the parameters of the commit");
  CheckDocumented(store.ReadDownlink(fragment, *version, all).status(),
                  {absl::StatusCode::kFailedPrecondition});
  const int64_t elements = store.options().fragment_elements[fragment];
  CheckDocumented(Round(store, fragment, RoundKind::kOuter, Deltas(elements)).status(),
                  {absl::StatusCode::kInvalidArgument});
}

}  // namespace

std::vector<Seed> Seeds() {
  // Files: manifest, two files or more of the log, a snapshot of each fragment.
  FuzzWriter whole, torn, kind, lost;
  whole.Byte(0);
  torn.Byte(0).Byte(0).Byte(0).Byte(0).Byte(0).Byte(0).Byte(1).Byte(2).Put(uint32_t{9000});
  kind.Byte(1).Byte(0).Byte(0).Byte(0).Byte(1).Byte(0).Put(uint32_t{4096 + 80 + 5}).Byte(2);
  lost.Byte(0).Byte(0).Byte(0).Byte(0).Byte(0).Byte(0).Byte(0).Byte(1).Byte(1).Byte(1);
  return {{"whole", whole.Take()},
          {"torn", torn.Take()},
          {"other_kind", kind.Take()},
          {"lost_snapshots", lost.Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  MemoryFileSystem fs;
  WriteChanged(input, fs);
  const absl::StatusOr<std::unique_ptr<JobStore>> store = JobStore::Recover(&fs, kDir);
  CheckDocumented(store.status(),
                  {absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition});
  if (!store.ok()) return 0;
  for (const int fragment : {0, 1}) CheckFragment(**store, fragment);
  return 0;
}

}  // namespace longhaul::fuzz::job_store_fuzz
