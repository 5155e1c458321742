// A CUDA rank against a CPU rank. Skips where there is no device.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/codec/cuda/cuda_codec_module.h"
#include "tests/testing/cuda_streams.h"
#include "tests/testing/fake_chat_renderer.h"
#include "tests/testing/language_run.h"
#include "tests/testing/stream_communicator.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/thread_communicator.h"
#include "worker/trainer/torch_replica.h"

namespace longhaul {
namespace {

LanguageRun TinyOptions(DeviceKind device, ComputePrecision precision) {
  const std::string path = WrittenOnce("torch_replica_cuda", [](std::ostream& file) {
    for (int i = 0; i < 400; ++i)
      file << "the quick brown fox " << i % 7 << " jumps over the lazy dog\n";
  });
  return {.plan = {.batch = 4,
                   .seed = 5,
                   .learning_rate = {.peak = 3e-3, .steps = 100, .warmup_steps = 5},
                   .optimizer = AdamWOptions{.weight_decay = 0.01},
                   .device = device,
                   .precision = precision,
                   .eval_batches = 2},
          .language = {.shape = {.layers = 2,
                                 .dim = 64,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .ff_dim = 128,
                                 .context = 32,
                                 .vocab = 256},
                       .sources = {{.source = {.path = path}}}}};
}

// A line a document; most examples have several.
void GiveDocuments(LanguageRun& options) {
  const std::filesystem::path folder = testing::TempDir() + "/torch_replica_cuda_documents";
  std::filesystem::create_directories(folder);
  for (int i = 0; i < 400; ++i) {
    std::ofstream(folder / std::to_string(1000 + i))
        << "the quick fox " << i % 7 << std::string(i % 5, '!') << "\n";
  }
  options.language.sources = {{.source = {.path = folder}}};
  options.language.separate_documents = true;
}

std::vector<double> LossesOf(const LanguageRun& options) {
  std::vector<double> losses;
  const auto replica = CreateReplica(options);
  EXPECT_TRUE(replica.ok()) << replica.status();
  for (int step = 1; replica.ok() && step <= 20; ++step) {
    const auto stats = (*replica)->Step(step);
    EXPECT_TRUE(stats.ok()) << stats.status();
    if (!stats.ok()) break;
    losses.push_back(stats->loss);
  }
  return losses;
}

// Of one rank.
void ExpectOffloadedAsKept(DeviceKind device, ComputePrecision precision) {
  const double relative = precision == ComputePrecision::kFloat32 ? 1e-3 : 2e-2;
  const std::vector<double> kept = LossesOf(TinyOptions(device, precision));
  ASSERT_EQ(kept.size(), 20u);
  for (const int stride : {0, 1, 2, -1}) {
    for (const bool parameters : {false, true}) {
      SCOPED_TRACE(absl::StrCat("stride ", stride, parameters ? ", parameters" : ""));
      LanguageRun options = TinyOptions(device, precision);
      options.plan.offload = {.optimizer = true,
                              .parameters = parameters,
                              .schedule = {.stride = stride},
                              .subgroup_elements = 1024};
      if (parameters) options.plan.partition = PartitionPreset("zero3").value();
      const std::vector<double> offloaded = LossesOf(options);
      ASSERT_EQ(offloaded.size(), kept.size());
      for (size_t step = 0; step < kept.size(); ++step)
        EXPECT_NEAR(offloaded[step], kept[step], relative * kept[step]) << "step " << step;
    }
  }
}

class TorchReplicaCudaTest : public testing::Test {
 protected:
  // The CUDA rank first: torch looks for devices once, at the first use of autograd.
  void SetUp() override {
    const auto replica = CreateReplica(TinyOptions(DeviceKind::kCuda, ComputePrecision::kBfloat16));
    if (absl::IsFailedPrecondition(replica.status())) GTEST_SKIP() << replica.status().message();
    ASSERT_TRUE(replica.ok()) << replica.status();
  }

