#include "common/config/job_spec.h"

#include "absl/strings/str_cat.h"
#include "common/config/capabilities.h"
#include "common/config/load.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/unit/common/config/small_spec.h"

namespace longhaul {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(JobSpecTest, ANamedSizeFillsInFieldsThatAreLeftOut) {
  constexpr char kSized[] = R"(
name: small
model: {transformer: {size: 150m, context: 128, ff_dim: 1000}}
data: {text: {path: text.txt}}
train: {steps: 600, batch: 4}
)";
  const auto job = ResolveJobSpec(ParseJobSpec(kSized).value());
  ASSERT_TRUE(job.ok()) << job.status();
  const v1::TransformerSpec& shape = job->spec.model().transformer();
  EXPECT_EQ(shape.layers(), 12);
  EXPECT_EQ(shape.dim(), 896);
  EXPECT_EQ(shape.head_dim(), 64);
  EXPECT_EQ(shape.ff_dim(), 1000);
  EXPECT_EQ(shape.positions(), 128);
  EXPECT_THAT(FaultsOf(ParseJobSpec(kSized, {"model.transformer.size=8b"}).value()),
              testing::Contains("model.transformer.size"));
}

TEST(JobSpecTest, RotaryScalings) {
  const v1::RopeScalingSpec scaling =
      ResolveJobSpec(Small({"model.transformer.rope_scaling={llama3: {factor: 8}}"}))
          ->spec.model()
          .transformer()
          .rope_scaling();
  EXPECT_EQ(scaling.llama3().low_freq_factor(), 1);
  EXPECT_EQ(scaling.llama3().high_freq_factor(), 4);
  EXPECT_EQ(scaling.llama3().original_context(), 8192);
  for (const char* const scaling : {"{linear: -1}", "{linear: 1e-7}"})
    EXPECT_THAT(FaultsWith({absl::StrCat("model.transformer.rope_scaling=", scaling)}),
                ElementsAre("model.transformer.rope_scaling.linear"));
  EXPECT_THAT(FaultsWith({"model.transformer.rope_scaling={}"}),
              ElementsAre("model.transformer.rope_scaling"));
}

TEST(JobSpecTest, AHuggingFaceFolderGoesWithATransformer) {
  EXPECT_THAT(FaultsWith({"model.hf.path=/models/a"}), IsEmpty());
  EXPECT_THAT(FaultsWith({"model.hf={}"}), ElementsAre("model.hf.path"));
  v1::JobSpec spec = Small({"model.hf.path=/models/a"});
  spec.mutable_model()->clear_transformer();
  EXPECT_THAT(FaultsOf(spec), testing::Contains("model.transformer"));
  const auto needs = NeedsOf(
      ResolveJobSpec(Small({"model.hf.path=/models/a", "model.transformer.head_dim=32"}))->spec);
  EXPECT_THAT(needs, testing::IsSupersetOf({"model:hf", "model:head-dim"}));
}

TEST(JobSpecTest, FillsInEveryDocumentedDefault) {
  const v1::JobSpec spec = ResolveJobSpec(Small()).value().spec;
  EXPECT_EQ(spec.model().transformer().kv_heads(), 4);
  EXPECT_EQ(spec.model().transformer().vocab(), 256);
  EXPECT_EQ(spec.model().transformer().rope_theta(), 10000);
  EXPECT_EQ(spec.model().transformer().norm_eps(), 1e-5);
  EXPECT_EQ(spec.data().eval_fraction(), 0.05);
  EXPECT_EQ(spec.train().device(), v1::CPU);
  EXPECT_EQ(spec.train().precision(), v1::FLOAT32);
  EXPECT_EQ(spec.train().accumulation(), 1);
  EXPECT_EQ(spec.train().activations(), v1::KEEP);
  EXPECT_EQ(spec.inner().adamw().lr(), 1e-3);
  EXPECT_EQ(spec.inner().adamw().beta1(), 0.9);
  EXPECT_EQ(spec.inner().adamw().beta2(), 0.99);
  EXPECT_EQ(spec.inner().adamw().eps(), 1e-8);
  EXPECT_EQ(spec.inner().adamw().weight_decay(), 1.0 / 600);
  EXPECT_EQ(spec.inner().schedule().warmup_steps(), 0);
  EXPECT_EQ(spec.inner().schedule().final_fraction(), 0.05);
  EXPECT_EQ(spec.inner().clip_norm(), 1);
  EXPECT_EQ(spec.partition().preset(), "ddp");
  EXPECT_EQ(spec.sync().mode(), v1::LOCKSTEP);
  EXPECT_EQ(spec.sync().h(), 30);
  EXPECT_EQ(spec.sync().tau(), 1);
  EXPECT_EQ(spec.sync().alpha(), 0.5);
  EXPECT_EQ(spec.sync().fragments().balanced(), 3);
  EXPECT_EQ(spec.sync().outer().lr(), 0.7);
  EXPECT_EQ(spec.sync().outer().momentum(), 0.5);
  EXPECT_EQ(spec.sync().up().codec(), v1::E3M0);
  EXPECT_FALSE(spec.sync().up().error_feedback());
  EXPECT_EQ(spec.sync().down().codec(), v1::E3M0);
  EXPECT_TRUE(spec.sync().down().error_feedback());
  EXPECT_TRUE(spec.sync().final_round());
  EXPECT_EQ(spec.pools().min(), 1);
  EXPECT_EQ(spec.pools().max(), 64);
  EXPECT_EQ(spec.checkpoint().every_cycles(), 10);
  EXPECT_EQ(spec.checkpoint().keep(), 3);
  EXPECT_EQ(spec.evaluation().every_cycles(), 1);
  EXPECT_EQ(spec.evaluation().pools_every_cycles(), 1);
  EXPECT_EQ(spec.evaluation().batches(), 8);
}

