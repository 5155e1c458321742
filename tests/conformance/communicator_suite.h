// What every Communicator must do. A backend instantiates the suite
// (INSTANTIATE_TYPED_TEST_SUITE_P) with a class that makes the communicators of one group, with
// ranks as threads of this process:
//
//   static constexpr bool kRankOrderSums;  // sums are the rank-order sum bit for bit
//   static constexpr bool kTellsWhoLeft;   // a peer that left normally gives CANCELLED
//   static std::vector<int> Sizes();       // group sizes to try; empty: it cannot run here
//   static std::vector<std::unique_ptr<Communicator>> MakeGroup(int size);
//   // Memory that the communicator and this process can touch.
//   static std::shared_ptr<std::byte> Allocate(size_t bytes);
//   static CallOptions Options(absl::Duration timeout);
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/random.h"
#include "common/base/status_marks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator.h"

namespace longhaul {

// Far more than any operation needs. A test that reaches it fails.
inline constexpr absl::Duration kAmple = absl::Seconds(60);

template <typename Backend, typename T>
class SharedBuffer {
 public:
  explicit SharedBuffer(int64_t count)
      : bytes_(Backend::Allocate(count * sizeof(T))),
        span_(reinterpret_cast<T*>(bytes_.get()), count) {}
  absl::Span<T> span() const { return span_; }
  T& operator[](int64_t i) const { return span_[i]; }

 private:
  std::shared_ptr<std::byte> bytes_;
  absl::Span<T> span_;
};

// Calls `body` on one thread for each rank, and waits for all.
inline void OnEveryRank(const std::vector<std::unique_ptr<Communicator>>& group,
                        const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& communicator : group) {
    // Null: this rank has left.
    if (communicator != nullptr) threads.emplace_back([&] { body(*communicator); });
  }
  for (std::thread& thread : threads) thread.join();
}

// The inputs of all ranks, and their rank-order sums, repeat after so many elements. A prime, so
// that elements that moved by pieces of a power of two, or by parts of a count, are seen.
inline constexpr int64_t kPeriod = 65'537;
inline constexpr int kRanksMax = 8;

template <typename T>
struct InputTables {
  // By rank; by the number of ranks, less one.
  std::vector<T> values[kRanksMax], sums[kRanksMax];

  InputTables() {
    for (int rank = 0; rank < kRanksMax; ++rank) {
      values[rank].resize(kPeriod);
      sums[rank].resize(kPeriod);
      for (int64_t i = 0; i < kPeriod; ++i) {
        const auto words = Philox(rank + 1, 0, i);
        const int exponent = static_cast<int>(words[1] % 20) - 10;
        values[rank][i] =
            std::ldexp(static_cast<T>(static_cast<int32_t>(words[0])) / 7, exponent - 31);
        sums[rank][i] = rank == 0 ? values[0][i] : sums[rank - 1][i] + values[rank][i];
      }
    }
  }
  static const InputTables& Get() {
    static const InputTables& tables = *new InputTables();
    return tables;
  }
};

// A value of rank `rank`. Sums of such values depend on their order.
template <typename T>
T InputValue(int rank, int64_t i) {
  return InputTables<T>::Get().values[rank][i % kPeriod];
}

template <typename T>
T RankOrderSumAt(int size, int64_t i) {
  return InputTables<T>::Get().sums[size - 1][i % kPeriod];
}

template <typename Backend>
class CommunicatorSuite : public testing::Test {
 protected:
  static std::vector<int64_t> Counts() { return {0, 1, 7, 1000, (1 << 18) + 3, 3 * (1 << 18) + 1}; }
  void SetUp() override {
    if (Backend::Sizes().empty()) GTEST_SKIP() << "no CUDA device";
  }

  // Runs `body` once for each group size.
  static void ForEachGroup(
      const std::function<void(const std::vector<std::unique_ptr<Communicator>>&)>& body) {
    for (const int size : Backend::Sizes()) {
      SCOPED_TRACE(absl::StrCat(size, " ranks"));
      auto group = Backend::MakeGroup(size);
      ASSERT_EQ(static_cast<int>(group.size()), size);
      for (const auto& communicator : group) ASSERT_NE(communicator, nullptr);
      body(group);
    }
  }