  // Trains on the device and on the CPU, and compares the losses of both step by step.
  static void ExpectSameLosses(ComputePrecision precision, double relative,
                               bool separate_documents = false) {
    LanguageRun of_device = TinyOptions(DeviceKind::kCuda, precision),
                of_host = TinyOptions(DeviceKind::kCpu, ComputePrecision::kFloat32);
    for (LanguageRun* const options : {&of_device, &of_host})
      if (separate_documents) GiveDocuments(*options);
    const auto device = CreateReplica(of_device).value();
    const auto host = CreateReplica(of_host).value();
    EXPECT_EQ(ReadAll(*device), ReadAll(*host));
    for (int step = 1; step <= 60; ++step) {
      const auto actual = device->Step(step), expected = host->Step(step);
      ASSERT_TRUE(actual.ok()) << actual.status();
      EXPECT_NEAR(actual->loss, expected->loss, relative * expected->loss) << "step " << step;
    }
    EXPECT_NEAR(device->Evaluate()->loss, host->Evaluate()->loss,
                relative * host->Evaluate()->loss);
    EXPECT_LT(device->Evaluate()->loss, 3.0);
  }

  static std::vector<std::vector<float>> ReadAll(Replica& replica) {
    std::vector<std::vector<float>> units;
    for (size_t unit = 0; unit < replica.layout().units.size(); ++unit) {
      units.emplace_back(replica.layout().units[unit].elements);
      EXPECT_TRUE(replica.Read(static_cast<int>(unit), 0, absl::MakeSpan(units.back())).ok());
    }
    return units;
  }
};

TEST_F(TorchReplicaCudaTest, Float32FollowsTheCpu) {
  ExpectSameLosses(ComputePrecision::kFloat32, 0.01);
}

TEST_F(TorchReplicaCudaTest, Bfloat16StaysNearTheCpu) {
  ExpectSameLosses(ComputePrecision::kBfloat16, 0.05);
}

// By autograd, by our kernels and by graphs; micro-batches count different numbers of targets.
TEST_F(TorchReplicaCudaTest, TheLossMaskIsThatOfTheCpu) {
  const FakeChatRenderer renderer;
  const std::string path = WrittenOnce("torch_replica_cuda_chat", [](std::ostream& file) {
    for (int i = 0; i < 400; ++i)
      file << "the question " << i % 7 << (i % 3 == 0 ? " A" : " THE QUICK ANSWER") << "\n";
  });
  const auto options_of = [&](DeviceKind device, ComputePrecision precision) {
    LanguageRun options = TinyOptions(device, precision);
    options.language.sources = {
        {.source = {.kind = SourceKind::kChat, .path = path, .tokenizer = renderer.model()}}};
    options.language.token_work.folder = testing::TempDir() + "/torch_replica_cuda_chat_tokens";
    options.plan.accumulation = 2;
    return options;
  };
  const auto host = LossesOf(options_of(DeviceKind::kCpu, ComputePrecision::kFloat32));
  for (const ComputePrecision precision :
       {ComputePrecision::kFloat32, ComputePrecision::kBfloat16}) {
    const double relative = precision == ComputePrecision::kFloat32 ? 0.01 : 0.05;
    for (const bool graphs : {false, true}) {
      for (const Blocks blocks : {Blocks::kAuto, Blocks::kAutograd}) {
        LanguageRun options = options_of(DeviceKind::kCuda, precision);
        options.plan.cuda_graphs = graphs;
        options.plan.blocks = blocks;
        const auto device = LossesOf(options);
        ASSERT_EQ(device.size(), host.size());
        for (size_t step = 0; step < host.size(); ++step)
          EXPECT_NEAR(device[step], host[step], relative * host[step]) << "step " << step;
      }
    }
  }
}

TEST_F(TorchReplicaCudaTest, DocumentsAreThoseOfTheCpu) {
  ExpectSameLosses(ComputePrecision::kFloat32, 0.01, true);
  ExpectSameLosses(ComputePrecision::kBfloat16, 0.05, true);
}

// Micro-batches of two sizes; documents; forward run again in backward.
TEST_F(TorchReplicaCudaTest, GraphsTrainAsWhatTheyRecord) {
  for (const ComputePrecision precision :
       {ComputePrecision::kFloat32, ComputePrecision::kBfloat16}) {
    for (const bool other : {false, true}) {
      LanguageRun options = TinyOptions(DeviceKind::kCuda, precision);
      options.plan.accumulation = 3;
      options.plan.recompute = other;
      if (other) GiveDocuments(options);
      const std::vector<double> expected = LossesOf(options);
      options.plan.cuda_graphs = true;
      const std::vector<double> losses = LossesOf(options);
      ASSERT_EQ(losses.size(), expected.size());
      const double relative = precision == ComputePrecision::kFloat32 ? 1e-3 : 2e-2;
      for (size_t step = 0; step < losses.size(); ++step)
        EXPECT_NEAR(losses[step], expected[step], relative * expected[step]) << "step " << step;
    }
  }
}

TEST_F(TorchReplicaCudaTest, ReadsWhatWasWritten) {
  const auto replica =
      CreateReplica(TinyOptions(DeviceKind::kCuda, ComputePrecision::kBfloat16)).value();
  const double before = replica->Evaluate()->loss;
  const std::vector<float> values(64, 0.0f);  // The final norm: all logits become equal.
  const int head = static_cast<int>(replica->layout().units.size()) - 1;
  ASSERT_TRUE(replica->Write(head, 0, values).ok());
  ASSERT_TRUE(replica->Publish({head}).ok());
  EXPECT_EQ(ReadAll(*replica)[head][63], 0.0f);
  EXPECT_NE(replica->Evaluate()->loss, before);
  EXPECT_NEAR(replica->Evaluate()->loss, std::log(256), 1e-3);
}

// What a fragment's coder relies on: a copy that is enqueued on the training's stream is of the
// steps so far, though nobody waited for them.
TEST_F(TorchReplicaCudaTest, ACopyOnItsStreamIsOfTheStepsSoFar) {
  const auto codec = LoadCudaCodec(0);
  ASSERT_TRUE(codec.ok()) << codec.status();
  const auto replica =
      CreateReplica(TinyOptions(DeviceKind::kCuda, ComputePrecision::kBfloat16)).value();
  const int64_t elements = replica->layout().units[1].elements;
  const DeviceFloats copy = (*codec)->AllocateFloats(elements).value();
  ASSERT_TRUE(replica->Step(1).ok());
  ASSERT_NE(replica->DeviceParameters(1, 0), nullptr);
  DeviceRuntime& runtime = (*codec)->runtime();
  ASSERT_TRUE(runtime
                  .Copy(DeviceRuntime::Queue::kTraining, copy.get(),
                        replica->DeviceParameters(1, 0),
                        elements * static_cast<int64_t>(sizeof(float)))
                  .ok());
  ASSERT_TRUE(runtime.FollowTraining().ok());
  const std::vector<float> expected = ReadAll(*replica)[1];
  ASSERT_TRUE(replica->Step(2).ok());
  EXPECT_NE(ReadAll(*replica)[1], expected);
  std::vector<float> copied(elements);
  ASSERT_TRUE((*codec)->Download(copy.get(), absl::MakeSpan(copied)).ok());
  EXPECT_EQ(copied, expected);
}

// State in host memory: updated there, on the device, or in turn; with weights that come for each
// use, and with a stride that is measured. Each trains as the device does with all of its own.
TEST_F(TorchReplicaCudaTest, OffloadedStateTrainsAsTheDevicesOwn) {
  for (const ComputePrecision precision :
       {ComputePrecision::kFloat32, ComputePrecision::kBfloat16}) {
    ExpectOffloadedAsKept(DeviceKind::kCuda, precision);
  }
}

// The same on the emulated device.
TEST(TorchReplicaOffloadTest, OffloadedStateTrainsAsTheDevicesOwn) {
  ExpectOffloadedAsKept(DeviceKind::kCpu, ComputePrecision::kFloat32);
}

// Ranks that share a device, as threads: their collectives cross host memory, everything else is on
// streams of the device.
TEST_F(TorchReplicaCudaTest, APoolTrainsAsOneOfTheHost) {
  for (const char* preset : {"zero3", "zeropp"}) {
    std::vector<double> losses[2];
    for (const DeviceKind device : {DeviceKind::kCuda, DeviceKind::kCpu}) {
      auto communicators = MakeThreadCommunicators(4);
      std::vector<std::thread> ranks;
      for (int rank = 0; rank < 4; ++rank) {
        ranks.emplace_back([&, rank] {
          LanguageRun options = TinyOptions(device, ComputePrecision::kFloat32);
          options.plan.partition = PartitionPreset(preset).value();
          options.site.link.communicator = communicators[rank].get();
          options.site.link.ranks_of_node = {2, 2};
          const auto replica = CreateReplica(options);
          ASSERT_TRUE(replica.ok()) << replica.status();
          for (int step = 1; step <= 20; ++step) {
            const auto stats = (*replica)->Step(step);
            ASSERT_TRUE(stats.ok()) << stats.status();
            if (rank == 0) losses[device == DeviceKind::kCpu].push_back(stats->loss);
          }
        });
      }
      for (std::thread& rank : ranks) rank.join();
    }
    ASSERT_EQ(losses[0].size(), losses[1].size());
    for (size_t step = 0; step < losses[0].size(); ++step)
      EXPECT_NEAR(losses[0][step], losses[1][step], 5e-3 * losses[1][step]) << preset;
  }
}

// The same with collectives in the order of the device's streams, against those that cross host
// memory: the sums are the same.
TEST_F(TorchReplicaCudaTest, RanksMeetInDeviceMemoryAsTheyDoInTheHosts) {
  const auto streams = LoadCudaStreams(0);
  ASSERT_TRUE(streams.ok()) << streams.status();
  for (const auto& [preset, nodes] : std::vector<std::pair<const char*, std::vector<int>>>{
           {"zero3", {2}}, {"zeropp", {2, 2}}, {"frontier3", {4, 4}}}) {
    std::vector<double> losses[2];
    for (const bool on_device : {true, false}) {
      const int size = nodes[0] * static_cast<int>(nodes.size());
      auto group = on_device ? MakeStreamCommunicators(size, *streams).value()
                             : MakeThreadCommunicators(size);
      std::vector<std::thread> ranks;
      for (int rank = 0; rank < size; ++rank) {
        ranks.emplace_back([&, rank, preset = preset, nodes = nodes] {
          LanguageRun options = TinyOptions(DeviceKind::kCuda, ComputePrecision::kFloat32);
          options.plan.batch = 8;
          options.plan.partition = PartitionPreset(preset).value();
          options.site.link.communicator = group[rank].get();
          options.site.link.on_device = on_device;
          options.site.link.ranks_of_node = nodes;
          const auto replica = CreateReplica(options);
          ASSERT_TRUE(replica.ok()) << replica.status();
          for (int step = 1; step <= 20; ++step) {
            const auto stats = (*replica)->Step(step);
            ASSERT_TRUE(stats.ok()) << stats.status();
            if (rank == 0) losses[on_device].push_back(stats->loss);
          }
        });
      }
      for (std::thread& rank : ranks) rank.join();
    }
    ASSERT_EQ(losses[0].size(), 20u) << preset;
    // Torch's own kernels may add in another order from run to run.
    for (int step = 0; step < 20; ++step)
      EXPECT_NEAR(losses[1][step], losses[0][step], 1e-4 * losses[0][step]) << preset << step;
  }
}

}  // namespace
}  // namespace longhaul
