#include "worker/offload/interleaved_adamw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "worker/movement/emulated_movement.h"
#include "worker/optim/adamw.h"
#include "worker/optim/bfloat16.h"
#include "worker/optim/clipping.h"
#include "worker/optim/squared_norm.h"

namespace longhaul {
namespace {

using Values = std::vector<std::vector<float>>;  // By subgroup.

struct Case {
  UpdateScheduleOptions schedule;
  int subgroups = 8;
  uint64_t seed = 1;
  EmulatedMovement::Mode mode = EmulatedMovement::Mode::kLate;
  bool narrow = false;  // Gradients.
  MomentPrecision moments = MomentPrecision::kFloat32;
  bool flush = true;
  int steps = 60;
  bool write = false;  // Masters and moments, in the middle.
};

struct Result {
  Values parameters, moment, variance;
  std::vector<std::vector<uint16_t>> shadow;
  bool operator==(const Result&) const = default;
};

class Training {
 public:
  explicit Training(const Case& options) : case_(options), random_(7) {
    for (int i = 0; i < options.subgroups; ++i) {
      const int64_t size = 64 + static_cast<int64_t>(random_.Below(700));
      shapes_.push_back({.elements = size, .decay = i % 3 != 0});
      result_.parameters.push_back(Noise(size, 1));
      result_.shadow.emplace_back(size);
    }
  }
  AdamWOptions adamw() const { return {.weight_decay = 0.1, .moments = case_.moments}; }

  // `interleaved`: null, or the same object.
  Result Run(Optimizer& optimizer, InterleavedAdamW* interleaved) {
    for (int step = 1; step <= case_.steps; ++step) Step(step, optimizer, interleaved);
    for (size_t i = 0; i < shapes_.size(); ++i) {
      for (const auto& [state, to] : {std::pair{OptimizerState::kMoment, &result_.moment},
                                      {OptimizerState::kVariance, &result_.variance}}) {
        to->emplace_back(shapes_[i].elements);
        EXPECT_TRUE(
            optimizer.ReadState(state, static_cast<int>(i), 0, absl::MakeSpan(to->back())).ok());
      }
    }
    return result_;
  }
  Result Plain() {
    AdamW optimizer(adamw(), shapes_);
    return Run(optimizer, nullptr);
  }
  Result Interleaved() {
    EmulatedMovement movement({.mode = case_.mode, .seed = case_.seed});
    std::vector<InterleavedAdamW::Subgroup> subgroups;
    for (size_t i = 0; i < shapes_.size(); ++i)
      subgroups.push_back({shapes_[i], absl::MakeSpan(result_.parameters[i])});
    const InterleavedAdamW::Options options{
        .adamw = adamw(), .schedule = case_.schedule, .shadow = true};
    auto optimizer = InterleavedAdamW::Create(options, subgroups, movement, EmulatedAdamW, nullptr);
    EXPECT_TRUE(optimizer.ok()) << optimizer.status();
    return Run(**optimizer, optimizer->get());
  }

 private:
  std::vector<float> Noise(int64_t size, double scale) {
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(scale * (random_.Uniform() - 0.5));
    return values;
  }

  void Step(int step, Optimizer& optimizer, InterleavedAdamW* interleaved) {
    if (interleaved != nullptr) interleaved->PrefetchState();
    Values gradients;
    std::vector<std::vector<uint16_t>> bits;
    std::vector<SubgroupUpdate> updates;
    double sum = 0;
    for (size_t i = 0; i < shapes_.size(); ++i) {
      gradients.push_back(Noise(shapes_[i].elements, 2));
      if (step == kOverflow && i == 2) gradients[i][5] = std::numeric_limits<float>::infinity();
      sum += SquaredNorm(gradients[i]);
      bits.emplace_back();
      for (const float value : gradients[i]) bits.back().push_back(ToBfloat16(value));
    }
    for (size_t i = 0; i < shapes_.size(); ++i) {
      updates.push_back({.subgroup = static_cast<int>(i),
                         .parameters = absl::MakeSpan(result_.parameters[i]),
                         .shadow = absl::MakeSpan(result_.shadow[i])});
      if (case_.narrow) {
        updates[i].narrow_gradients = bits[i];
      } else {
        updates[i].gradients = gradients[i];
      }
      if (interleaved != nullptr && case_.flush) interleaved->FlushGradients(updates.back());
    }
    if (step == kOverflow) {  // Skipped.
      if (interleaved != nullptr) {
        EXPECT_TRUE(interleaved->ForgetGradients().ok());
      }
      return;
    }
    optimizer.Begin({.learning_rate = 0.01, .gradient_scale = ClipScale(std::sqrt(sum), 3)});
    for (const SubgroupUpdate& update : updates) optimizer.Submit(update);
    const absl::Status status = optimizer.Finish();
    ASSERT_TRUE(status.ok()) << status;
    if (case_.write && step == 30) Write(optimizer, interleaved);
  }

  // As a merge with outer parameters does, while state may be on its way.
  void Write(Optimizer& optimizer, InterleavedAdamW* interleaved) {
    if (interleaved != nullptr) interleaved->PrefetchState();
    for (size_t i = 0; i < shapes_.size(); i += 2) {
      const int subgroup = static_cast<int>(i);
      if (interleaved != nullptr) {
        EXPECT_TRUE(interleaved->BeginWrite(subgroup).ok());
      }
      for (float& value : result_.parameters[i]) value *= 0.5f;
      EXPECT_TRUE(optimizer.WriteState(OptimizerState::kMoment, subgroup, 3, Noise(20, 1)).ok());
    }
  }