  template <typename T>
  static void ExpectSum(absl::Span<const T> actual, int size, int64_t offset) {
    int64_t different = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(actual.size()); ++i) {
      const T expected = RankOrderSumAt<T>(size, offset + i);
      const bool equal = Backend::kRankOrderSums
                             ? std::memcmp(&actual[i], &expected, sizeof(T)) == 0
                             : std::abs(actual[i] - expected) <= T(1e-5) * (1 + std::abs(expected));
      different += equal ? 0 : 1;
    }
    EXPECT_EQ(different, 0) << "of " << actual.size();
  }

  template <typename T>
  static void TestAllReduce(Communicator& communicator, int64_t count) {
    SharedBuffer<Backend, T> data(count);
    for (int64_t i = 0; i < count; ++i) data[i] = InputValue<T>(communicator.rank(), i);
    ASSERT_EQ(communicator.AllReduceSum(data.span(), Backend::Options(kAmple)), absl::OkStatus());
    ExpectSum<T>(data.span(), communicator.size(), 0);
  }
};

TYPED_TEST_SUITE_P(CommunicatorSuite);

TYPED_TEST_P(CommunicatorSuite, AllReduceGivesEveryRankTheRankOrderSum) {
  this->ForEachGroup([&](const auto& group) {
    OnEveryRank(group, [&](Communicator& communicator) {
      for (const int64_t count : this->Counts()) {
        this->template TestAllReduce<float>(communicator, count);
        this->template TestAllReduce<double>(communicator, count);
      }
    });
  });
}

// Parts of different sizes, one of them empty: rank r of n has r / n of a triangle of `count`
// elements.
inline std::vector<int64_t> UnevenCounts(int size, int64_t count) {
  std::vector<int64_t> counts(size);
  for (int r = 0; r < size; ++r)
    counts[r] = size == 1 ? count : r * count / (size * (size - 1) / 2);
  return counts;
}

TYPED_TEST_P(CommunicatorSuite, ReduceScatterGivesEveryRankItsPartOfTheSum) {
  this->ForEachGroup([&](const auto& group) {
    OnEveryRank(group, [&](Communicator& communicator) {
      const int rank = communicator.rank(), size = communicator.size();
      for (const int64_t count : this->Counts()) {
        for (const bool even : {true, false}) {
          const auto counts = even ? std::vector<int64_t>(size, count) : UnevenCounts(size, count);
          const int64_t offset = std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
          SharedBuffer<TypeParam, float> input(
              std::accumulate(counts.begin(), counts.end(), int64_t{0}));
          for (size_t i = 0; i < input.span().size(); ++i) input[i] = InputValue<float>(rank, i);
          SharedBuffer<TypeParam, float> output(counts[rank]);
          ASSERT_EQ(communicator.ReduceScatterSum(input.span(), counts, output.span(),
                                                  TypeParam::Options(kAmple)),
                    absl::OkStatus());
          this->template ExpectSum<float>(output.span(), size, offset);
          // The same, with the result written over the rank's own part.
          const auto own = input.span().subspan(offset, counts[rank]);
          ASSERT_EQ(
              communicator.ReduceScatterSum(input.span(), counts, own, TypeParam::Options(kAmple)),
              absl::OkStatus());
          this->template ExpectSum<float>(own, size, offset);
        }
      }
    });
  });
}

inline std::byte ByteOf(int from, int to, int64_t i) {
  return static_cast<std::byte>(from * 31 + to * 7 + i * 13 + i / 251);
}

TYPED_TEST_P(CommunicatorSuite, AllGatherPutsEveryPartWhereItBelongs) {
  this->ForEachGroup([&](const auto& group) {
    OnEveryRank(group, [&](Communicator& communicator) {
      const int rank = communicator.rank(), size = communicator.size();
      for (const int64_t count : this->Counts()) {
        // Rank r has count + r bytes. The parts are in reverse order, with gaps of three bytes,
        // which must not change.
        std::vector<Part> parts(size);
        int64_t end = 3;
        for (int r = size - 1; r >= 0; --r) {
          parts[r] = {end, count + r};
          end += count + r + 3;
        }
        for (const bool in_place : {false, true}) {
          SharedBuffer<TypeParam, std::byte> output(end), separate(parts[rank].size);
          for (std::byte& byte : output.span()) byte = std::byte{0xEE};
          const auto own = output.span().subspan(parts[rank].offset, parts[rank].size);
          const absl::Span<std::byte> input = in_place ? own : separate.span();
          for (size_t i = 0; i < input.size(); ++i) input[i] = ByteOf(rank, 0, i);
          ASSERT_EQ(communicator.AllGather(input, parts, output.span(), TypeParam::Options(kAmple)),
                    absl::OkStatus());
          std::vector<std::byte> expected(end, std::byte{0xEE});
          for (int r = 0; r < size; ++r) {
            for (int64_t i = 0; i < parts[r].size; ++i)
              expected[parts[r].offset + i] = ByteOf(r, 0, i);
          }
          ASSERT_TRUE(absl::Span<const std::byte>(expected) ==
                      absl::Span<const std::byte>(output.span()));
        }
      }
    });
  });
}