TEST(JobSpecTest, DefaultsDependOnOtherFields) {
  const auto resolve = [](const std::vector<std::string>& overrides) {
    return ResolveJobSpec(Small(overrides)).value().spec;
  };
  EXPECT_EQ(resolve({"train.steps=3000"}).sync().outer().lr(), 0.4);
  EXPECT_EQ(resolve({"train.steps=3000"}).sync().outer().momentum(), 0.9);
  EXPECT_EQ(resolve({"train.steps=2999"}).sync().outer().momentum(), 0.5);
  EXPECT_EQ(resolve({"train.device=cuda"}).train().precision(), v1::BFLOAT16);
  EXPECT_EQ(resolve({"sync.h=1"}).sync().tau(), 0);
  EXPECT_EQ(resolve({"model.transformer.layers=2"}).sync().fragments().balanced(), 2);
  EXPECT_EQ(resolve({"pools.min=100"}).pools().max(), 100);
  EXPECT_EQ(resolve({"sync.fragments.layers=2"}).sync().fragments().order(), v1::STRIDED);
}

TEST(JobSpecTest, KeepsWhatWasGivenAndZerosOfOptionalFields) {
  const v1::JobSpec spec =
      ResolveJobSpec(
          Small({"sync.tau=0", "sync.alpha=0", "sync.outer.momentum=0", "sync.final_round=false",
                 "inner.adamw.weight_decay=0", "inner.schedule.final_fraction=0",
                 "inner.clip_norm=-1", "evaluation.every_cycles=-1", "sync.up.codec=bf16"}))
          .value()
          .spec;
  EXPECT_EQ(spec.sync().tau(), 0);
  EXPECT_EQ(spec.sync().alpha(), 0);
  EXPECT_EQ(spec.sync().outer().momentum(), 0);
  EXPECT_FALSE(spec.sync().final_round());
  EXPECT_EQ(spec.inner().adamw().weight_decay(), 0);
  EXPECT_EQ(spec.inner().schedule().final_fraction(), 0);
  EXPECT_EQ(spec.inner().clip_norm(), -1);
  EXPECT_EQ(spec.evaluation().every_cycles(), -1);
  EXPECT_EQ(spec.evaluation().pools_every_cycles(), -1);
  EXPECT_EQ(spec.sync().up().codec(), v1::BF16);
}

TEST(JobSpecTest, ResolvingTwiceChangesNothing) {
  const v1::JobSpec once = ResolveJobSpec(Small()).value().spec;
  const v1::JobSpec twice = ResolveJobSpec(once).value().spec;
  EXPECT_TRUE(MessageDifferencer::Equals(once, twice));
}

TEST(JobSpecTest, LaysOutCutsAndSchedules) {
  const ResolvedJob job = ResolveJobSpec(Small({"sync.fragments.balanced=2"})).value();
  // Embedding, four layers, head.
  EXPECT_EQ(job.model.units.size(), 6);
  ASSERT_EQ(job.fragments.size(), 3);
  EXPECT_EQ(job.fragments[0].name, "embeddings");
  ASSERT_EQ(job.schedule.size(), 3);
  EXPECT_EQ(job.schedule[2].MergeStep(1), 30);
  EXPECT_THAT(job.warnings, IsEmpty());
}

