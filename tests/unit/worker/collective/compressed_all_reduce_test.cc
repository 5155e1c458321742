#include "worker/collective/compressed_all_reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>

#include "common/base/random.h"
#include "tests/testing/in_process_rendezvous.h"
#include "tests/testing/thread_communicator.h"
#include "worker/collective/gloo_communicator.h"

namespace longhaul {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr absl::Duration kAmple = absl::Seconds(60);
using Group = std::vector<std::unique_ptr<Communicator>>;
// By rank.
using Buffers = std::vector<std::vector<float>>;

void OnRanks(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

Group GlooGroup(int ranks) {
  signal(SIGPIPE, SIG_IGN);
  InProcessRendezvous rendezvous(ranks);
  Group group(ranks);
  OnRanks(ranks, [&](int rank) {
    auto made = MakeGlooCommunicator(
        {.rank = rank, .size = ranks, .rendezvous = &rendezvous, .timeout = kAmple});
    ASSERT_TRUE(made.ok()) << made.status();
    group[rank] = *std::move(made);
  });
  return group;
}

std::vector<float> Noise(uint64_t seed, int64_t n) {
  Random random(seed);
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<float>((random.Uniform() - 0.45) * std::ldexp(1, i % 5)));
  return values;
}

struct Case {
  std::vector<int64_t> segments;
  SignScale scale = SignScale::kRootMeanSquare;
  std::vector<uint8_t> absent = {};
  int64_t elements() const { return std::accumulate(segments.begin(), segments.end(), int64_t{0}); }
  bool Has(int64_t i) const { return absent.empty() || (absent[i / 8] >> (i % 8) & 1) == 0; }
};

// Algorithm 1 of the paper, one rank after another and one element at a time. Only the order of the
// sums is that of the header.
class Simulation {
 public:
  Simulation(const Case& c, int ranks)
      : case_(c),
        chunks_(CompressedAllReduce::EvenChunks(c.elements(), ranks)),
        worker_(ranks, std::vector<float>(c.elements())),
        server_(c.elements()) {}

  std::vector<float> Run(const Buffers& inputs) {
    const auto ranks = static_cast<float>(inputs.size());
    std::vector<float> mean(case_.elements()), result(case_.elements());
    for (size_t r = 0; r < inputs.size(); ++r) {
      std::vector<float> u(case_.elements());
      for (int64_t i = 0; i < case_.elements(); ++i)
        u[i] = case_.Has(i) ? worker_[r][i] + inputs[r][i] : 0;
      ForSegments(0, case_.elements(), [&](int64_t first, int64_t end) {
        const float scale = Scale(u, first, end);
        for (int64_t i = first; i < end; ++i) {
          if (!case_.Has(i)) continue;
          worker_[r][i] = u[i] - (u[i] < 0 ? -scale : scale);
          mean[i] += u[i] < 0 ? -(scale / ranks) : scale / ranks;
        }
      });
    }
    for (const Part& chunk : chunks_) {
      ForSegments(chunk.offset, chunk.offset + chunk.size, [&](int64_t first, int64_t end) {
        std::vector<float> w(case_.elements());
        for (int64_t i = first; i < end; ++i) w[i] = case_.Has(i) ? server_[i] + mean[i] : 0;
        const float scale = Scale(w, first, end);
        for (int64_t i = first; i < end; ++i) {
          if (!case_.Has(i)) continue;
          result[i] = w[i] < 0 ? -scale : scale;
          server_[i] = w[i] - result[i];
        }
      });
    }
    return result;
  }

  const std::vector<float>& worker(int rank) const { return worker_[rank]; }

 private:
  // The parts of the segments in [first, end).
  void ForSegments(int64_t first, int64_t end, const std::function<void(int64_t, int64_t)>& visit) {
    int64_t begin = 0;
    for (const int64_t size : case_.segments) {
      const int64_t from = std::max(first, begin), to = std::min(end, begin + size);
      if (from < to) visit(from, to);
      begin += size;
    }
  }

  float Scale(const std::vector<float>& values, int64_t first, int64_t end) const {
    double absolute[16] = {}, squared[16] = {};
    int64_t present = 0;
    for (int64_t i = first; i < end; ++i) {
      absolute[(i - first) % 16] += std::abs(values[i]);
      squared[(i - first) % 16] += static_cast<double>(values[i]) * values[i];
      present += case_.Has(i) ? 1 : 0;
    }
    for (int width = 8; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) absolute[i] += absolute[i + width];
      for (int i = 0; i < width; ++i) squared[i] += squared[i + width];
    }
    if (present == 0) return 0;
    const auto n = static_cast<double>(present);
    return static_cast<float>(case_.scale == SignScale::kRootMeanSquare ? std::sqrt(squared[0] / n)
                                                                        : absolute[0] / n);
  }

  const Case case_;
  const std::vector<Part> chunks_;
  Buffers worker_;
  std::vector<float> server_;
};