  static constexpr int kOverflow = 17;
  const Case case_;
  Random random_;
  std::vector<SubgroupShape> shapes_;
  Result result_;
};

void ExpectEqual(const Case& options) {
  SCOPED_TRACE(absl::StrCat("stride ", options.schedule.stride, ", share ",
                            options.schedule.device_share, ", subgroups ", options.subgroups,
                            ", seed ", options.seed));
  const Result plain = Training(options).Plain(), other = Training(options).Interleaved();
  EXPECT_TRUE(plain.parameters == other.parameters);
  EXPECT_TRUE(plain.moment == other.moment);
  EXPECT_TRUE(plain.variance == other.variance);
  EXPECT_TRUE(plain.shadow == other.shadow);
  EXPECT_FALSE(plain.parameters ==
               Training({.subgroups = options.subgroups, .steps = 1}).Plain().parameters);
}

TEST(InterleavedAdamWTest, EqualsThePlainUpdateBitForBit) {
  uint64_t seed = 0;
  for (const int stride : {2, 3, 4, 7, 0, 1}) {
    for (const double share : {0.0, 0.3, 1.0}) {
      for (const int subgroups : {8, 13, 24}) {
        ExpectEqual({.schedule = {stride, share}, .subgroups = subgroups, .seed = ++seed});
      }
    }
  }
}

TEST(InterleavedAdamWTest, IsExactWithThreads) {
  for (const int stride : {2, 3, 0}) {
    ExpectEqual(
        {.schedule = {stride, 0.3}, .subgroups = 11, .mode = EmulatedMovement::Mode::kThreads});
  }
}

TEST(InterleavedAdamWTest, IsExactWithNarrowGradientsAndMoments) {
  ExpectEqual({.schedule = {2, 0.3}, .narrow = true});
  ExpectEqual({.schedule = {3, 0.3}, .narrow = true, .moments = MomentPrecision::kBfloat16});
}

TEST(InterleavedAdamWTest, IsExactWithoutAFlush) {
  ExpectEqual({.schedule = {3, 0}, .subgroups = 10, .flush = false});
}

TEST(InterleavedAdamWTest, SeesWhatIsWrittenBetweenUpdates) {
  for (const int stride : {0, 1, 2, 3}) {
    for (uint64_t seed = 1; seed < 4; ++seed)
      ExpectEqual({.schedule = {stride, 0.3}, .seed = seed, .write = true});
  }
}

TEST(InterleavedAdamWTest, MastersLieWhereTheyWere) {
  EmulatedMovement movement({});
  std::vector<float> masters(10), others(10), gradients(10);
  const InterleavedAdamW::Subgroup subgroup{{.elements = 10}, absl::MakeSpan(masters)};
  auto optimizer = InterleavedAdamW::Create({}, {&subgroup, 1}, movement, EmulatedAdamW, nullptr);
  ASSERT_TRUE(optimizer.ok());
  (*optimizer)->Begin({});
  EXPECT_DEATH((*optimizer)->Submit({0, absl::MakeSpan(others), gradients}), "lie elsewhere");
}

TEST(InterleavedAdamWTest, SaysWhatThereIsNoMemoryFor) {
  std::vector<float> masters(1000);
  const InterleavedAdamW::Subgroup subgroup{{.elements = 1000}, absl::MakeSpan(masters)};
  EmulatedMovement host({.host_bytes_max = 1000}), device({.device_bytes_max = 1000});
  EXPECT_THAT(
      std::string(InterleavedAdamW::Create({}, {&subgroup, 1}, host, EmulatedAdamW, nullptr)
                      .status()
                      .message()),
      testing::HasSubstr("the optimizer's offloaded state: pinning host memory of 12288 bytes"));
  EXPECT_EQ(InterleavedAdamW::Create({.schedule = {.stride = 1}}, {&subgroup, 1}, device,
                                     EmulatedAdamW, nullptr)
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(InterleavedAdamWTest, AFailedDeviceEndsTheUpdate) {
  EmulatedMovement movement({});
  std::vector<float> masters(10), gradients(10);
  const InterleavedAdamW::Subgroup subgroup{{.elements = 10}, absl::MakeSpan(masters)};
  auto optimizer = InterleavedAdamW::Create(
      {.schedule = {.stride = 1}}, {&subgroup, 1}, movement,
      [](const DeviceUpdate&, void*) { return absl::UnavailableError("lost"); }, nullptr);
  (*optimizer)->Begin({});
  (*optimizer)->Submit({0, absl::MakeSpan(masters), gradients});
  EXPECT_EQ((*optimizer)->Finish(), absl::UnavailableError("lost"));
}

TEST(InterleavedAdamWTest, StateOfADeviceThatHasFailedIsAnError) {
  std::vector<float> parameters(256), values(256);
  EmulatedMovement movement({});
  const InterleavedAdamW::Options options{.schedule = {.stride = 0, .device_share = 1}};
  const auto optimizer =
      InterleavedAdamW::Create(options, {{{.elements = 256}, absl::MakeSpan(parameters)}}, movement,
                               EmulatedAdamW, nullptr)
          .value();
  const auto read = [&] {
    return optimizer->ReadState(OptimizerState::kVariance, 0, 0, absl::MakeSpan(values));
  };
  const auto write = [&] { return optimizer->WriteState(OptimizerState::kMoment, 0, 0, values); };
  EXPECT_TRUE(read().ok());
  EXPECT_TRUE(write().ok());
  // Nobody has made the version that this copy reads.
  std::vector<std::byte> bytes(8);
  VersionedBuffer here("lost", MemorySide::kHost, absl::MakeSpan(bytes));
  VersionedBuffer there("nowhere", MemorySide::kDevice, absl::MakeSpan(bytes));
  movement.Copy({}, {&here, 7}, {&there, 7}, here.bytes());
  EXPECT_EQ(read().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(write().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace longhaul