TEST(JobSpecTest, SyntheticModelNeedsNeitherDataNorBatch) {
  const ResolvedJob job = ResolveJobSpec(ParseJobSpec(R"(
name: vectors
model: {synthetic: {units: 3, elements: 100, inner_delta: [1]}}
train: {steps: 8}
sync: {h: 4, fragments: null}
)")
                                             .value())
                              .value();
  EXPECT_EQ(job.fragments.size(), 3);
  EXPECT_FALSE(job.spec.has_data());
  EXPECT_THAT(job.warnings, IsEmpty());
}

TEST(JobSpecTest, ReportsEveryMissingField) {
  EXPECT_THAT(FaultsOf(v1::JobSpec()),
              UnorderedElementsAre("name", "model", "data", "train.steps"));
  v1::JobSpec spec;
  spec.set_name("a");
  spec.mutable_model()->mutable_transformer();
  EXPECT_THAT(
      FaultsOf(spec),
      UnorderedElementsAre("model.transformer.layers", "model.transformer.dim",
                           "model.transformer.heads", "model.transformer.ff_dim",
                           "model.transformer.context", "data", "train.steps", "train.batch"));
}

TEST(JobSpecTest, ReportsEveryFieldOutOfRange) {
  EXPECT_THAT(
      FaultsWith({"name=Small", "train.steps=-1", "train.batch=-1", "sync.h=5", "sync.tau=5",
                  "sync.alpha=1.5", "sync.outer.lr=0", "sync.outer.momentum=0.9999999",
                  "pools.min=-1", "checkpoint.keep=-1", "checkpoint.every_cycles=-2000000000",
                  "evaluation.batches=-1", "data.eval_fraction=0.6", "inner.adamw.lr=-1",
                  "inner.adamw.beta1=1", "inner.adamw.weight_decay=-0.1",
                  "inner.schedule.final_fraction=2", "data.text.path=''"}),
      UnorderedElementsAre("name", "train.steps", "train.batch", "sync.tau", "sync.alpha",
                           "sync.outer.lr", "sync.outer.momentum", "pools.min", "checkpoint.keep",
                           "checkpoint.every_cycles", "evaluation.batches", "data.eval_fraction",
                           "inner.adamw.lr", "inner.adamw.beta1", "inner.adamw.weight_decay",
                           "inner.schedule.final_fraction", "data.text.path"));
}

// 0 is refused with other words.
TEST(JobSpecTest, TheLeastBatchIsNamed) {
  std::vector<SpecViolation> violations;
  (void)ResolveJobSpec(Small({"train.batch=-1"}), &violations);
  ASSERT_EQ(violations.size(), 1);
  EXPECT_THAT(Describe(violations[0]), HasSubstr("found -1, expected 1 to "));
}

TEST(JobSpecTest, RefusesAbsurdNumbers) {
  const std::pair<const char*, const char*> cases[] = {{"pools.min", "1000000000"},
                                                       {"pools.max", "1000000000"},
                                                       {"evaluation.batches", "2000000000"},
                                                       {"evaluation.every_cycles", "2000000000"},
                                                       {"checkpoint.keep", "1000000"},
                                                       {"checkpoint.every_cycles", "2000000000"},
                                                       {"train.steps", "9223372036854775807"},
                                                       {"train.batch", "2147483647"},
                                                       {"sync.h", "9223372036854775807"},
                                                       {"model.transformer.layers", "1000000000"},
                                                       {"model.transformer.dim", "2147483646"},
                                                       {"model.transformer.heads", "2147483647"},
                                                       {"model.transformer.kv_heads", "-4"},
                                                       {"model.transformer.ff_dim", "2147483647"},
                                                       {"model.transformer.context", "2000000000"},
                                                       {"model.transformer.vocab", "2147483647"},
                                                       {"sync.fragments.balanced", "1000000000"},
                                                       {"inner.adamw.eps", "1e-46"},
                                                       {"inner.muon.adamw.eps", "1e-46"},
                                                       {"inner.muon.lr", "1e-320"}};
  for (const auto& [field, value] : cases) {
    std::vector<SpecViolation> violations;
    EXPECT_FALSE(ResolveJobSpec(Small({absl::StrCat(field, "=", value)}), &violations).ok());
    ASSERT_FALSE(violations.empty()) << field;
    EXPECT_EQ(violations[0].field, field);
    EXPECT_THAT(Describe(violations[0]), AllOf(HasSubstr("found "), HasSubstr("expected ")))
        << field;
  }
}