TYPED_TEST_P(CommunicatorSuite, BroadcastCopiesTheRoot) {
  this->ForEachGroup([&](const auto& group) {
    OnEveryRank(group, [&](Communicator& communicator) {
      for (const int64_t count : this->Counts()) {
        for (int root = 0; root < communicator.size(); ++root) {
          SharedBuffer<TypeParam, std::byte> data(count);
          std::vector<std::byte> expected(count);
          for (int64_t i = 0; i < count; ++i) {
            data[i] = ByteOf(communicator.rank(), 1, i);
            expected[i] = ByteOf(root, 1, i);
          }
          ASSERT_EQ(communicator.Broadcast(data.span(), root, TypeParam::Options(kAmple)),
                    absl::OkStatus());
          ASSERT_TRUE(absl::Span<const std::byte>(expected) ==
                      absl::Span<const std::byte>(data.span()));
        }
      }
    });
  });
}

TYPED_TEST_P(CommunicatorSuite, AllToAllTransposes) {
  this->ForEachGroup([&](const auto& group) {
    OnEveryRank(group, [&](Communicator& communicator) {
      const int rank = communicator.rank(), size = communicator.size();
      const auto bytes = [](int from, int to, int64_t count) {
        return (from + 2 * to) % 3 * count;
      };
      for (const int64_t count : this->Counts()) {
        std::vector<Part> sends, receives;
        int64_t send_end = 0, receive_end = 0;
        for (int r = 0; r < size; ++r) {
          sends.push_back({send_end, bytes(rank, r, count)});
          receives.push_back({receive_end, bytes(r, rank, count)});
          send_end += sends.back().size;
          receive_end += receives.back().size;
        }
        SharedBuffer<TypeParam, std::byte> input(send_end), output(receive_end);
        for (int r = 0; r < size; ++r) {
          for (int64_t i = 0; i < sends[r].size; ++i)
            input[sends[r].offset + i] = ByteOf(rank, r, i);
        }
        ASSERT_EQ(communicator.AllToAll(input.span(), sends, output.span(), receives,
                                        TypeParam::Options(kAmple)),
                  absl::OkStatus());
        int64_t different = 0;
        for (int r = 0; r < size; ++r) {
          for (int64_t i = 0; i < receives[r].size; ++i) {
            different += output[receives[r].offset + i] == ByteOf(r, rank, i) ? 0 : 1;
          }
        }
        ASSERT_EQ(different, 0);
      }
    });
  });
}

TYPED_TEST_P(CommunicatorSuite, BarrierWaitsForAll) {
  this->ForEachGroup([&](const auto& group) {
    std::atomic<int> arrived = 0;
    OnEveryRank(group, [&](Communicator& communicator) {
      for (int turn = 1; turn <= 20; ++turn) {
        arrived.fetch_add(1);
        ASSERT_EQ(communicator.Barrier(TypeParam::Options(kAmple)), absl::OkStatus());
        EXPECT_GE(arrived.load(), turn * communicator.size());
      }
    });
  });
}

TYPED_TEST_P(CommunicatorSuite, CountsTheBytesOfTheDirectAlgorithm) {
  this->ForEachGroup([&](const auto& group) {
    OnEveryRank(group, [&](Communicator& communicator) {
      const int64_t size = communicator.size();
      SharedBuffer<TypeParam, float> data(12 * size);
      for (float& value : data.span()) value = 1;
      const Traffic before = communicator.traffic();
      ASSERT_EQ(communicator.AllReduceSum(data.span(), TypeParam::Options(kAmple)),
                absl::OkStatus());
      const Traffic after = communicator.traffic();
      EXPECT_EQ(after.operations - before.operations, 1);
      EXPECT_EQ(after.sent_bytes - before.sent_bytes, 2 * 12 * 4 * (size - 1));
      EXPECT_EQ(after.received_bytes - before.received_bytes, 2 * 12 * 4 * (size - 1));
    });
  });
}

