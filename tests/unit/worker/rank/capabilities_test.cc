#include "worker/rank/capabilities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/codec/codec.h"
#include "common/config/capabilities.h"
#include "common/config/job_spec.h"

namespace longhaul {
namespace {

v1::JobSpec Spec() {
  v1::JobSpec spec;
  spec.set_name("job");
  auto* model = spec.mutable_model()->mutable_transformer();
  model->set_layers(2), model->set_dim(32), model->set_heads(2), model->set_ff_dim(64);
  model->set_context(32);
  spec.mutable_data()->mutable_text()->set_path("/data");
  spec.mutable_train()->set_steps(100);
  spec.mutable_train()->set_batch(4);
  return ResolveJobSpec(spec)->spec;
}

TEST(CapabilitiesTest, WhatIsNeededIsThere) {
  EXPECT_THAT(NeedsOf(Spec()),
              testing::IsSupersetOf({"model:transformer", "data:text", "partition:ddp"}));
  EXPECT_TRUE(CheckCapabilities(Spec(), v1::CPU).ok());
  v1::JobSpec synthetic;
  synthetic.set_name("job");
  synthetic.mutable_model()->mutable_synthetic()->set_units(1);
  synthetic.mutable_model()->mutable_synthetic()->set_elements(10);
  synthetic.mutable_train()->set_steps(100);
  EXPECT_TRUE(CheckCapabilities(ResolveJobSpec(synthetic)->spec, v1::CPU).ok());
}

TEST(CapabilitiesTest, OffloadingIsACapability) {
  v1::JobSpec spec = Spec();
  spec.mutable_offload()->set_optimizer(true);
  spec.mutable_offload()->set_parameters(true);
  spec.mutable_partition()->set_preset("zero3");
  const std::vector<std::string> needs = NeedsOf(spec);
  EXPECT_EQ(std::count(needs.begin(), needs.end(), "offload:optimizer"), 1);
  EXPECT_EQ(std::count(needs.begin(), needs.end(), "offload:parameters"), 1);
  EXPECT_TRUE(CheckCapabilities(spec, v1::CPU).ok());
  EXPECT_TRUE(CheckCapabilities(spec, v1::CUDA).ok());
}

TEST(CapabilitiesTest, EverySourceOfDataIsInTheTable) {
  v1::JobSpec spec = Spec();
  spec.mutable_data()->set_order(v1::EPOCHS);
  v1::MixtureSource& mixture = *spec.mutable_data()->mutable_mixture();
  mixture.add_sources()->mutable_text()->set_eos(1);
  mixture.add_sources()->mutable_jsonl()->set_tokenizer("m.model");
  mixture.add_sources()->mutable_tokens()->set_format(v1::LLMC);
  mixture.add_sources()->mutable_megatron();
  spec.mutable_data()->add_pools()->mutable_text();
  EXPECT_THAT(NeedsOf(spec),
              testing::IsSupersetOf({"data:text", "data:jsonl", "data:tokens", "data:megatron",
                                     "data:mixture", "data:epochs", "data:pools", "data:llmc",
                                     "data:eos", "data:sentencepiece"}));
  const absl::Status able = CheckCapabilities(spec, v1::CPU);
  EXPECT_TRUE(able.ok()) << able;
}

TEST(CapabilitiesTest, NamesWhatIsLacking) {
  v1::JobSpec spec = Spec();
  spec.mutable_train()->set_blocks(v1::FUSED);
  EXPECT_TRUE(CheckCapabilities(spec, v1::CPU).ok());
  spec.mutable_partition()->set_preset("zero9");
  const absl::Status status = CheckCapabilities(spec, v1::CUDA);
  EXPECT_TRUE(absl::IsUnimplemented(status));
  EXPECT_EQ(status.message(), "this worker lacks partition:zero9, train:fused-blocks");
}

TEST(CapabilitiesTest, GraphsAreForCuda) {
  v1::JobSpec spec = Spec();
  spec.mutable_train()->set_cuda_graphs(true);
  EXPECT_TRUE(CheckCapabilities(spec, v1::CUDA).ok());
  EXPECT_EQ(CheckCapabilities(spec, v1::CPU).message(), "this worker lacks train:cuda-graphs");
}

TEST(CapabilitiesTest, OptimizersAreNeededByName) {
  v1::JobSpec spec = Spec();
  spec.mutable_inner()->mutable_muon()->mutable_adamw()->set_moments(v1::BFLOAT16);
  EXPECT_TRUE(CheckCapabilities(spec, v1::CPU).ok());
  EXPECT_EQ(CheckCapabilities(spec, v1::CUDA).message(),
            "this worker lacks optimizer:bfloat16_moments");
}

TEST(CapabilitiesTest, OneBitAdamIsForCpus) {
  v1::JobSpec spec = Spec();
  spec.mutable_inner()->mutable_onebit_adam();
  EXPECT_TRUE(CheckCapabilities(spec, v1::CPU).ok());
  EXPECT_EQ(CheckCapabilities(spec, v1::CUDA).message(), "this worker lacks optimizer:onebit_adam");
}

TEST(CapabilitiesTest, EveryCodecOfThisProgramIsInTheTable) {
  const auto list = CapabilitiesOn(v1::CUDA);
  const std::set<std::string> table(list.begin(), list.end());
  for (int number = 0; number < v1::Codec_ARRAYSIZE; ++number) {
    const std::string name = v1::Codec_Name(number);
    EXPECT_EQ(MakeCodec({.kind = static_cast<CodecKind>(number)}).ok(),
              table.count(absl::StrCat("codec:", absl::AsciiStrToLower(name))) == 1)
        << name;
  }
  EXPECT_LE(list.size(), 256u);
}

// It works in any case; the engine's tests compute so.
TEST(CapabilitiesTest, SaysThatBfloat16IsSlowWhereTheCpuHasNoFastPath) {
  v1::JobSpec spec;
  spec.mutable_model()->mutable_transformer();
  spec.mutable_train()->set_precision(v1::BFLOAT16);
  EXPECT_THAT(SlowComputing(spec, false), testing::HasSubstr("train.precision: this CPU does not"));
  EXPECT_EQ(SlowComputing(spec, true), "");
  spec.mutable_train()->set_device(v1::CUDA);
  EXPECT_EQ(SlowComputing(spec, false), "");
  spec.mutable_train()->set_device(v1::CPU);
  spec.mutable_train()->set_precision(v1::FLOAT32);
  EXPECT_EQ(SlowComputing(spec, false), "");
}

}  // namespace
}  // namespace longhaul
