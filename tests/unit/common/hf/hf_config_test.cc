#include "common/hf/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/hf/hf_model.h"
#include "nlohmann/json.hpp"

namespace longhaul {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

Json Small() {
  return Json::parse(R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 48,
    "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 6,
    "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "bos_token_id": 1, "eos_token_id": [2, 3]})");
}

std::string ErrorWith(const char* changes) {
  Json json = Small();
  json.update(Json::parse(changes));
  const auto config = ParseHfConfig(json.dump());
  EXPECT_FALSE(config.ok());
  return std::string(config.status().message());
}

TEST(HfConfigTest, ALlama) {
  const auto config = ParseHfConfig(Small().dump());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->shape.layers, 2);
  EXPECT_EQ(config->shape.head_width(), 8);
  EXPECT_EQ(config->shape.kv_heads, 2);
  EXPECT_EQ(config->shape.rope_theta, 500000);
  EXPECT_EQ(config->shape.positions, 4096);
  EXPECT_EQ(config->shape.context, 2048);
  EXPECT_FALSE(config->shape.qk_norm);
  EXPECT_EQ(config->eos, "[2,3]");
  EXPECT_EQ(config->pad, "null");
}

TEST(HfConfigTest, ReadsBothFormsOfRotaryScaling) {
  Json old = Small(), current = Small();
  old["rope_scaling"] = Json::parse(
      R"({"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
          "original_max_position_embeddings": 1024})");
  current.erase("rope_theta");
  current["rope_parameters"] = old["rope_scaling"];
  current["rope_parameters"]["rope_theta"] = 500000.0;
  const auto a = ParseHfConfig(old.dump()), b = ParseHfConfig(current.dump());
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  EXPECT_EQ(a->shape.rope_scaling.kind, RopeScaling::Kind::kLlama3);
  EXPECT_EQ(a->shape.rope_scaling.original_context, 1024);
  EXPECT_THAT(DifferencesFrom(*a, b->shape), IsEmpty());
}

TEST(HfConfigTest, ReadsWhatItWrote) {
  Json json = Small();
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.5}};
  json["head_dim"] = 14;
  json["tie_word_embeddings"] = true;
  json["architectures"] = {"Qwen3ForCausalLM"};
  const auto config = ParseHfConfig(json.dump());
  ASSERT_TRUE(config.ok()) << config.status();
  const auto again = ParseHfConfig(WriteHfConfig(*config, ElementType::kBf16));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(DifferencesFrom(*again, config->shape), IsEmpty());
  EXPECT_EQ(again->shape.positions, 4096);
  EXPECT_EQ(again->eos, config->eos);
  EXPECT_TRUE(again->shape.qk_norm);
}

TEST(HfConfigTest, NamesEverythingThatIsWrong) {
  EXPECT_THAT(
      ErrorWith(R"({"hidden_size": "48", "vocab_size": null})"),
      AllOf(HasSubstr("hidden_size: expected a number"), HasSubstr("vocab_size: is missing")));
  EXPECT_THAT(ErrorWith(R"({"mlp_bias": true, "rope_scaling": {"type": "dynamic"},
                            "quantization_config": {}})"),
              AllOf(HasSubstr("mlp_bias"), HasSubstr("dynamic"), HasSubstr("quantization_config")));
  EXPECT_THAT(ErrorWith(R"({"layer_types": ["sliding_attention"]})"), HasSubstr("layer_types"));
  EXPECT_THAT(ErrorWith(R"({"num_attention_heads": 7})"), HasSubstr("heads"));
  EXPECT_THAT(ErrorWith(R"({"num_attention_heads": -7})"), HasSubstr("num_attention_heads"));
  EXPECT_THAT(ErrorWith(R"({"architectures": ["GPT2LMHeadModel"]})"),
              AllOf(HasSubstr("GPT2LMHeadModel is not supported: it has learned positions"),
                    HasSubstr("supported are LlamaForCausalLM"), Not(HasSubstr("nearest"))));
  EXPECT_THAT(ErrorWith(R"({"architectures": ["Qwen2ForCausalLM"]})"), HasSubstr("has biases"));
  EXPECT_THAT(ErrorWith(R"({"architectures": ["Qwen3MoeForCausalLM"]})"),
              HasSubstr("a mixture of experts; supported are "));
  // One that nobody knows may be a Llama by another name.
  EXPECT_THAT(ErrorWith(R"({"architectures": ["NewForCausalLM"]})"),
              AllOf(HasSubstr("NewForCausalLM is not supported"),
                    HasSubstr("write LlamaForCausalLM and model_type llama into a copy")));
  EXPECT_THAT(ErrorWith(R"({"eos_token_id": "x"})"), HasSubstr("eos_token_id: expected token ids"));
}