TEST(JobSpecTest, RefusesContradictions) {
  EXPECT_THAT(FaultsWith({"pools.min=3", "pools.max=2"}), ElementsAre("pools.max"));
  EXPECT_THAT(FaultsWith({"pools.min=2", "pools.names=[a]"}), ElementsAre("pools.names"));
  EXPECT_THAT(FaultsWith({"pools.names=[a, a]"}), ElementsAre("pools.names[1]"));
  EXPECT_THAT(FaultsWith({"pools.names=[B]"}), ElementsAre("pools.names[0]"));
  EXPECT_THAT(FaultsWith({"inner.schedule.warmup_steps=601"}),
              ElementsAre("inner.schedule.warmup_steps"));
  EXPECT_THAT(FaultsWith({"model.transformer.vocab=100"}), ElementsAre("model.transformer.vocab"));
  EXPECT_THAT(FaultsWith({"sync.h=-1"}), ElementsAre("sync.h"));
  EXPECT_THAT(FaultsWith({"sync.tau=-1"}), ElementsAre("sync.tau"));
}

TEST(JobSpecTest, FillsMuonAndItsAdamW) {
  const v1::MuonSpec muon =
      ResolveJobSpec(Small({"inner.muon.scaling=match_adamw", "inner.muon.adamw.lr=2e-3"}))
          ->spec.inner()
          .muon();
  EXPECT_EQ(muon.lr(), 0.02);
  EXPECT_EQ(muon.momentum(), 0.9);
  EXPECT_EQ(muon.weight_decay(), 1.0 / 600);
  EXPECT_EQ(muon.scaling(), v1::MATCH_ADAMW);
  EXPECT_EQ(muon.iterations(), v1::BFLOAT16);
  EXPECT_EQ(muon.adamw().lr(), 2e-3);
  EXPECT_EQ(muon.adamw().beta2(), 0.99);
  EXPECT_EQ(muon.adamw().weight_decay(), 1.0 / 600);
}

TEST(JobSpecTest, RefusesMuonOutOfRangeOrOutOfPlace) {
  EXPECT_THAT(FaultsWith({"inner.muon.lr=-1", "inner.muon.momentum=1", "inner.muon.weight_decay=2",
                          "inner.muon.adamw.beta1=1"}),
              UnorderedElementsAre("inner.muon.lr", "inner.muon.momentum",
                                   "inner.muon.weight_decay", "inner.muon.adamw.beta1"));
  v1::JobSpec synthetic;
  synthetic.set_name("a");
  synthetic.mutable_model()->mutable_synthetic()->set_units(1);
  synthetic.mutable_model()->mutable_synthetic()->set_elements(10);
  synthetic.mutable_train()->set_steps(10);
  synthetic.mutable_inner()->mutable_muon();
  EXPECT_THAT(FaultsOf(synthetic), ElementsAre("inner.muon"));
  synthetic.mutable_inner()->mutable_onebit_adam();
  EXPECT_THAT(FaultsOf(synthetic), ElementsAre("inner.onebit_adam"));
}

TEST(JobSpecTest, Bfloat16MomentsAreForTheCpu) {
  EXPECT_THAT(FaultsWith({"inner.adamw.moments=bfloat16"}), IsEmpty());
  EXPECT_THAT(FaultsWith({"inner.adamw.moments=bfloat16", "train.device=cuda"}),
              ElementsAre("~inner.adamw.moments"));
}

TEST(JobSpecTest, NamesTheFieldThatMakesTheModelImpossible) {
  EXPECT_THAT(FaultsWith({"model.transformer.heads=5"}), ElementsAre("model.transformer.heads"));
  EXPECT_THAT(FaultsWith({"model.transformer.kv_heads=3"}),
              ElementsAre("model.transformer.kv_heads"));
  EXPECT_THAT(FaultsWith({"sync.fragments.balanced=5"}), ElementsAre("sync.fragments.balanced"));
  EXPECT_THAT(FaultsWith({"sync.fragments.layers=0"}), ElementsAre("sync.fragments.layers"));
  EXPECT_THAT(FaultsWith({"model.transformer.heads=5", "sync.tau=30"}),
              UnorderedElementsAre("model.transformer.heads", "sync.tau"));
}