TYPED_TEST_P(CommunicatorSuite, RefusesContradictingSizesAndStaysUsable) {
  this->ForEachGroup([&](const auto& group) {
    OnEveryRank(group, [&](Communicator& communicator) {
      SharedBuffer<TypeParam, float> data(8);
      for (float& value : data.span()) value = 0;
      const auto bytes = absl::MakeSpan(reinterpret_cast<std::byte*>(data.span().data()), 32);
      const CallOptions options = TypeParam::Options(kAmple);
      const std::vector<int64_t> counts(communicator.size(), 9);
      const std::vector<Part> outside(communicator.size(), Part{16, 17});
      const auto refused = absl::StatusCode::kInvalidArgument;
      EXPECT_EQ(
          communicator.AllReduceSum(data.span(), TypeParam::Options(absl::ZeroDuration())).code(),
          refused);
      EXPECT_EQ(communicator.ReduceScatterSum(data.span(), counts, data.span(), options).code(),
                refused);
      EXPECT_EQ(communicator.ReduceScatterSum(data.span(), {-1}, data.span(), options).code(),
                refused);
      EXPECT_EQ(communicator.AllGather(bytes, outside, bytes, options).code(), refused);
      EXPECT_EQ(communicator.AllToAll(bytes, outside, bytes, outside, options).code(), refused);
      EXPECT_EQ(communicator.Broadcast(bytes, communicator.size(), options).code(), refused);
      EXPECT_EQ(communicator.Barrier(options), absl::OkStatus());
    });
  });
}

TYPED_TEST_P(CommunicatorSuite, AbortWakesEveryWaitingRank) {
  this->ForEachGroup([&](const auto& group) {
    const int size = static_cast<int>(group.size());
    // The last rank never calls. It aborts while the others wait, or are about to wait.
    OnEveryRank(group, [&](Communicator& communicator) {
      if (communicator.rank() == size - 1) {
        communicator.Abort("the test says so");
      } else {
        SharedBuffer<TypeParam, float> data(1 << 20);
        for (float& value : data.span()) value = 1;
        const absl::Status status =
            communicator.AllReduceSum(data.span(), TypeParam::Options(kAmple));
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
        EXPECT_TRUE(IsPeerFault(status));
        EXPECT_THAT(std::string(status.message()), testing::HasSubstr("all-reduce"));
      }
      const absl::Status later = communicator.Barrier(TypeParam::Options(kAmple));
      EXPECT_EQ(later.code(), absl::StatusCode::kUnavailable) << later;
      if (communicator.rank() == size - 1) {
        EXPECT_THAT(std::string(later.message()), testing::HasSubstr("the test says so"));
      }
    });
  });
}

TYPED_TEST_P(CommunicatorSuite, AbortFromAnotherThreadWakesItsOwnRank) {
  this->ForEachGroup([&](const auto& group) {
    // A single rank has nothing to wait for.
    if (group.size() == 1) return;
    absl::Notification about_to_wait;
    std::thread aborter([&] {
      about_to_wait.WaitForNotification();
      group[0]->Abort("stop");
    });
    about_to_wait.Notify();
    const absl::Status status = group[0]->Barrier(TypeParam::Options(kAmple));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_TRUE(IsPeerFault(status));
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("stop"));
    aborter.join();
  });
}

TYPED_TEST_P(CommunicatorSuite, ARankThatNeverComesEndsInADeadlineWithItsName) {
  this->ForEachGroup([&](const auto& group) {
    const int size = static_cast<int>(group.size());
    if (size == 1) return;
    std::atomic<int> expired = 0;
    OnEveryRank(group, [&](Communicator& communicator) {
      if (communicator.rank() == size - 1) return;
      // Deadlines differ: the first rank to time out reports the missing rank; the others may see
      // it leave instead.
      const absl::Duration timeout =
          absl::Milliseconds(50) + communicator.rank() * absl::Seconds(20);
      const absl::Status status = communicator.Barrier(TypeParam::Options(timeout));
      if (communicator.rank() == 0) {
        EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
        EXPECT_TRUE(IsPeerFault(status));
        EXPECT_THAT(std::string(status.message()),
                    testing::HasSubstr(absl::StrCat("rank ", size - 1)));
        EXPECT_THAT(std::string(status.message()), testing::HasSubstr("barrier"));
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
        EXPECT_TRUE(IsPeerFault(status));
      }
      expired.fetch_add(1);
      EXPECT_EQ(communicator.Barrier(TypeParam::Options(kAmple)).code(),
                absl::StatusCode::kUnavailable);
    });
    EXPECT_EQ(expired.load(), size - 1);
  });
}

