// On a CPU, and on a device whose streams run as late as events allow: what the queue does with
// torch's streams and events is what keeps computation and its works apart.
#include "worker/engine/stream_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status_marks.h"
#include "tests/testing/stream_communicator.h"
#include "tests/unit/worker/engine/late_device.h"
#include "tests/unit/worker/engine/run_ranks.h"

namespace longhaul {
namespace {

using testing::ElementsAre;

TEST(StreamQueueTest, RunsInOrder) {
  for (const bool threaded : {true, false}) {
    std::vector<int> done;
    const auto queue = threaded ? MakeStreamQueue(at::kCPU) : MakeImmediateQueue();
    EXPECT_TRUE(queue->Wait(0).ok());
    StreamQueue::Ticket last = 0;
    for (int i : {3, 2, 1}) {
      last = queue->Submit("work", [&done, i] {
        done.push_back(i);
        return absl::OkStatus();
      });
    }
    EXPECT_EQ(last, 3);
    EXPECT_TRUE(queue->Wait(last).ok());
    EXPECT_THAT(done, ElementsAre(3, 2, 1));
  }
}

TEST(StreamQueueTest, SubmitDoesNotWait) {
  absl::Notification submitted;
  const auto queue = MakeStreamQueue(at::kCPU);
  const auto wait = [&] {
    submitted.WaitForNotification();
    return absl::OkStatus();
  };
  queue->Submit("first", wait);
  const auto last = queue->Submit("second", wait);
  submitted.Notify();
  EXPECT_TRUE(queue->Wait(last).ok());
}

TEST(StreamQueueTest, WaitsForNoLaterWork) {
  absl::Notification may_go_on;
  const auto queue = MakeStreamQueue(at::kCPU);
  const auto first = queue->Submit("first", [] { return absl::OkStatus(); });
  const auto second = queue->Submit("second", [&] {
    may_go_on.WaitForNotification();
    return absl::OkStatus();
  });
  EXPECT_TRUE(queue->Wait(first).ok());
  may_go_on.Notify();
  EXPECT_TRUE(queue->Wait(second).ok());
}

TEST(StreamQueueTest, StopsAtTheFirstErrorAndNamesIt) {
  for (const bool threaded : {true, false}) {
    std::vector<int> done;
    const auto queue = threaded ? MakeStreamQueue(at::kCPU) : MakeImmediateQueue();
    const auto add = [&](int i) {
      done.push_back(i);
      return i == 1 ? absl::UnavailableError("rank 3 is gone") : absl::OkStatus();
    };
    queue->Submit("gathering layer 2", [&] { return add(2); });
    queue->Submit("gathering layer 1", [&] { return add(1); });
    const auto last = queue->Submit("gathering layer 0", [&] { return add(0); });
    const absl::Status expected = absl::UnavailableError("gathering layer 1: rank 3 is gone");
    EXPECT_EQ(queue->Wait(last), expected);
    EXPECT_EQ(queue->Wait(queue->Submit("more", [&] { return add(0); })), expected);
    EXPECT_THAT(done, ElementsAre(2, 1));
  }
}

TEST(StreamQueueTest, CatchesWhatWorkThrows) {
  const auto queue = MakeStreamQueue(at::kCPU);
  const auto ticket =
      queue->Submit("coding", []() -> absl::Status { throw std::runtime_error("no"); });
  EXPECT_EQ(queue->Wait(ticket), absl::InternalError("coding: no"));
}

TEST(StreamQueueTest, EndsWithWorkPending) {
  std::vector<int> done;
  absl::Notification started, may_end;
  {
    const auto queue = MakeStreamQueue(at::kCPU);
    queue->Submit("first", [&] {
      started.Notify();
      may_end.WaitForNotification();
      done.push_back(1);
      return absl::OkStatus();
    });
    queue->Submit("second", [&] {
      done.push_back(2);
      return absl::OkStatus();
    });
    started.WaitForNotification();
    may_end.Notify();
  }
  EXPECT_EQ(done.front(), 1);
}

constexpr int64_t kFloats = 50;
constexpr int kTurns = 6;

enum class Planted { kNothing, kNoFences, kNoWait };

// What ranks have after some turns in which they sum what each computed from its sum before.
std::vector<std::vector<float>> SumsOf(int ranks, uint64_t seed, Planted planted) {
  EmulatedStreams& streams = LateStreams();
  streams.Reseed(seed);
  std::vector<std::vector<float>> states(ranks);
  const std::shared_ptr<DeviceStreams> shared(&streams, [](DeviceStreams*) {});
  RunRanks(MakeStreamCommunicators(ranks, shared).value(), [&](int rank, Communicator& group) {
    TakeLateStream();
    void* const compute = CurrentLateStream();
    std::vector<float> values(kFloats, static_cast<float>(rank)), sum(kFloats);
    {
      // On a CPU the queue takes no events: its thread has a stream that nothing orders.
      const auto queue =
          MakeStreamQueue(planted == Planted::kNoFences ? c10::Device(c10::kCPU) : kLateDevice);
      for (int turn = 0; turn < kTurns; ++turn) {
        streams.Submit(compute, [&, turn] {
          for (int64_t i = 0; i < kFloats; ++i)
            sum[i] = values[i] / 3 + static_cast<float>((i + turn) % 7);
        });
        const auto ticket = queue->Submit("summing", [&] {
          return group.AllReduceSum(absl::MakeSpan(sum),
                                    {.timeout = absl::Seconds(60), .stream = CurrentLateStream()});
        });
        if (planted != Planted::kNoWait) {
          EXPECT_TRUE(queue->Wait(ticket).ok());
        }
        streams.Submit(compute, [&] {
          for (int64_t i = 0; i < kFloats; ++i) values[i] += sum[i];
        });
      }
      // All that uses the buffers.
      EXPECT_TRUE(queue
                      ->Wait(queue->Submit("ending",
                                           [&] {
                                             return streams.Wait(
                                                 *streams.Record(CurrentLateStream()),
                                                 SteadyTime() + absl::Seconds(60));
                                           }))
                      .ok());
    }
    EXPECT_TRUE(streams.Wait(*streams.Record(compute), SteadyTime() + absl::Seconds(60)).ok());
    states[rank] = values;
  });
  return states;
}

TEST(StreamQueueTest, HowLateADeviceRunsChangesNoBit) {
  const auto expected = SumsOf(3, 1, Planted::kNothing);
  EXPECT_NE(expected[0], expected[1]);
  for (uint64_t seed = 2; seed <= 20; ++seed)
    EXPECT_EQ(SumsOf(3, seed, Planted::kNothing), expected) << seed;
}

TEST(StreamQueueTest, AMissingFenceOrWaitIsFound) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "makes the race that ThreadSanitizer reports";
#endif
  const auto expected = SumsOf(3, 1, Planted::kNothing);
  for (const Planted planted : {Planted::kNoFences, Planted::kNoWait}) {
    int found = 0;
    for (uint64_t seed = 2; seed <= 20; ++seed) found += SumsOf(3, seed, planted) != expected;
    EXPECT_GE(found, 15) << static_cast<int>(planted);
  }
}

// What a consumer sums of batches that the queue brings, each while the one before is read.
std::vector<float> Consumed(int buffers, uint64_t seed) {
  EmulatedStreams& streams = LateStreams();
  streams.Reseed(seed);
  TakeLateStream();
  void* const compute = CurrentLateStream();
  std::vector<std::vector<float>> memory(buffers, std::vector<float>(kFloats));
  std::vector<float> sums(kFloats);
  {
    const auto queue =
        MakeStreamQueue(kLateDevice, {.track = Trace::Track::kStaging, .urgent = false});
    const auto bring = [&](int batch) {
      return queue->Submit("bringing a batch", [&, batch]() -> absl::Status {
        streams.Submit(CurrentLateStream(), [&, batch] {
          std::vector<float>& to = memory[batch % buffers];
          for (int64_t i = 0; i < kFloats; ++i) to[i] = static_cast<float>((batch + 1) * i);
        });
        return absl::OkStatus();
      });
    };
    StreamQueue::Ticket next = bring(0);
    for (int batch = 0; batch < kTurns; ++batch) {
      EXPECT_TRUE(queue->Wait(next).ok());
      next = bring(batch + 1);
      streams.Submit(compute, [&, batch] {
        const std::vector<float>& from = memory[batch % buffers];
        for (int64_t i = 0; i < kFloats; ++i) sums[i] = sums[i] / 2 + from[i];
      });
    }
    EXPECT_TRUE(queue->Wait(next).ok());
    EXPECT_TRUE(streams.Wait(*streams.Record(compute), SteadyTime() + absl::Seconds(60)).ok());
  }
  return sums;
}

TEST(StreamQueueTest, TwoBuffersSufficeForBatchesThatAreBroughtAhead) {
  std::vector<float> expected(kFloats);
  for (int batch = 0; batch < kTurns; ++batch) {
    for (int64_t i = 0; i < kFloats; ++i)
      expected[i] = expected[i] / 2 + static_cast<float>((batch + 1) * i);
  }
  int found = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(Consumed(2, seed), expected) << seed;
    found += Consumed(1, seed) != expected;
  }
  EXPECT_GT(found, 0) << "one buffer does not";
}