TEST(JobSpecTest, RefusesNumbersThatAreNotFinite) {
  v1::JobSpec spec = Small();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  spec.mutable_sync()->set_alpha(nan);
  spec.mutable_sync()->mutable_outer()->set_lr(nan);
  spec.mutable_inner()->set_clip_norm(nan);
  spec.mutable_inner()->mutable_adamw()->set_lr(std::numeric_limits<double>::infinity());
  EXPECT_THAT(FaultsOf(spec), UnorderedElementsAre("sync.alpha", "sync.outer.lr", "inner.clip_norm",
                                                   "inner.adamw.lr"));
}

TEST(JobSpecTest, EvaluationRunsBesideTrainingOnCpuAlone) {
  EXPECT_FALSE(ResolveJobSpec(Small())->spec.evaluation().beside_training());
  EXPECT_THAT(FaultsWith({"evaluation.beside_training=true"}), IsEmpty());
  EXPECT_THAT(FaultsWith({"evaluation.beside_training=true", "train.device=cuda"}),
              ElementsAre("~evaluation.beside_training"));
}

TEST(JobSpecTest, BlocksAreFusedOnCpuOnly) {
  EXPECT_EQ(ResolveJobSpec(Small())->spec.train().blocks(), v1::AUTO);
  for (const char* blocks : {"auto", "fused", "autograd"})
    EXPECT_THAT(FaultsWith({absl::StrCat("train.blocks=", blocks)}), ElementsAre()) << blocks;
  EXPECT_THAT(FaultsWith({"train.device=cuda", "train.blocks=auto"}), ElementsAre());
  EXPECT_THAT(FaultsWith({"train.device=cuda", "train.blocks=fused"}),
              ElementsAre("~train.blocks"));
}

TEST(JobSpecTest, CudaGraphsNeedADeviceWithEverything) {
  EXPECT_FALSE(ResolveJobSpec(Small())->spec.train().cuda_graphs());
  EXPECT_THAT(FaultsWith({"train.cuda_graphs=true"}), ElementsAre("train.cuda_graphs"));
  const auto on_cuda = [](const std::string& other) {
    return FaultsWith({"train.cuda_graphs=true", "train.device=cuda", other});
  };
  for (const char* preset : {"ddp", "zero1"})
    EXPECT_THAT(on_cuda(absl::StrCat("partition.preset=", preset)), IsEmpty()) << preset;
  for (const char* preset : {"zero2", "zero3", "zeropp", "frontier3"}) {
    EXPECT_THAT(on_cuda(absl::StrCat("partition.preset=", preset)),
                ElementsAre("train.cuda_graphs"))
        << preset;
  }
  EXPECT_THAT(on_cuda("offload.optimizer=true"), ElementsAre("train.cuda_graphs"));
}

TEST(JobSpecTest, PartitionsAreAPresetOrAMap) {
  for (const char* preset : PartitionPresets()) {
    const auto job = ResolveJobSpec(Small({absl::StrCat("partition.preset=", preset)}));
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(PartitionOf(job->spec.partition()), PartitionPreset(preset));
  }
  const auto job = ResolveJobSpec(
      Small({"partition.map={weights: {level: pool, bits: 8}, secondary: {level: node}, "
             "gradients: {level: pool, bits: 4, error_feedback: true}, optimizer: pool}"}));
  ASSERT_TRUE(job.ok()) << job.status();
  PartitionMap expected = *PartitionPreset("zeropp");
  expected.error_feedback = true;
  EXPECT_EQ(PartitionOf(job->spec.partition()).value(), expected);
  EXPECT_FALSE(job->spec.partition().has_gathers_ahead());
  EXPECT_EQ(job->spec.partition().preset(), "") << "the default does not come beside a map";
}

// A job requires by name the features that older workers lack.
TEST(JobSpecTest, SixBitsAveragesOfErrorsAndTheDepthOfGathersAreNeeds) {
  const auto job = ResolveJobSpec(Small(
      {"partition={map: {weights: {level: pool, bits: 6}, optimizer: pool}, gathers_ahead: 3}"}));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.partition().gathers_ahead(), 3);
  EXPECT_THAT(NeedsOf(job->spec),
              testing::IsSupersetOf({"partition:bits6", "partition:gathers-ahead"}));
  const auto plain = ResolveJobSpec(Small({"partition={preset: zeropp, gathers_ahead: 1}"}));
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(NeedsOf(plain->spec), testing::Not(testing::Contains("partition:gathers-ahead")));
  const auto averaged = ResolveJobSpec(Small(
      {"partition.map={gradients: {level: pool, bits: 4, error_feedback: true, error_beta: 0.8, "
       "error_reset_steps: 512}, optimizer: pool}"}));
  ASSERT_TRUE(averaged.ok()) << averaged.status();
  EXPECT_THAT(NeedsOf(averaged->spec), testing::Contains("partition:error-average"));
  const PartitionMap map = PartitionOf(averaged->spec.partition()).value();
  EXPECT_EQ(map.error_beta, 0.8);
  EXPECT_EQ(map.error_reset_steps, 512);
}