TYPED_TEST_P(CommunicatorSuite, ARankThatLeavesNormallyDisturbsNoOther) {
  this->ForEachGroup([&](const auto& group) {
    auto& own = const_cast<std::vector<std::unique_ptr<Communicator>>&>(group);
    std::vector<std::thread> threads;
    for (auto& communicator : own) {
      threads.emplace_back([&communicator] {
        SharedBuffer<TypeParam, float> data(1 << 16);
        for (float& value : data.span()) value = 1;
        for (int turn = 0; turn < 10; ++turn) {
          ASSERT_EQ(communicator->AllReduceSum(data.span(), TypeParam::Options(kAmple)),
                    absl::OkStatus());
        }
        communicator.reset();
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TYPED_TEST_P(CommunicatorSuite, ARankThatHasLeftIsReported) {
  this->ForEachGroup([&](const auto& group) {
    auto& own = const_cast<std::vector<std::unique_ptr<Communicator>>&>(group);
    if (own.size() == 1) return;
    own.back().reset();
    OnEveryRank(group, [&](Communicator& communicator) {
      const absl::Status status = communicator.Barrier(TypeParam::Options(kAmple));
      EXPECT_EQ(status.code(), TypeParam::kTellsWhoLeft ? absl::StatusCode::kCancelled
                                                        : absl::StatusCode::kUnavailable)
          << status;
      EXPECT_TRUE(IsPeerFault(status));
      EXPECT_THAT(std::string(status.message()),
                  testing::HasSubstr(TypeParam::kTellsWhoLeft ? "has left" : "lost rank"));
      // A rank that sees it leaves normally, too.
      if (communicator.rank() > 0) own[communicator.rank()].reset();
    });
  });
}

TYPED_TEST_P(CommunicatorSuite, SplitsIntoGroupsNumberedAsTheirMembersAre) {
  this->ForEachGroup([&](const auto& group) {
    OnEveryRank(group, [&](Communicator& communicator) {
      // The even ranks, and the odd ones in reverse order.
      std::vector<int> members;
      for (int r = communicator.rank() % 2; r < communicator.size(); r += 2) members.push_back(r);
      if (communicator.rank() % 2 == 1) std::reverse(members.begin(), members.end());
      auto part = communicator.Split(members, TypeParam::Options(kAmple));
      ASSERT_TRUE(part.ok()) << part.status();
      EXPECT_EQ((*part)->size(), static_cast<int>(members.size()));
      EXPECT_EQ(members[(*part)->rank()], communicator.rank());
      // Both communicators are used in turn.
      this->template TestAllReduce<float>(**part, 1000);
      this->template TestAllReduce<float>(communicator, 1000);
      this->template TestAllReduce<float>(**part, 7);
    });
  });
}

TYPED_TEST_P(CommunicatorSuite, AGroupOutlivesWhatItWasSplitFromAndIsAbortedAlone) {
  this->ForEachGroup([&](const auto& group) {
    auto& own = const_cast<std::vector<std::unique_ptr<Communicator>>&>(group);
    std::vector<int> all(own.size());
    std::iota(all.begin(), all.end(), 0);
    std::vector<std::thread> threads;
    for (auto& communicator : own) {
      threads.emplace_back([&communicator, &all, this] {
        auto one = communicator->Split(all, TypeParam::Options(kAmple));
        auto two = communicator->Split(all, TypeParam::Options(kAmple));
        ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
        ASSERT_EQ(communicator->Barrier(TypeParam::Options(kAmple)), absl::OkStatus());
        (*two)->Abort("of this one");
        EXPECT_EQ((*two)->Barrier(TypeParam::Options(kAmple)).code(),
                  absl::StatusCode::kUnavailable);
        this->template TestAllReduce<float>(*communicator, 7);
        communicator.reset();
        this->template TestAllReduce<float>(**one, 7);
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TYPED_TEST_P(CommunicatorSuite, CountsASplitAsOneOperationWithoutPayload) {
  this->ForEachGroup([&](const auto& group) {
    OnEveryRank(group, [&](Communicator& communicator) {
      const auto expect = [](const Communicator& of, int64_t operations) {
        const Traffic traffic = of.traffic();
        EXPECT_EQ(traffic.operations, operations);
        EXPECT_EQ(traffic.sent_bytes, 0);
        EXPECT_EQ(traffic.received_bytes, 0);
      };
      expect(communicator, 0);
      std::vector<int> members(communicator.size());
      std::iota(members.begin(), members.end(), 0);
      const auto part = communicator.Split(members, TypeParam::Options(kAmple));
      ASSERT_TRUE(part.ok()) << part.status();
      expect(communicator, 1);
      expect(**part, 0);
      ASSERT_EQ((*part)->Barrier(TypeParam::Options(kAmple)), absl::OkStatus());
      expect(communicator, 1);
      expect(**part, 1);
    });
  });
}

// Gives each operation so much time.
struct CountingWatch : CollectiveWatch {
  absl::Duration BeginCollective() override {
    EXPECT_EQ(begun++, ended) << "one in another";
    return timeout;
  }
  void EndCollective() override { ++ended; }
  absl::Duration timeout = kAmple;
  int begun = 0, ended = 0;
};

TYPED_TEST_P(CommunicatorSuite, AWatchHearsOfOperationsAndChoosesTheirTimeouts) {
  this->ForEachGroup([&](const auto& group) {
    OnEveryRank(group, [&](Communicator& communicator) {
      CountingWatch watch;
      communicator.SetWatch(&watch);
      const CallOptions short_time = TypeParam::Options(absl::Nanoseconds(1));
      const SharedBuffer<TypeParam, float> data(16);
      EXPECT_EQ(communicator.Barrier(short_time), absl::OkStatus());
      EXPECT_EQ(communicator.AllReduceSum(data.span(), short_time), absl::OkStatus());
      EXPECT_EQ(watch.ended, 2);
      std::vector<int> members(communicator.size());
      std::iota(members.begin(), members.end(), 0);
      const auto part = communicator.Split(members, short_time);
      ASSERT_TRUE(part.ok()) << part.status();
      EXPECT_EQ(watch.ended, 3);
      EXPECT_EQ((*part)->Barrier(short_time), absl::OkStatus());
      EXPECT_EQ(watch.begun, 4);
      EXPECT_EQ(watch.ended, 4);
    });
  });
}

TYPED_TEST_P(CommunicatorSuite, RefusesToSplitIntoInvalidGroupsAndStaysUsable) {
  this->ForEachGroup([&](const auto& group) {
    OnEveryRank(group, [&](Communicator& communicator) {
      const int rank = communicator.rank(), size = communicator.size();
      for (const std::vector<int>& members :
           std::vector<std::vector<int>>{{}, {(rank + 1) % size, size}, {rank, -1}, {rank, rank}}) {
        EXPECT_TRUE(absl::IsInvalidArgument(
            communicator.Split(members, TypeParam::Options(kAmple)).status()));
      }
      const int alone[] = {rank};
      EXPECT_TRUE(absl::IsInvalidArgument(communicator.Split(alone, {}).status()))
          << "without a timeout";
      EXPECT_EQ(communicator.Barrier(TypeParam::Options(kAmple)), absl::OkStatus());
    });
  });
}

REGISTER_TYPED_TEST_SUITE_P(
    CommunicatorSuite, AllReduceGivesEveryRankTheRankOrderSum,
    ReduceScatterGivesEveryRankItsPartOfTheSum, AllGatherPutsEveryPartWhereItBelongs,
    BroadcastCopiesTheRoot, AllToAllTransposes, BarrierWaitsForAll,
    CountsTheBytesOfTheDirectAlgorithm, RefusesContradictingSizesAndStaysUsable,
    AbortWakesEveryWaitingRank, AbortFromAnotherThreadWakesItsOwnRank,
    ARankThatNeverComesEndsInADeadlineWithItsName, ARankThatLeavesNormallyDisturbsNoOther,
    ARankThatHasLeftIsReported, SplitsIntoGroupsNumberedAsTheirMembersAre,
    AGroupOutlivesWhatItWasSplitFromAndIsAbortedAlone, CountsASplitAsOneOperationWithoutPayload,
    AWatchHearsOfOperationsAndChoosesTheirTimeouts, RefusesToSplitIntoInvalidGroupsAndStaysUsable);

}  // namespace longhaul
