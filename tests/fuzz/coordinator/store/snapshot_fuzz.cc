// A snapshot as it was written, changed.
//   input: u8 1: its header's digest is made right | changes (file_image.h)
#include "coordinator/store/snapshot.h"
#include "tests/fuzz/coordinator/store/file_image.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul::fuzz::snapshot_fuzz {
namespace {

constexpr int64_t kElements = 300;

SnapshotFile WriteOne(FileSystem& fs) {
  FragmentState state(kElements);
  for (int64_t i = 0; i < kElements; ++i) state.theta[i] = static_cast<float>(i);
  state.version = 5;
  state.commit_sequence = 40;
  const absl::StatusOr<SnapshotFile> file = WriteSnapshot(fs, "", 1, state);
  LH_CHECK(file.ok(), "memory takes a snapshot");
  return *file;
}

}  // namespace

std::vector<Seed> Seeds() {
  FuzzWriter whole, version, theta, cut;
  whole.Byte(0);
  version.Byte(1).Byte(1).Byte(0).Put(uint32_t{18}).Byte(6);
  theta.Byte(0).Byte(1).Byte(0).Put(uint32_t{4100}).Byte(1);
  cut.Byte(0).Byte(1).Byte(2).Put(uint32_t{7000});
  return {{"whole", whole.Take()},
          {"other_version", version.Take()},
          {"bad_array", theta.Take()},
          {"cut", cut.Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  MemoryFileSystem fs;
  const SnapshotFile written = WriteOne(fs);
  std::string image = ReadImage(fs, written.path);
  const bool sealed = input.Flag();
  ChangeImage(input, &image);
  if (sealed) SealSnapshot(&image);
  WriteImage(fs, written.path, image);
  const absl::StatusOr<SnapshotList> list = ListSnapshots(fs, "");
  CheckDocumented(list.status(), {absl::StatusCode::kFailedPrecondition});
  LH_CHECK(!list.ok() || list->files.size() + list->damaged.size() == 1,
           "a damaged snapshot is no error of the list");
  FragmentState state(kElements);
  const absl::Status read = ReadSnapshot(fs, written, &state);
  CheckDocumented(read, {absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition});
  if (!read.ok()) return 0;
  LH_CHECK(list.ok() && list->files.size() == 1 && state.version == written.version,
           "the snapshot that was asked for");
  LH_CHECK(state.digest == DigestOf(BytesOf(state.theta)), "the digest of its values");
  return 0;
}

}  // namespace longhaul::fuzz::snapshot_fuzz