TEST(JobSpecTest, RefusesPartitionsThatMakeNoSense) {
  for (const auto& [assignment, field] : std::vector<std::pair<std::string, std::string>>{
           {"partition.map={weights: {level: pool}}", "partition.map.weights.level"},
           {"partition.map={gradients: {level: pool}, optimizer: node}",
            "partition.map.gradients.level"},
           {"partition.map={weights: {level: pool, bits: 5}, optimizer: pool}",
            "partition.map.weights.bits"},
           {"partition.map={gradients: {bits: 16, error_feedback: true}}",
            "partition.map.gradients.error_feedback"},
           {"partition.map={gradients: {level: pool, bits: 4, error_beta: 0.8}, optimizer: pool}",
            "partition.map.gradients.error_beta"},
           {"partition.map={secondary: {level: node}}", "partition.map.secondary"},
           {"partition={preset: zero3, gathers_ahead: 65}", "partition.gathers_ahead"},
           {"partition={preset: zero3, gathers_ahead: -1}", "partition.gathers_ahead"},
           {"partition={preset: zero2, gathers_ahead: 2}", "partition.gathers_ahead"},
           {"train.accumulation=1000000", "train.accumulation"},
           {"train.accumulation=-1", "train.accumulation"}}) {
    EXPECT_THAT(FaultsWith({assignment}), ElementsAre(field)) << assignment;
  }
}

TEST(JobSpecTest, OffloadNeedsWhatItMoves) {
  for (const auto& [assignments, fields] :
       std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>>{
           {{"offload.optimizer=true"}, {}},
           {{"offload={optimizer: true, stride: 0, device_share: 0.3}"}, {}},
           {{"offload={optimizer: true, parameters: true}", "partition.preset=zero3"}, {}},
           {{"offload={optimizer: true, parameters: true}", "partition.preset=zeropp"}, {}},
           {{"offload={optimizer: true, parameters: true}"}, {"offload.parameters"}},
           {{"offload.parameters=true"}, {"offload.parameters"}},
           {{"offload.stride=2"}, {"offload.stride"}},
           {{"offload.device_share=1"}, {"offload.device_share"}},
           {{"offload.subgroup_elements=128"}, {"offload.subgroup_elements"}},
           {{"offload={optimizer: true, stride: -1}"}, {"offload.stride"}},
           {{"offload={optimizer: true, stride: 1025}"}, {"offload.stride"}},
           {{"offload={optimizer: true, device_share: 1.5}"}, {"offload.device_share"}},
           {{"offload={optimizer: true, subgroup_elements: 1000}"}, {"offload.subgroup_elements"}},
           {{"offload.optimizer=true", "inner.muon.lr=0.02"}, {}},
           {{"offload.optimizer=true", "inner.onebit_adam.lr=0.01"}, {"offload.optimizer"}}}) {
    EXPECT_THAT(FaultsWith(assignments), ElementsAreArray(fields)) << assignments[0];
  }
  const auto job = ResolveJobSpec(Small({"offload.optimizer=true"}));
  EXPECT_EQ(job->spec.offload().subgroup_elements(), 4'194'304);
  EXPECT_FALSE(job->spec.offload().has_stride());
  EXPECT_EQ(
      ResolveJobSpec(Small({"offload={optimizer: true, subgroup_elements: 1000}"})).status().code(),
      absl::StatusCode::kInvalidArgument);
}

TEST(JobSpecTest, AQuorumHasDefaultsAndNeedsPoolsThatKnowIt) {
  const auto job = ResolveJobSpec(Small({"sync.mode=quorum", "pools={min: 3}"}));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->spec.sync().quorum().pools(), 3);
  EXPECT_EQ(job->spec.sync().quorum().grace_seconds(), 30);
  EXPECT_THAT(NeedsOf(job->spec), Contains("sync:quorum"));
  const auto given =
      ResolveJobSpec(Small({"sync={mode: quorum, quorum: {pools: 1, grace_seconds: 0}}"}));
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->spec.sync().quorum().grace_seconds(), 0);
}

