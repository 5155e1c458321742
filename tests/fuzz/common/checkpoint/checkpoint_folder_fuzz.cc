// A checkpoint's folder, as longhaul export and longhaul-lm read it.
//   input: u16 size, manifest.json | fragment-000.f32, whose digest and size the manifest gets
#include <fstream>
#include <vector>

#include "common/checkpoint/checkpoint_folder.h"
#include "common/config/transformer_spec.h"
#include "common/io/digest.h"
#include "common/wire/proto_values.h"
#include "google/protobuf/util/json_util.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/quiet_protobuf.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::fuzz::checkpoint_folder_fuzz {
namespace {

constexpr char kFragment[] = "fragment-000.f32";

std::string JsonOf(const v1::CheckpointManifest& manifest) {
  std::string json;
  LH_CHECK(google::protobuf::util::MessageToJsonString(manifest, &json).ok(), "it has a JSON form");
  return json;
}

// A digest would keep the search out of what lies behind it.
std::string WithDigest(absl::string_view json, absl::string_view fragment) {
  v1::CheckpointManifest manifest;
  if (!google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &manifest).ok() ||
      manifest.fragments_size() != 1) {
    return std::string(json);
  }
  manifest.mutable_fragments(0)->set_elements(static_cast<int64_t>(fragment.size() / 4));
  *manifest.mutable_fragments(0)->mutable_digest() = ToProto(DigestOf(fragment));
  return JsonOf(manifest);
}

void CheckParameters(const CheckpointFolder& folder) {
  for (int unit = 0; unit < static_cast<int>(folder.layout().units.size()); ++unit) {
    std::vector<float> values(folder.layout().units[unit].elements);
    LH_CHECK(folder.Read(unit, 0, absl::MakeSpan(values)).ok(), "verified files can be read");
  }
}

}  // namespace

std::vector<Seed> Seeds() {
  const TransformerShape shape{
      .layers = 1, .dim = 2, .heads = 1, .kv_heads = 1, .ff_dim = 2, .context = 4, .vocab = 3};
  v1::CheckpointManifest manifest;
  manifest.set_format_version(1);
  *manifest.mutable_model()->mutable_transformer() = SpecOf(shape);
  manifest.add_fragments()->set_file(kFragment);
  int64_t offset = 0;
  const ModelLayout model = LayOutTransformer(shape).value();
  for (const UnitLayout& unit : model.units) {
    for (const TensorLayout& layout : unit.tensors) {
      v1::CheckpointTensor& tensor = *manifest.add_tensors();
      tensor.set_name(layout.name);
      tensor.mutable_shape()->Assign(layout.shape.begin(), layout.shape.end());
      tensor.set_offset(offset);
      offset += layout.elements;
    }
  }
  const std::string values(4 * offset, '?');
  return {{"whole", FuzzWriter().String(JsonOf(manifest)).Bytes(values).Take()},
          {"short", FuzzWriter().String(JsonOf(manifest)).Bytes(values.substr(8)).Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const absl::string_view json = input.String(), fragment = input.Rest();
  static const TempDir folder;
  std::ofstream(folder.path() + "/manifest.json", std::ios::binary) << WithDigest(json, fragment);
  std::ofstream(folder.path() + "/" + kFragment, std::ios::binary) << fragment;
  const auto opened = CheckpointFolder::Open(folder.path());
  CheckDocumented(opened.status(),
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
                   absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition});
  if (opened.ok()) CheckParameters(**opened);
  return 0;
}

}  // namespace longhaul::fuzz::checkpoint_folder_fuzz