CompressedAllReduce Make(const Case& c, int rank, int ranks) {
  CompressedAllReduce reduce({.rank = rank,
                              .segments = c.segments,
                              .chunks = CompressedAllReduce::EvenChunks(c.elements(), ranks),
                              .scale = c.scale});
  if (!c.absent.empty()) reduce.SetAbsent(c.absent);
  return reduce;
}

void ExpectEqualsSimulation(const Group& group, const Case& c) {
  const int ranks = static_cast<int>(group.size());
  SCOPED_TRACE(testing::Message() << ranks << " ranks, " << c.elements() << " elements");
  constexpr int kCalls = 3;
  Simulation simulation(c, ranks);
  Buffers expected;
  for (int call = 0; call < kCalls; ++call) {
    Buffers inputs;
    for (int rank = 0; rank < ranks; ++rank)
      inputs.push_back(Noise(10 * call + rank, c.elements()));
    expected.push_back(simulation.Run(inputs));
  }
  OnRanks(ranks, [&](int rank) {
    CompressedAllReduce reduce = Make(c, rank, ranks);
    for (int call = 0; call < kCalls; ++call) {
      std::vector<float> data = Noise(10 * call + rank, c.elements());
      ASSERT_EQ(reduce.Run(*group[rank], absl::MakeSpan(data), {.timeout = kAmple}),
                absl::OkStatus());
      // Memory is compared, since zeros have signs.
      EXPECT_EQ(std::memcmp(data.data(), expected[call].data(), data.size() * sizeof(float)), 0)
          << "rank " << rank << ", call " << call;
    }
    EXPECT_THAT(reduce.worker_error(), testing::ElementsAreArray(simulation.worker(rank)));
  });
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const int64_t elements : {1, 7, 8, 31, 32, 33, 1000, 4099}) cases.push_back({{elements}});
  cases.push_back({{96, 5, 96 * 7, 1, 333}});
  cases.push_back({{96, 5, 96 * 7, 1, 333}, SignScale::kMeanMagnitude});
  Case masked{{40, 24, 100}};
  masked.absent.resize(21);
  for (const int64_t i : {0, 3, 41, 100, 163}) masked.absent[i / 8] |= 1 << (i % 8);
  // A whole segment.
  for (int64_t i = 40; i < 64; ++i) masked.absent[i / 8] |= 1 << (i % 8);
  cases.push_back(masked);
  return cases;
}

TEST(CompressedAllReduceTest, EqualsItsSequentialSimulationOnThreads) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const Case& c : Cases()) ExpectEqualsSimulation(MakeThreadCommunicators(ranks), c);
  }
}

TEST(CompressedAllReduceTest, EqualsItsSequentialSimulationOnGloo) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const Group group = GlooGroup(ranks);
    for (const Case& c : Cases()) ExpectEqualsSimulation(group, c);
  }
}

TEST(CompressedAllReduceTest, EqualsItsSequentialSimulationInASplitGroup) {
  const Group all = MakeThreadCommunicators(4);
  Group group(2);
  OnRanks(4, [&](int rank) {
    const std::vector<int> members =
        rank % 2 == 1 ? std::vector<int>{3, 1} : std::vector<int>{0, 2};
    auto split = all[rank]->Split(members, {.timeout = kAmple});
    ASSERT_TRUE(split.ok()) << split.status();
    if (rank % 2 == 1) group[(*split)->rank()] = *std::move(split);
  });
  ExpectEqualsSimulation(group, {{100, 333}});
}

// 2 (n - 1) / n of a bit for each element of the padded buffer, and 8 (n - 1) bytes of scales.
TEST(CompressedAllReduceTest, BytesAreThoseOfTheFormula) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int64_t elements : {1, 1000, 4096, 100'003}) {
      const Group group = MakeThreadCommunicators(ranks);
      const Case c{{elements}};
      std::vector<int64_t> sent(ranks), coded(ranks);
      OnRanks(ranks, [&](int rank) {
        CompressedAllReduce reduce = Make(c, rank, ranks);
        std::vector<float> data = Noise(rank, elements);
        ASSERT_TRUE(reduce.Run(*group[rank], absl::MakeSpan(data), {.timeout = kAmple}).ok());
        sent[rank] = group[rank]->traffic().sent_bytes;
        coded[rank] = reduce.CodedBytes(rank);
        EXPECT_EQ(group[rank]->traffic().operations, 2);
      });
      const int64_t chunk = (elements + 8 * ranks - 1) / (8 * ranks) * 8;
      if (elements >= 8 * ranks * 8 && elements % (8 * ranks) == 0) {
        EXPECT_THAT(sent, Each(2 * (ranks - 1) * chunk / 8 + 8 * (ranks - 1)));
      }
      // For any size: no rank sends more, and everything that is sent is in a chunk.
      const int64_t all = std::accumulate(coded.begin(), coded.end(), int64_t{0});
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_LE(sent[rank], 2 * (ranks - 1) * chunk / 8 + 8 * (ranks - 1));
        EXPECT_EQ(sent[rank], all - coded[rank] + (ranks - 1) * coded[rank]);
      }
    }
  }
}