TEST(StreamQueueTest, ADeviceThatHangsIsToldApartFromAPeerThatIsLate) {
  TakeLateStream();
  absl::Notification ended;
  const auto queue = MakeStreamQueue(kLateDevice, {.patience = absl::Milliseconds(50)});
  const absl::Status late_peer = queue->Wait(queue->Submit("summing", [] {
    absl::SleepFor(absl::Milliseconds(300));
    return absl::OkStatus();
  }));
  EXPECT_TRUE(late_peer.ok()) << late_peer;
  const HungLateStream hung;
  const absl::Status status = queue->Wait(queue->Submit("summing", [&] {
    ended.WaitForNotification();
    return MarkPeerFault(absl::DeadlineExceededError("deadline passed"));
  }));
  EXPECT_EQ(status, absl::DeadlineExceededError("summing: the device has not done it after 50ms"));
  EXPECT_FALSE(IsPeerFault(status));
  ended.Notify();
}

// At Submit, before the work, behind it, at Wait; a destructor may be what waits.
TEST(StreamQueueTest, AnErrorOfTheDevicesEventsIsAnErrorOfTheQueue) {
  for (int events = 0; events < 4; ++events) {
    const auto queue = MakeStreamQueue(kLateDevice);
    FailLateEventsAfter(events);
    absl::Status first, again;
    EXPECT_NO_THROW({
      first = queue->Wait(queue->Submit("summing", [] { return absl::OkStatus(); }));
      again = queue->Wait(queue->Submit("more", [] { return absl::OkStatus(); }));
    }) << events;
    FailLateEventsAfter(-1);
    EXPECT_EQ(first.code(), absl::StatusCode::kInternal) << events << ": " << first;
    EXPECT_TRUE(absl::StrContains(first.message(), "the device has failed")) << first;
    EXPECT_EQ(again, first) << events;
  }
}

}  // namespace
}  // namespace longhaul