TEST(HfConfigTest, AMistralWithoutAWindowIsALlamaByAnotherName) {
  Json json = Small();
  json["architectures"] = {"MistralForCausalLM"};
  json["model_type"] = "mistral";
  json["max_position_embeddings"] = 8192;
  json["sliding_window"] = nullptr;
  const auto config = ParseHfConfig(json.dump());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->mistral);
  EXPECT_EQ(config->shape.positions, 8192);
  // Written as what it was, and read back as the same.
  const Json written = Json::parse(WriteHfConfig(*config, ElementType::kBf16));
  EXPECT_EQ(written["architectures"][0], "MistralForCausalLM");
  EXPECT_EQ(written["model_type"], "mistral");
  EXPECT_TRUE(written.contains("sliding_window") && written["sliding_window"].is_null());
  EXPECT_FALSE(written.contains("mlp_bias") || written.contains("attention_bias"));
  EXPECT_TRUE(ParseHfConfig(written.dump())->mistral);
  // A window as long as the positions hides nothing.
  json["sliding_window"] = 8192;
  EXPECT_TRUE(ParseHfConfig(json.dump()).ok());
  json["sliding_window"] = 4096;
  EXPECT_THAT(std::string(ParseHfConfig(json.dump()).status().message()),
              AllOf(HasSubstr("sliding_window: 4096 is not supported"),
                    HasSubstr("max_position_embeddings 4096 into a copy of its config.json")));
  json.erase("sliding_window");  // 4,096 in transformers.
  EXPECT_FALSE(ParseHfConfig(json.dump()).ok());
  json["max_position_embeddings"] = 4096;
  EXPECT_TRUE(ParseHfConfig(json.dump()).ok());
}

TEST(HubHintTest, IsForIdsOfTheHub) {
  EXPECT_THAT(HubHint("meta-llama/Llama-3.2-1B"),
              HasSubstr("`hf download meta-llama/Llama-3.2-1B --local-dir Llama-3.2-1B`"));
  for (const char* path :
       {"", "model", "/models/base", "a/b/c", "./base", "../base", "a/", "a/$(b)"})
    EXPECT_EQ(HubHint(path), "") << path;
}

TEST(HfConfigTest, RefusesOtherJson) {
  for (const char* text : {"", "[]", "{", "1", "{\"a\":[[[[[[[[[1]]]]]]]]]}"})
    EXPECT_TRUE(absl::IsInvalidArgument(ParseHfConfig(text).status())) << text;
  EXPECT_TRUE(absl::IsNotFound(ReadHfConfig("/nowhere").status()));
}

TEST(HfConfigTest, DifferencesNameBothFields) {
  const auto config = ParseHfConfig(Small().dump());
  TransformerShape shape = config->shape;
  shape.dim = 64;
  shape.head_dim = 8;
  // Chosen by the trainer, so it is not compared.
  shape.context = 17;
  EXPECT_THAT(DifferencesFrom(*config, shape),
              ElementsAre("dim: found 64, hidden_size in config.json is 48"));
}

}  // namespace
}  // namespace longhaul