TEST(JobSpecTest, RefusesAQuorumThatCannotBe) {
  for (const auto& [assignment, field] : std::vector<std::pair<std::string, std::string>>{
           {"sync.quorum={pools: 1}", "sync.quorum"},
           {"sync={mode: quorum, quorum: {pools: 2}}", "sync.quorum.pools"},
           {"sync={mode: quorum, quorum: {pools: -1}}", "sync.quorum.pools"},
           {"sync={mode: quorum, quorum: {grace_seconds: 3601}}", "sync.quorum.grace_seconds"},
           {"sync={mode: quorum, quorum: {grace_seconds: -1}}", "sync.quorum.grace_seconds"}}) {
    EXPECT_THAT(FaultsWith({assignment}), ElementsAre(field)) << assignment;
  }
  EXPECT_THAT(FaultsWith({"sync.mode=quorum", "inner.onebit_adam={local_step_scaler: 100}"}),
              Contains("inner.onebit_adam.local_step_scaler"));
}

TEST(JobSpecTest, RefusesOptionsThatACodecLacks) {
  for (const auto& [assignment, field] : std::vector<std::pair<std::string, std::string>>{
           {"sync.up={codec: bf16, search_scale: true}", "sync.up.search_scale"},
           {"sync.up={codec: sign1, stochastic_rounding: true}", "sync.up.stochastic_rounding"},
           {"sync.up={codec: int4, stochastic_rounding: true, search_scale: true}",
            "sync.up.stochastic_rounding"},
           {"sync.up={codec: int8, rms_scale: true}", "sync.up.rms_scale"},
           {"sync.up={codec: int8, feedback_decay: 0.9}", "sync.up.feedback_decay"},
           {"sync.up={codec: topk2, feedback_decay: 1.5}", "sync.up.feedback_decay"},
           // It would be 0 in float32.
           {"sync.up={codec: topk2, feedback_decay: 1e-60}", "sync.up.feedback_decay"},
           {"sync.down={codec: e3m0, error_feedback: false}", "sync.down.error_feedback"},
           {"sync.down.codec=topk2", "sync.down.codec"}}) {
    std::vector<SpecViolation> violations;
    EXPECT_FALSE(ResolveJobSpec(Small({assignment}), &violations).ok());
    ASSERT_EQ(violations.size(), 1) << assignment;
    EXPECT_EQ(violations[0].field, field);
    EXPECT_THAT(Describe(violations[0]), AllOf(HasSubstr("found "), HasSubstr("expected ")));
  }
}

TEST(JobSpecTest, EveryCodecIsTakenWithItsDefaults) {
  for (const char* codec : {"fp32", "bf16", "e3m0", "int8", "int6", "int4", "sign1", "topk2"}) {
    const auto resolved = ResolveJobSpec(Small({absl::StrCat("sync.up.codec=", codec)}));
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    const v1::CodecSpec& up = resolved->spec.sync().up();
    const bool sparse = up.codec() == v1::TOPK2;
    EXPECT_EQ(up.error_feedback(), sparse || up.codec() == v1::SIGN1) << codec;
    EXPECT_EQ(up.feedback_decay(), sparse ? 0.95 : 1) << codec;
    EXPECT_TRUE(resolved->spec.sync().down().error_feedback());
  }
}

TEST(JobSpecTest, UnknownPresetNamesTheNearest) {
  std::vector<SpecViolation> violations;
  const absl::Status status =
      ResolveJobSpec(Small({"partition.preset=zero11"}), &violations).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(violations.size(), 1);
  EXPECT_THAT(violations[0].hint, HasSubstr("'zero1'"));
}

TEST(JobSpecTest, RefusesWhatANewerClientSends) {
  v1::JobSpec spec = Small();
  spec.mutable_train()->set_device(static_cast<v1::Device>(77));
  spec.mutable_sync()->mutable_up()->set_codec(static_cast<v1::Codec>(78));
  spec.mutable_sync()->GetReflection()->MutableUnknownFields(spec.mutable_sync())->AddVarint(99, 1);
  EXPECT_THAT(FaultsOf(spec), UnorderedElementsAre("train.device", "sync.up.codec", "~sync"));
}

