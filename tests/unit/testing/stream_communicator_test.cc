// Ranks share an emulated device, whose streams run as late as events allow. In each step,
// computation and collectives have separate streams. The tests show the right results, and the
// wrong ones if a wait is missing.
#include "tests/testing/stream_communicator.h"

#include <gtest/gtest.h>

#include <thread>

#include "common/base/clock.h"
#include "tests/testing/emulated_streams.h"

namespace longhaul {
namespace {

constexpr int64_t kElements = 37;
constexpr int kSteps = 5;
constexpr absl::Duration kLong = absl::Seconds(60);

// Which stream does not wait for the other one.
enum class Missing {
  kNone,
  // The collective's stream does not wait for the computation that makes its input.
  kAtSubmit,
  // The computation's stream does not wait for the collective's result, and later overwrites its
  // input.
  kAtUse,
};

// A rank's state after some steps. Each step adds to its state what all ranks computed from theirs.
std::vector<float> StateOf(Communicator& communicator, EmulatedStreams& streams, Missing missing) {
  std::vector<float> state(kElements, static_cast<float>(communicator.rank()));
  std::vector<float> sum(kElements);
  const auto compute = streams.NewStream().value(), collectives = streams.NewStream().value();
  const auto follow = [&](void* later, void* earlier, Missing which) {
    if (missing != which) {
      EXPECT_TRUE(streams.Block(later, *streams.Record(earlier)).ok());
    }
  };
  for (int step = 0; step < kSteps; ++step) {
    streams.Submit(compute.get(), [&, step] {
      for (int64_t i = 0; i < kElements; ++i)
        sum[i] = state[i] / 3 + static_cast<float>((step + i) % 5);
    });
    follow(collectives.get(), compute.get(), Missing::kAtSubmit);
    EXPECT_TRUE(
        communicator
            .AllReduceSum(absl::MakeSpan(sum), {.timeout = kLong, .stream = collectives.get()})
            .ok());
    follow(compute.get(), collectives.get(), Missing::kAtUse);
    streams.Submit(compute.get(), [&] {
      for (int64_t i = 0; i < kElements; ++i) state[i] += sum[i];
    });
  }
  for (const auto& stream : {compute, collectives})
    EXPECT_TRUE(streams.Wait(*streams.Record(stream.get()), SteadyTime() + kLong).ok());
  return state;
}

// By rank.
using States = std::vector<std::vector<float>>;

States StatesOf(int size, uint64_t seed, Missing missing) {
  const auto streams = std::make_shared<EmulatedStreams>(seed);
  auto group = MakeStreamCommunicators(size, streams).value();
  States states(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { states[rank] = StateOf(*group[rank], *streams, missing); });
  }
  for (std::thread& thread : threads) thread.join();
  return states;
}

// The same in plain arithmetic.
States ExpectedStates(int size) {
  States states;
  for (int rank = 0; rank < size; ++rank) states.emplace_back(kElements, static_cast<float>(rank));
  for (int step = 0; step < kSteps; ++step) {
    for (int64_t i = 0; i < kElements; ++i) {
      const auto made = [&](int rank) {
        return states[rank][i] / 3 + static_cast<float>((step + i) % 5);
      };
      float sum = made(0);
      for (int rank = 1; rank < size; ++rank) sum += made(rank);
      for (int rank = 0; rank < size; ++rank) states[rank][i] += sum;
    }
  }
  return states;
}

TEST(StreamCommunicatorTest, ResultsDoNotDependOnHowLateStreamsRun) {
  for (const int size : {2, 3, 8}) {
    const States expected = ExpectedStates(size);
    for (uint64_t seed = 1; seed <= 20; ++seed)
      EXPECT_EQ(StatesOf(size, seed, Missing::kNone), expected) << size << ", seed " << seed;
  }
}

TEST(StreamCommunicatorTest, AMissingWaitGivesWrongBytes) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "makes the race that ThreadSanitizer reports";
#endif
  for (const Missing missing : {Missing::kAtSubmit, Missing::kAtUse}) {
    const States expected = ExpectedStates(3);
    int found = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed)
      found += StatesOf(3, seed, missing) != expected ? 1 : 0;
    EXPECT_GE(found, 15) << static_cast<int>(missing);
  }
}

// The next work of a rank's stream may overwrite memory that others still have to read.
TEST(StreamCommunicatorTest, LaterWorkOfAStreamWaitsForThePeersThatReadItsInput) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto streams = std::make_shared<EmulatedStreams>(seed);
    auto group = MakeStreamCommunicators(2, streams).value();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const auto stream = streams->NewStream().value();
        std::byte input{static_cast<unsigned char>(7 + rank)}, output[2] = {};
        const Part parts[] = {{0, 1}, {1, 1}};
        EXPECT_TRUE(group[rank]
                        ->AllGather(absl::MakeConstSpan(&input, 1), parts, absl::MakeSpan(output),
                                    {.timeout = kLong, .stream = stream.get()})
                        .ok());
        streams->Submit(stream.get(), [&] { input = std::byte{0}; });
        const auto end = *streams->Record(stream.get());
        EXPECT_TRUE(streams->Wait(end, SteadyTime() + kLong).ok());
        EXPECT_EQ(output[0], std::byte{7});
        EXPECT_EQ(output[1], std::byte{8});
        EXPECT_EQ(input, std::byte{0});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(EmulatedStreamsTest, RunsTheWorksThatAnEventNeeds) {
  EmulatedStreams streams(1);
  const auto one = streams.NewStream().value(), other = streams.NewStream().value();
  EXPECT_TRUE(streams.Wait(nullptr, SteadyTime()).ok());
  const auto first = *streams.Record(one.get());
  EXPECT_TRUE(streams.Block(other.get(), first).ok());
  EXPECT_TRUE(streams.Wait(*streams.Record(other.get()), SteadyTime() + kLong).ok());
  EXPECT_TRUE(streams.Done(first));
}

}  // namespace
}  // namespace longhaul