// If a share w of the steps warms up, bytes are fewer than in 16 bits by 1 / (w + (1 - w) / 16).
// Both kinds of steps are counted, with calls on the same communicator.
TEST(CompressedAllReduceTest, SavesAsManyBytesAsThePaperSays) {
  constexpr int kRanks = 4;
  constexpr int64_t kElements = 1 << 20;
  const Group group = MakeThreadCommunicators(kRanks);
  std::vector<int64_t> compressed(kRanks), full(kRanks);
  OnRanks(kRanks, [&](int rank) {
    CompressedAllReduce reduce = Make({{kElements}}, rank, kRanks);
    std::vector<float> data = Noise(rank, kElements);
    ASSERT_TRUE(reduce.Run(*group[rank], absl::MakeSpan(data), {.timeout = kAmple}).ok());
    compressed[rank] = group[rank]->traffic().sent_bytes;
    ASSERT_TRUE(group[rank]->AllReduceSum(absl::MakeSpan(data), {.timeout = kAmple}).ok());
    full[rank] = group[rank]->traffic().sent_bytes - compressed[rank];
  });
  const double bits16 = full[0] / 2.0;
  for (const auto& [warm_up, saving] : {std::pair{0.15, 4.92}, {0.25, 3.37}}) {
    const double bytes = warm_up * bits16 + (1 - warm_up) * static_cast<double>(compressed[0]);
    EXPECT_NEAR(bits16 / bytes, saving, 0.005);
  }
}

// The values that were sent and the feedback together equal the input and the earlier feedback.
TEST(CompressedAllReduceTest, FeedbackKeepsTheSum) {
  const Group group = MakeThreadCommunicators(1);
  const Case c{{257}};
  CompressedAllReduce reduce = Make(c, 0, 1);
  std::vector<double> given(c.elements()), sent(c.elements());
  for (int call = 0; call < 20; ++call) {
    std::vector<float> data = Noise(call, c.elements());
    for (int64_t i = 0; i < c.elements(); ++i) given[i] += data[i];
    ASSERT_TRUE(reduce.Run(*group[0], absl::MakeSpan(data), {.timeout = kAmple}).ok());
    for (int64_t i = 0; i < c.elements(); ++i) sent[i] += data[i];
  }
  for (int64_t i = 0; i < c.elements(); ++i)
    EXPECT_NEAR(sent[i] + reduce.worker_error()[i] + reduce.server_error()[i], given[i], 1e-4);
}

TEST(CompressedAllReduceTest, TheLossIsThatOfGaussians) {
  const Group group = MakeThreadCommunicators(1);
  constexpr int64_t kElements = 1 << 18;
  for (const auto& [scale, nmse] :
       {std::pair{SignScale::kRootMeanSquare, 0.404}, {SignScale::kMeanMagnitude, 0.363}}) {
    CompressedAllReduce reduce = Make({{kElements}, scale}, 0, 1);
    std::vector<float> data;
    Random random(5);
    for (int64_t i = 0; i < kElements; ++i) {
      const double radius = std::sqrt(-2 * std::log(1 - random.Uniform()));
      data.push_back(static_cast<float>(radius * std::cos(2 * M_PI * random.Uniform())));
    }
    ASSERT_TRUE(reduce.Run(*group[0], absl::MakeSpan(data), {.timeout = kAmple}).ok());
    double error = 0;
    for (const float e : reduce.worker_error()) error += static_cast<double>(e) * e;
    EXPECT_NEAR(error / kElements, nmse, 0.01 * nmse);
    // The loss of two ends. The second lost nothing, since it sent what it got.
    EXPECT_NEAR(reduce.loss().error_energy, error, 1e-6 * error);
  }
}

TEST(CompressedAllReduceTest, ZerosStayZero) {
  const Group group = MakeThreadCommunicators(1);
  CompressedAllReduce reduce = Make({{100}}, 0, 1);
  std::vector<float> data(100);
  ASSERT_TRUE(reduce.Run(*group[0], absl::MakeSpan(data), {.timeout = kAmple}).ok());
  EXPECT_THAT(data, Each(0.0f));
  EXPECT_EQ(reduce.loss().error_energy, 0);
}

TEST(CompressedAllReduceTest, SegmentsAreTensorsOrBlocksOfThem) {
  EXPECT_THAT(CompressedAllReduce::Segments({5, 12}, 0), ElementsAre(5, 12));
  EXPECT_THAT(CompressedAllReduce::Segments({5, 0, 12, 8}, 8), ElementsAre(5, 8, 4, 8));
}

TEST(CompressedAllReduceTest, EvenChunksBeginAtWholeBytes) {
  EXPECT_THAT(CompressedAllReduce::EvenChunks(33, 4),
              ElementsAre(Part{0, 16}, Part{16, 16}, Part{32, 1}, Part{0, 0}));
  EXPECT_THAT(CompressedAllReduce::EvenChunks(64, 2), ElementsAre(Part{0, 32}, Part{32, 32}));
}

}  // namespace
}  // namespace longhaul