TEST(JobSpecTest, WarnsOfMomentumThatHasTooFewRounds) {
  const auto warnings = [](const std::string& momentum, const std::string& steps) {
    return ResolveJobSpec(Small({"sync.outer.momentum=" + momentum, "train.steps=" + steps}))
        .value()
        .warnings;
  };
  EXPECT_THAT(warnings("0.9", "2999"), ElementsAre(HasSubstr("sync.outer.momentum: 0.9")));
  EXPECT_THAT(warnings("0.9", "3000"), IsEmpty());
  EXPECT_THAT(warnings("0.7", "1499"), ElementsAre(HasSubstr("needs rounds")));
  EXPECT_THAT(warnings("0.7", "1500"), IsEmpty());
  EXPECT_THAT(warnings("0.6", "600"), IsEmpty());
}

TEST(JobSpecTest, WarnsOfWhatTheSyntheticModelLeavesOut) {
  v1::JobSpec spec;
  spec.set_name("a");
  spec.mutable_model()->mutable_synthetic()->set_units(1);
  spec.mutable_model()->mutable_synthetic()->set_elements(10);
  spec.mutable_train()->set_steps(60);
  EXPECT_THAT(ResolveJobSpec(spec).value().warnings, IsEmpty());
  spec.mutable_partition()->set_preset("zero3");
  EXPECT_THAT(ResolveJobSpec(spec).value().warnings, ElementsAre(HasSubstr("partition: ")));
}

TEST(JobSpecTest, WarnsOfSettingsThatCannotCount) {
  const auto warnings = [](const std::vector<std::string>& overrides) {
    return ResolveJobSpec(Small(overrides)).value().warnings;
  };
  EXPECT_THAT(warnings({"train.steps=29"}),
              ElementsAre(AllOf(HasSubstr("train.steps: 29"), Not(HasSubstr("checkpoint")))));
  EXPECT_THAT(warnings({"train.steps=29", "sync.final_round=false"}),
              ElementsAre(HasSubstr("so the job ends without a checkpoint")));
  EXPECT_THAT(warnings({"sync.up={codec: sign1, error_feedback: false}"}),
              ElementsAre(HasSubstr("lost for good")));
  EXPECT_THAT(warnings({"sync.up={codec: fp32, error_feedback: true}"}),
              ElementsAre(HasSubstr("sync.up.error_feedback")));
  EXPECT_THAT(warnings({"sync.alpha=1"}), ElementsAre(HasSubstr("sync.alpha")));
  EXPECT_THAT(warnings({"sync.alpha=0.9", "sync.down={codec: sign1}"}),
              ElementsAre(HasSubstr("sync.alpha: training may diverge")));
  EXPECT_THAT(warnings({"sync.alpha=0.9"}), IsEmpty());
  EXPECT_THAT(warnings({"sync.down={codec: sign1}"}), IsEmpty());
  EXPECT_THAT(warnings({"sync.fragments={balanced: 2, order: strided}"}),
              ElementsAre(HasSubstr("sync.fragments.order")));
  EXPECT_THAT(warnings({"inner.schedule.warmup_steps=600"}),
              ElementsAre(HasSubstr("inner.schedule.warmup_steps: covers all of train.steps")));
  EXPECT_THAT(warnings({"inner.schedule.warmup_steps=599"}), IsEmpty());
}

TEST(JobSpecTest, WarnsOfNamesOfDataThatNoPoolHas) {
  const auto warning = [](const std::vector<std::string>& overrides,
                          const std::vector<std::string>& pools) {
    return WarningOfPoolNames(ResolveJobSpec(Small(overrides)).value().spec, pools);
  };
  const std::string two =
      "data.pools=[{pool: site-a, text: {path: a}}, {pool: site-bb, text: {path: b}}]";
  EXPECT_EQ(warning({two}, {"site-a", "site-b"}),
            "data.pools: no pool is named site-bb now, and site-b would read the default source; "
            "is 'site-bb' meant to be 'site-b'?");
  EXPECT_EQ(warning({two}, {"p1", "p2", "p3", "p4", "p5", "p6"}),
            "data.pools: no pool is named site-a, site-bb now, and p1, p2, p3, p4 and 2 more would "
            "read the default source");
  EXPECT_EQ(warning({two}, {"site-a", "site-b", "site-bb"}), "");
  EXPECT_EQ(warning({two}, {"site-a"}), "") << "site-bb may come";
  EXPECT_EQ(warning({two}, {}), "");
  EXPECT_EQ(warning({two, "pools.names=[site-a, site-bb, site-b]"}, {"site-b"}), "");
  EXPECT_EQ(warning({}, {"site-b"}), "");
}

}  // namespace
}  // namespace longhaul
