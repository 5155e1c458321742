// The manifests of checkpoints, and folders that an interrupted writer left.
//   input: u8 name of the folder | manifest.json
#include "common/io/file_util.h"
#include "coordinator/store/checkpoint.h"
#include "google/protobuf/util/json_util.h"
#include "tests/fuzz/coordinator/store/file_image.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"
#include "tests/testing/memory_filesystem.h"

namespace longhaul::fuzz::checkpoint_fuzz {
namespace {

constexpr const char* kNames[] = {"step-00000030", "step-00000030.old", "step-00000030.tmp", "x"};

}  // namespace

std::vector<Seed> Seeds() {
  v1::CheckpointManifest manifest;
  manifest.set_format_version(1);
  manifest.set_step(30);
  manifest.add_fragments()->set_file("fragment-000.f32");
  manifest.mutable_fragments(0)->mutable_digest()->set_high(7);
  std::string json;
  LH_CHECK(google::protobuf::util::MessageToJsonString(manifest, &json).ok(), "it has a JSON form");
  return {{"manifest", FuzzWriter().Byte(0).Bytes(json).Take()},
          {"replaced", FuzzWriter().Byte(1).Bytes(json).Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const std::string folder =
      JoinPath("/checkpoints", kNames[input.Choice(0, std::size(kNames) - 1)]);
  MemoryFileSystem fs;
  LH_CHECK(fs.CreateDir("/checkpoints").ok() && fs.CreateDir(folder).ok(), "memory takes folders");
  WriteImage(fs, JoinPath(folder, "manifest.json"), input.Rest());
  LH_CHECK(CleanCheckpoints(fs, "").ok(), "what is left over is no error");
  const auto manifests = ListCheckpoints(fs, "");
  LH_CHECK(manifests.ok() && manifests->size() <= 1, "a manifest that does not parse is left out");
  return 0;
}

}  // namespace longhaul::fuzz::checkpoint_fuzz
