// config.json, generation_config.json and the index of a Hugging Face folder.
//   input: u8 0: config.json; 1: an index, in a folder that has nothing else | the file
#include <fstream>

#include "common/hf/hf_config.h"
#include "common/hf/hf_parameters.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::fuzz::hf_fuzz {
namespace {

void CheckConfig(absl::string_view json) {
  CheckDocumented(ParseEndTokens(json).status(), {absl::StatusCode::kInvalidArgument});
  const auto config = ParseHfConfig(json);
  CheckDocumented(config.status(),
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented});
  if (!config.ok()) return;
  LH_CHECK(LayOutTransformer(config->shape).ok(), "a config's shape can be laid out");
  const auto again = ParseHfConfig(WriteHfConfig(*config, ElementType::kF32));
  LH_CHECK(again.ok() && DifferencesFrom(*again, config->shape).empty(),
           "what was read can be written");
}

void CheckIndex(absl::string_view json) {
  static const TempDir made;
  const std::string& folder = made.path();
  std::ofstream(folder + "/model.safetensors.index.json", std::ios::binary) << json;
  const ModelLayout layout = LayOutSynthetic(1, 4).value();
  CheckDocumented(OpenHfParameters(folder, layout).status(),
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound});
}

}  // namespace

std::vector<Seed> Seeds() {
  const HfConfig llama{.shape = {.layers = 2,
                                 .dim = 8,
                                 .heads = 2,
                                 .kv_heads = 1,
                                 .ff_dim = 12,
                                 .context = 16,
                                 .vocab = 20}};
  HfConfig qwen = llama;
  qwen.shape.qk_norm = true;
  qwen.shape.rope_scaling = {.kind = RopeScaling::Kind::kLlama3, .factor = 8};
  qwen.eos = "[1,2]";
  return {{"llama", FuzzWriter().Byte(0).Bytes(WriteHfConfig(llama, ElementType::kF32)).Take()},
          {"qwen3", FuzzWriter().Byte(0).Bytes(WriteHfConfig(qwen, ElementType::kBf16)).Take()},
          {"index", FuzzWriter()
                        .Byte(1)
                        .Bytes(R"({"metadata":{},"weight_map":{"vector.0":"a.safetensors"}})")
                        .Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  if (input.Flag()) {
    CheckIndex(input.Rest());
  } else {
    CheckConfig(input.Rest());
  }
  return 0;
}

}  // namespace longhaul::fuzz::hf_fuzz
